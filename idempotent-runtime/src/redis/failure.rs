//! What an error of the client says about the operation.

use std::fmt;

use ::redis::{ErrorKind, RedisError};

use crate::store::{StoreError, StoreErrorKind};

/// Turns errors of the client into errors of the store.
#[derive(Clone, Copy)]
pub(super) struct Failure {
    /// Whether an error is about the only time that the command was sent. A cluster's client sends
    /// again by itself: the last answer says nothing about the sends before it.
    pub(super) sends_once: bool,
}

impl Failure {
    pub(super) fn of(self, error: RedisError) -> StoreError {
        if self.sends_once && matches!(error.code(), Some("MOVED" | "ASK")) {
            let what = "this server is a node of a cluster: connect by `redis-cluster://`";
            return misconfigured(what, error);
        }
        let kind = match kind_of(&error) {
            StoreErrorKind::NotApplied if !self.sends_once => StoreErrorKind::Unknown,
            kind => kind,
        };
        StoreError::new(kind, error)
    }
}

pub(super) fn kind_of(error: &RedisError) -> StoreErrorKind {
    // A pipeline keeps the codes of its replies to itself, but for this way to them.
    let replies = error.clone().into_server_errors();
    if let Some((_, reply)) = replies.as_deref().and_then(|replies| replies.first()) {
        return kind_of_reply(reply.code(), reply.details().unwrap_or_default());
    }
    match error.kind() {
        // What was refused while connecting is kept without its code.
        ErrorKind::Server(_) => kind_of_reply("ERR", error.detail().unwrap_or_default()),
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::EmptySentinelList
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::RESP3NotSupported => StoreErrorKind::Misconfigured,
        _ if error.is_connection_refusal() => StoreErrorKind::NotApplied,
        _ => StoreErrorKind::Unknown,
    }
}

/// Whether the command is kept from this user, by an ACL or by being renamed.
pub(super) fn is_forbidden(error: &RedisError) -> bool {
    let forbidden = error.code() == Some("NOPERM") || error.code() == Some("ERR");
    forbidden && kind_of(error) == StoreErrorKind::Misconfigured
}

/// What was tried, and the error that the client met.
pub(super) fn failed(what: &str, error: RedisError) -> StoreError {
    let what = what.to_owned();
    StoreError::new(kind_of(&error), Failed { what, error })
}

/// An error that no other try will mend, whatever the client calls it.
pub(super) fn misconfigured(what: &str, error: RedisError) -> StoreError {
    let what = what.to_owned();
    StoreError::new(StoreErrorKind::Misconfigured, Failed { what, error })
}

/// A refusal in words of this crate.
pub(super) fn refused(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, message.to_owned())
}

fn kind_of_reply(code: &str, details: &str) -> StoreErrorKind {
    if let Some(kind) = kind_of_code(code) {
        return kind;
    }
    if code != "ERR" {
        return StoreErrorKind::Unknown;
    }
    let says = |text: &str| details.to_ascii_lowercase().contains(text);
    // Before Redis 7 a command that fails in a script is told in the text of the script's error, as
    // in `ERR Error running script (call to f_…): @user_script:1: -READONLY You can't write …`.
    if says("script") {
        let told = details
            .split([' ', ':'])
            .find_map(|word| kind_of_code(word.trim_start_matches('-')));
        if let Some(kind) = told {
            return kind;
        }
    }
    let misconfigured = [
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
    ];
    if misconfigured.into_iter().any(says) {
        StoreErrorKind::Misconfigured
    } else {
        StoreErrorKind::Unknown
    }
}

/// What a reply with this code says, whatever else is in it.
fn kind_of_code(code: &str) -> Option<StoreErrorKind> {
    Some(match code {
        "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY"
        | "NOREPLICAS" | "MISCONF" | "NOSCRIPT" | "BUSY" => StoreErrorKind::NotApplied,
        "OOM" => StoreErrorKind::Full,
        "NOAUTH" | "WRONGPASS" | "DENIED" | "NOPERM" | "WRONGTYPE" | "CROSSSLOT" => {
            StoreErrorKind::Misconfigured
        }
        _ => return None,
    })
}

/// An error of the client, and what was tried.
#[derive(Debug)]
struct Failed {
    what: String,
    error: RedisError,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use ::redis::{make_extension_error, parse_redis_value};

    use super::*;

    #[test]
    fn replies_are_told_apart() {
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
    fn what_the_client_says_itself() {
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
    fn a_client_that_sends_again_is_sure_of_less() {
        let refused = || RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        let once = Failure { sends_once: true };
        let again = Failure { sends_once: false };
        assert_eq!(once.of(refused()).kind(), StoreErrorKind::NotApplied);
        assert_eq!(again.of(refused()).kind(), StoreErrorKind::Unknown);
        let oom = make_extension_error("OOM".to_owned(), None);
        assert_eq!(again.of(oom).kind(), StoreErrorKind::Full);
    }

    #[test]
    fn a_node_of_a_cluster_is_no_place_for_a_client_of_one_server() {
        for code in ["MOVED", "ASK"] {
            let moved = || make_extension_error(code.to_owned(), Some("1 127.0.0.1:1".to_owned()));
            let error = Failure { sends_once: true }.of(moved());
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(format!("{error:?}").contains("redis-cluster://"));
            let by_a_cluster = Failure { sends_once: false }.of(moved());
            assert_eq!(by_a_cluster.kind(), StoreErrorKind::Unknown);
        }
    }
}
