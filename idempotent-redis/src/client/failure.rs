//! Turns errors of the client into errors of the store.

use std::borrow::Cow;
use std::sync::Arc;

use ::redis::{ErrorKind, RedisError};
use idempotent_runtime::port::redis::{foreign_record, server_error};
use idempotent_runtime::store::{StoreError, StoreErrorKind};

use crate::client::reason::{effective_code, meaning_of, reason_for, reply_of};

/// The common parts of the errors of one store.
#[derive(Clone)]
pub(crate) struct Failures {
    /// The place of the store, without a password.
    pub(crate) place: Arc<str>,
    /// Whether the client sends a command only once. The client of a cluster may repeat a command. The last answer then says
    /// nothing about the earlier sends.
    pub(crate) sends_once: bool,
}

impl Failures {
    /// The error of an operation.
    pub(crate) fn of_operation(&self, error: RedisError) -> StoreError {
        if self.sends_once && matches!(error.code(), Some("MOVED" | "ASK")) {
            let reason =
                "is one node of a cluster and does not have this key (write `redis-cluster://`)";
            return server_error(StoreErrorKind::Misconfigured, error)
                .reason(reason)
                .place(self.place.to_string());
        }
        let kind = match kind_of(&error) {
            StoreErrorKind::NotApplied if !self.sends_once => StoreErrorKind::Unknown,
            kind => kind,
        };
        with_reason(kind, error).place(self.place.to_string())
    }
}

/// The error of connecting to `place`, or of the checks before the first operation.
pub(crate) fn of_connection(error: RedisError, place: &str) -> StoreError {
    with_reason(kind_of(&error), error).place(place.to_owned())
}

fn with_reason(kind: StoreErrorKind, error: RedisError) -> StoreError {
    let reason = reason_for(&error);
    let is_foreign = reply_of(&error)
        .is_some_and(|(code, details)| effective_code(&code, &details) == "WRONGTYPE");
    let mut error = server_error(kind, error);
    if is_foreign {
        error = foreign_record(error);
    }
    match reason {
        Some(reason) => error.reason(reason),
        None => error,
    }
}

/// A refusal by this crate. The text is `subject` and then `reason`.
pub(crate) fn refused(
    subject: impl Into<Cow<'static, str>>,
    reason: impl Into<Cow<'static, str>>,
) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "see `RedisStore::connect`")
        .reason(reason)
        .place(subject)
}

/// A refusal of the URL. The text repeats no part of the URL: in a malformed URL any part may belong to the password.
pub(crate) fn bad_url(reason: impl Into<Cow<'static, str>>) -> StoreError {
    refused("the Redis URL", reason)
}

pub(crate) fn kind_of(error: &RedisError) -> StoreErrorKind {
    if let Some((code, details)) = reply_of(error) {
        return kind_of_reply(effective_code(&code, &details), &details);
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::EmptySentinelList
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::RESP3NotSupported => StoreErrorKind::Misconfigured,
        _ if error.is_connection_refusal() => StoreErrorKind::NotApplied,
        _ => StoreErrorKind::Unknown,
    }
}

/// Whether the user may not send the command, by an ACL or because the command is renamed.
pub(crate) fn is_forbidden(error: &RedisError) -> bool {
    let forbidden = error.code() == Some("NOPERM") || error.code() == Some("ERR");
    forbidden && kind_of(error) == StoreErrorKind::Misconfigured
}

fn kind_of_reply(code: &str, details: &str) -> StoreErrorKind {
    match meaning_of(code) {
        Some((kind, _)) => kind,
        None if code == "ERR" && is_misconfiguration(details) => StoreErrorKind::Misconfigured,
        None => StoreErrorKind::Unknown,
    }
}

/// Whether the text of an `ERR` reply means that sending again does not help.
fn is_misconfiguration(details: &str) -> bool {
    let details = details.to_ascii_lowercase();
    [
        "unknown command",
        "unknown redis command",
        "unknown subcommand",
        "syntax error",
        "the user executing the script can't",
        "acl failure in script",
        "operation not permitted",
        "db index is out of range",
        "cluster support disabled",
        "has no permissions",
    ]
    .into_iter()
    .any(|text| details.contains(text))
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use ::redis::{make_extension_error, parse_redis_value};

    use super::*;

    fn failures(sends_once: bool) -> Failures {
        Failures {
            place: Arc::from("redis"),
            sends_once,
        }
    }

    #[test]
    fn each_reply_has_its_kind() {
        use StoreErrorKind::{Full, Misconfigured, NotApplied, Unknown};

        for (reply, kind) in [
            ("MOVED 3999 127.0.0.1:6381", NotApplied),
            ("ASK 3999 127.0.0.1:6381", NotApplied),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                NotApplied,
            ),
            ("CLUSTERDOWN The cluster is down", NotApplied),
            ("LOADING Redis is loading the dataset in memory", NotApplied),
            ("MASTERDOWN Link with MASTER is down", NotApplied),
            (
                "READONLY You can't write against a read only replica.",
                NotApplied,
            ),
            ("NOREPLICAS Not enough good replicas to write.", NotApplied),
            ("MISCONF Errors writing to the AOF file", NotApplied),
            ("NOSCRIPT No matching script.", NotApplied),
            ("BUSY Redis is busy running a script.", NotApplied),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Full,
            ),
            ("NOAUTH Authentication required.", Misconfigured),
            (
                "DENIED Redis is running in protected mode because",
                Misconfigured,
            ),
            (
                "ERR This instance has cluster support disabled",
                Misconfigured,
            ),
            ("WRONGPASS invalid username-password pair", Misconfigured),
            (
                "NOPERM this user has no permissions to run the 'set' command",
                Misconfigured,
            ),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                Misconfigured,
            ),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                Misconfigured,
            ),
            (
                "ERR unknown command 'EVALSHA', with args beginning with:",
                Misconfigured,
            ),
            (
                "ERR Unknown Redis command called from script script: 1f",
                Misconfigured,
            ),
            ("ERR syntax error", Misconfigured),
            ("ERR operation not permitted", Misconfigured),
            (
                "ERR ACL failure in script: this user has no permissions",
                Misconfigured,
            ),
            ("ERR max number of clients reached", Unknown),
            (
                "ERR the name READONLY in a message that is not of a scr1pt",
                Unknown,
            ),
            ("UNBLOCKED client unblocked", Unknown),
            ("EXECABORT Transaction discarded", Unknown),
            (
                "ERR Error running script (call to f_1f): @user_script:1: OOM command not allowed",
                Full,
            ),
            (
                "ERR Error running script (call to f_1f): @user_script: 6: -READONLY You can't",
                NotApplied,
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:1: WRONGTYPE Operation",
                Misconfigured,
            ),
            (
                "ERR Error running script (call to f_1f): @user_script: 4: @user_script: 4: -MISCONF",
                NotApplied,
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:1: The user executing the \
                 script can't run this command or subcommand",
                Misconfigured,
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:1: user_script:1: x",
                Unknown,
            ),
        ] {
            let parsed = parse_redis_value(format!("-{reply}\r\n").as_bytes())
                .and_then(::redis::Value::extract_error);
            let error = parsed.expect_err("an error reply");
            assert_eq!(kind_of(&error), kind, "{reply}");
        }
    }

    #[test]
    fn each_error_of_the_client_has_its_kind() {
        let io = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
        let unknown = StoreErrorKind::Unknown;
        assert_eq!(
            kind_of(&io(io::ErrorKind::ConnectionRefused)),
            StoreErrorKind::NotApplied
        );
        assert_eq!(kind_of(&io(io::ErrorKind::ConnectionReset)), unknown);
        assert_eq!(kind_of(&io(io::ErrorKind::TimedOut)), unknown);
        assert_eq!(kind_of(&io(io::ErrorKind::BrokenPipe)), unknown);
        assert_eq!(
            kind_of(&make_extension_error("NEW".to_owned(), None)),
            unknown
        );
        let parse = RedisError::from((ErrorKind::Parse, "no reply"));
        assert_eq!(kind_of(&parse), unknown);
        let password = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        assert_eq!(kind_of(&password), StoreErrorKind::Misconfigured);
        let name = RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "no"));
        assert_eq!(kind_of(&name), StoreErrorKind::Misconfigured);
        let node = RedisError::from((ErrorKind::ClusterConnectionNotFound, "no"));
        assert_eq!(kind_of(&node), unknown);
    }

    #[test]
    fn a_client_that_repeats_commands_cannot_say_that_nothing_was_applied() {
        let refused = || RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        let (once, again) = (failures(true), failures(false));
        let kind = |failures: &Failures, error| failures.of_operation(error).kind();
        assert_eq!(kind(&once, refused()), StoreErrorKind::NotApplied);
        assert_eq!(kind(&again, refused()), StoreErrorKind::Unknown);
        let oom = make_extension_error("OOM".to_owned(), None);
        assert_eq!(kind(&again, oom), StoreErrorKind::Full);
    }

    #[test]
    fn a_long_or_unprintable_text_of_the_server_is_cut_and_escaped() {
        for code in ["ERR", "MOVED"] {
            let text = format!("unknown command '{}'", "x".repeat(1_000_000));
            let error = make_extension_error(code.to_owned(), Some(text));
            let error = failures(true).of_operation(error);
            let source = error.source().expect("the error of the client");
            for text in [error.to_string(), source.to_string(), format!("{error:?}")] {
                assert!(text.len() < 2_000, "{code}: {}", text.len());
            }
        }
        let error = make_extension_error("ERR".to_owned(), Some("a\n\x1b[31mb é".to_owned()));
        let error = failures(true).of_operation(error);
        let text = error.source().expect("an error").to_string();
        assert!(text.contains("a\\n\\u{1b}[31mb é"), "{text}");
        // The error of the client stays, if it is short.
        let short = failures(true).of_operation(make_extension_error("OOM".to_owned(), None));
        let source = short.source().expect("an error");
        assert!(source.downcast_ref::<RedisError>().is_some());
    }

    #[test]
    fn the_error_of_a_client_of_one_server_names_the_cluster_url() {
        for code in ["MOVED", "ASK"] {
            let moved = || make_extension_error(code.to_owned(), Some("1 127.0.0.1:1".to_owned()));
            let error = failures(true).of_operation(moved());
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.to_string().contains("redis-cluster://"), "{error}");
            let by_a_cluster = failures(false).of_operation(moved());
            assert_eq!(by_a_cluster.kind(), StoreErrorKind::Unknown);
        }
    }
}
