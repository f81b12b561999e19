//! What a failed request says about its operation.

use std::error::Error as StdError;

use idempotent_runtime::port::etcd::server_error;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use tonic::{Code, ConnectError, Status};

use StoreErrorKind::{Full, Misconfigured, NotApplied, Unknown};

/// The error of a URL or of its parameters. `reason` repeats no part of the URL.
pub(crate) fn bad_url(reason: &'static str) -> StoreError {
    StoreError::new(Misconfigured, reason)
        .reason(reason)
        .place("the etcd URL")
}

/// The error of a request that failed with this status.
pub(crate) fn error(status: &Status) -> StoreError {
    let (kind, reason) = judge(status);
    // Without the rest of the status, such as the headers of the answer.
    let answer = Status::new(status.code(), status.message());
    let error = server_error(kind, answer);
    match reason {
        "" => error,
        reason => error.reason(reason),
    }
}

/// Whether the lease of the request has expired or was lost.
pub(crate) fn is_lease_gone(status: &Status) -> bool {
    status.code() == Code::NotFound && status.message().contains("lease not found")
}

/// Whether the request was not carried out, and another member or a new token may change that.
pub(crate) fn is_unsent(status: &Status) -> bool {
    is_stale_token(status) || judge(status).0 == NotApplied && !is_lease_gone(status)
}

/// Whether the token of the user must be renewed.
pub(crate) fn is_stale_token(status: &Status) -> bool {
    status.code() == Code::Unauthenticated || status.message().contains("auth store is old")
}

/// Whether the cluster has no users.
pub(crate) fn is_auth_off(status: &Status) -> bool {
    status.message().contains("authentication is not enabled")
}

/// What is known about the operation, and the reason of its error, or `""`.
pub(crate) fn judge(status: &Status) -> (StoreErrorKind, &'static str) {
    let text = status.message();
    if is_unreached(status) {
        return (NotApplied, "cannot be reached");
    }
    match status.code() {
        // Not etcd says so but the login.
        Code::Aborted => (NotApplied, "did not log the user in"),
        Code::Unavailable if text.contains("no leader") => (
            NotApplied,
            "has no leader: most of its members cannot be reached",
        ),
        Code::Unavailable if text.contains("for learner") => {
            (NotApplied, "has a member that does not vote yet")
        }
        Code::ResourceExhausted if text.contains("too many requests") => {
            (NotApplied, "has too many requests")
        }
        Code::ResourceExhausted if text.contains("space exceeded") => {
            (Full, "has no room: its database has reached its quota")
        }
        Code::ResourceExhausted => (Full, "refused a record that is too large for it"),
        Code::InvalidArgument if text.contains("too large") => {
            (Full, "refused a record that is too large for it")
        }
        _ if is_lease_gone(status) => (NotApplied, "has lost the lease of the record"),
        Code::DataLoss if text.contains("corrupt") => {
            (Misconfigured, "refuses requests because it is corrupt")
        }
        Code::PermissionDenied => (Misconfigured, "does not allow this user the key"),
        Code::Unauthenticated => (Misconfigured, "refused the user's token"),
        Code::InvalidArgument if text.contains("user") => (
            Misconfigured,
            "refused the name or the password of the user",
        ),
        Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented => {
            (Misconfigured, "")
        }
        _ => (Unknown, ""),
    }
}

/// Whether there was no connection for the request.
fn is_unreached(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_that_was_certainly_not_carried_out_is_not_applied() {
        for (code, text, kind) in [
            (Code::Unavailable, "etcdserver: no leader", NotApplied),
            (
                Code::Unavailable,
                "etcdserver: rpc not supported for learner",
                NotApplied,
            ),
            (Code::Unavailable, "etcdserver: request timed out", Unknown),
            (Code::Unavailable, "etcdserver: leader changed", Unknown),
            (Code::Unavailable, "etcdserver: server stopped", Unknown),
            (Code::Unavailable, "transport error", Unknown),
            (Code::Unknown, "h2 protocol error", Unknown),
            (Code::Cancelled, "", Unknown),
            (Code::DeadlineExceeded, "", Unknown),
            (Code::Internal, "", Unknown),
            (
                Code::ResourceExhausted,
                "etcdserver: too many requests",
                NotApplied,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Full,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: request is too large",
                Full,
            ),
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                NotApplied,
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                Misconfigured,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                Misconfigured,
            ),
        ] {
            assert_eq!(error(&Status::new(code, text)).kind(), kind, "{text}");
        }
    }

    #[test]
    fn the_text_of_a_server_is_escaped_and_cut() {
        let status = Status::new(Code::Internal, format!("a\n{}", "b".repeat(10_000)));
        let source = error(&status).source().expect("a source").to_string();
        assert!(source.len() < 400 && !source.contains('\n'), "{source}");
    }
}
