//! Why a server or the connection to it failed, as the rest of a sentence that begins with "the store".
//!
//! Clients may see these words, so they contain no address, no key and no name of a user.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use ::redis::{ErrorKind, RedisError};
use idempotent_runtime::store::StoreErrorKind;

/// The reason for an error of the client; `None` for a rare error.
pub(crate) fn reason_for(error: &RedisError) -> Option<Cow<'static, str>> {
    if let Some((code, details)) = reply_of(error) {
        return reason_for_reply(effective_code(&code, &details), &details);
    }
    if let Some(io) = io_error(error) {
        return reason_for_io(io, ConnectPhase::Connected);
    }
    let text = error.detail().unwrap_or_default();
    Some(match error.kind() {
        ErrorKind::AuthenticationFailed => Cow::Borrowed(WRONG_PASSWORD),
        ErrorKind::MasterNameNotFoundBySentinel => {
            "knows no master of this name (compare the URL with `SENTINEL MASTERS`)".into()
        }
        ErrorKind::RESP3NotSupported => {
            "does not speak RESP3 (remove `protocol=3` from the URL)".into()
        }
        // Made by `link`: with the words of TLS, or without any.
        ErrorKind::InvalidClientConfig if text.is_empty() => {
            "does not know a command that begins a connection (`HELLO` with `protocol=3`, else \
             `AUTH` or `SELECT`)"
                .into()
        }
        ErrorKind::InvalidClientConfig => reason_for_tls(text).into(),
        ErrorKind::Parse => NOT_REDIS.into(),
        ErrorKind::UnexpectedReturnType => {
            "gave an answer of an unexpected type (is a proxy in between?)".into()
        }
        ErrorKind::Io if text.to_ascii_lowercase().contains("refused") => {
            "refused the connection at every node (are the servers running?)".into()
        }
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => NO_NODE.into(),
        _ => return None,
    })
}

const WRONG_PASSWORD: &str = "did not accept the user or the password (check both in the URL)";
const NO_PASSWORD: &str = "requires a password (write `user:password@` before the host in the URL)";
const NO_PERMISSION: &str =
    "does not let this user run a command of a script (`RedisStore` lists the permissions)";
const NOT_REDIS: &str = "gave an answer that is not in the Redis protocol (does another program listen on this port, or \
    does the port expect TLS? then write `rediss://`)";
const NO_NODE: &str = "has no node that answers for this key (see `CLUSTER INFO`)";

/// The code and the details of an error reply. The client hides them in the errors of pipelines.
pub(crate) fn reply_of(error: &RedisError) -> Option<(String, String)> {
    let replies = error.clone().into_server_errors();
    if let Some((_, reply)) = replies.as_deref().and_then(|replies| replies.first()) {
        let details = reply.details().unwrap_or_default();
        return Some((reply.code().to_owned(), details.to_owned()));
    }
    // The client drops the code of a refusal while connecting.
    let details = error.detail().unwrap_or_default();
    matches!(error.kind(), ErrorKind::Server(_)).then(|| ("ERR".to_owned(), details.to_owned()))
}

/// The code of an error reply, or the code of the error inside a script.
///
/// Before Redis 7 the text of a script's error contains the error of the failed command, as in
/// `ERR Error running script (call to f_…): @user_script:1: -READONLY You can't write …`.
pub(crate) fn effective_code<'a>(code: &'a str, details: &'a str) -> &'a str {
    if code != "ERR" || !details.to_ascii_lowercase().contains("script") {
        return code;
    }
    let mut words = details.split([' ', ':']);
    let inner = words.find_map(|word| {
        let word = word.trim_start_matches('-');
        meaning_of(word).is_some().then_some(word)
    });
    inner.unwrap_or(code)
}

macro_rules! codes {
    ($($($code:literal)|+ => $kind:ident, $reason:expr;)+) => {
        /// What the code of an error reply means: the kind of the store's error, and the reason. `None` for `ERR`, which has many meanings.
        pub(crate) fn meaning_of(code: &str) -> Option<(StoreErrorKind, &'static str)> {
            match code {
                $($($code)|+ => Some((StoreErrorKind::$kind, $reason)),)+
                _ => None,
            }
        }
    };
}

codes! {
    "MOVED" | "ASK" => NotApplied, "moved the key to another node of the cluster";
    "TRYAGAIN" => NotApplied, "is moving the key to another node of the cluster";
    "CLUSTERDOWN" => NotApplied, "is a cluster in which no primary serves this key (see `CLUSTER INFO`)";
    "LOADING" => NotApplied, "is still loading its data after a start";
    "MASTERDOWN" => NotApplied, "is a replica that lost its primary";
    "READONLY" => NotApplied, "is a read-only replica (connect to its primary)";
    "NOREPLICAS" => NotApplied, "refuses writes because too few replicas are in sync (see `min-replicas-to-write`)";
    "MISCONF" => NotApplied, "refuses writes because it cannot write to its disk (check the space on it)";
    "NOSCRIPT" => NotApplied, "has lost a script of the store (was it restarted?)";
    "BUSY" => NotApplied, "is busy with a long script";
    "OOM" => Full, "is out of memory (raise `maxmemory`, or remove keys)";
    "NOAUTH" => Misconfigured, NO_PASSWORD;
    "WRONGPASS" => Misconfigured, WRONG_PASSWORD;
    "DENIED" => Misconfigured, "is in protected mode and accepts local connections only (set a password on the server)";
    "NOPERM" => Misconfigured, NO_PERMISSION;
    "WRONGTYPE" => Misconfigured, "holds a value of another type under this key, such as a list, which another program wrote";
    "CROSSSLOT" => Misconfigured, "keeps the keys of one operation on several nodes";
}

fn reason_for_reply(code: &str, details: &str) -> Option<Cow<'static, str>> {
    match meaning_of(code) {
        Some(_) if code == "NOPERM" => return Some(reason_for_permission(details)),
        Some((_, reason)) => return Some(reason.into()),
        None => {}
    }
    let says = |text: &str| details.to_ascii_lowercase().contains(text);
    if says("permission") || says("the user executing the script can't") {
        return Some(reason_for_permission(details));
    }
    if says("unknown command") || says("unknown redis command") {
        let what = match quoted(details) {
            Some(command) => format!("the command `{command}`"),
            None => "a command that the store needs".to_owned(),
        };
        return Some(
            format!("does not know {what} (is it renamed, or the server too old?)").into(),
        );
    }
    let (_, reason) = REASONS.iter().find(|(text, _)| says(text))?;
    Some(Cow::Borrowed(reason))
}

/// Texts of `ERR` replies, and what they mean.
const REASONS: [(&str, &str); 4] = [
    ("operation not permitted", NO_PASSWORD),
    (
        "max number of clients",
        "has no room for another connection (raise `maxclients`)",
    ),
    (
        "db index is out of range",
        "has no database of this number (check the end of the URL)",
    ),
    (
        "cluster support disabled",
        "is one server and no cluster (write `redis://` instead of `redis-cluster://`)",
    ),
];

/// The missing permission, as an operator would allow it.
fn reason_for_permission(details: &str) -> Cow<'static, str> {
    let needed = if let Some((_, command)) = details.split_once("to run the ") {
        quoted(command).map(|command| (format!("run `{command}`"), format!("`+{command}`")))
    } else if details.contains("channel") {
        Some((
            "use this channel".to_owned(),
            "the channels of the prefix, such as `&idem:*`".to_owned(),
        ))
    } else if details.contains("key") {
        Some((
            "use this key".to_owned(),
            "the keys of the prefix, such as `~idem:*`".to_owned(),
        ))
    } else {
        None
    };
    match needed {
        Some((what, allow)) => format!("does not let this user {what} (allow {allow})").into(),
        None => NO_PERMISSION.into(),
    }
}

/// No command has a longer name.
const LONGEST_COMMAND: usize = 64;

/// The first quoted word, if it is the name of a command.
fn quoted(text: &str) -> Option<&str> {
    let word = text.split(['\'', '`']).nth(1)?;
    let is_part = |char: char| char.is_ascii_alphanumeric() || "|._-".contains(char);
    ((1..=LONGEST_COMMAND).contains(&word.len()) && word.chars().all(is_part)).then_some(word)
}

fn reason_for_tls(text: &str) -> &'static str {
    if text.contains("corrupt message") {
        "does not speak TLS on this port (use its TLS port, or write `redis://`)"
    } else if text.contains("UnknownIssuer") {
        "shows a certificate of an unknown authority (give its certificate to \
         `RedisOptions::root_certificates`)"
    } else if text.contains("not valid for name") {
        "shows a certificate for other names than the host in the URL"
    } else if text.contains("Expired") || text.contains("expired") {
        "shows a certificate that has expired"
    } else {
        "failed the TLS handshake (check the certificates of both sides)"
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectPhase {
    Connecting,
    Connected,
}

fn reason_for_io(error: &io::Error, phase: ConnectPhase) -> Option<Cow<'static, str>> {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkUnreachable, NotConnected, NotFound, PermissionDenied, TimedOut, UnexpectedEof,
    };

    if let Some(inner) = error.get_ref() {
        if let Some(Unavailable(reason)) = inner.downcast_ref() {
            return Some(Cow::Borrowed(*reason));
        }
        if let Some(inner) = inner.downcast_ref::<RedisError>() {
            return match io_error(inner) {
                Some(io) => reason_for_io(io, ConnectPhase::Connecting),
                None => reason_for(inner),
            };
        }
    }
    Some(Cow::Borrowed(match (error.kind(), phase) {
        (ConnectionRefused, _) => "refused the connection (is the server running?)",
        (NotFound, _) => "has no socket at this path (is the server running?)",
        (PermissionDenied, _) => {
            "did not let this process open its socket (check who may write to it)"
        }
        (HostUnreachable | NetworkUnreachable, _) => {
            "cannot be reached (check the address and the network)"
        }
        (TimedOut, ConnectPhase::Connecting) => {
            "did not answer in time to a new connection (check host, port, TLS and firewall)"
        }
        (TimedOut, ConnectPhase::Connected) => "did not answer in time",
        (
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof,
            ConnectPhase::Connecting,
        ) => "closed a new connection (does this port expect TLS? then write `rediss://`)",
        (
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof,
            ConnectPhase::Connected,
        ) => "closed the connection before it answered (was the server stopped?)",
        _ if error.to_string().contains("lookup address") => {
            "has a host name that no name server knows (check the host in the URL)"
        }
        _ => return None,
    }))
}

/// Whether an attempt to connect ended without an answer.
pub(crate) fn is_unanswered(error: &RedisError) -> bool {
    let Some(error) = io_error(error) else {
        return false;
    };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    error.kind() == io::ErrorKind::TimedOut || inner.is_some_and(is_unanswered)
}

/// The error of the operating system inside an error of the client.
pub(crate) fn io_error(error: &RedisError) -> Option<&io::Error> {
    error
        .source()?
        .downcast_ref::<SharedSource>()?
        .downcast_ref()
}

/// The type in which the client stores the cause of an error.
type SharedSource = Arc<dyn Error + Send + Sync>;

/// A server that cannot be used now, for this reason.
#[derive(Debug)]
pub(crate) struct Unavailable(pub(crate) &'static str);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server cannot be used now")
    }
}

impl Error for Unavailable {}

#[cfg(test)]
mod tests {
    use ::redis::{Value, parse_redis_value};

    use super::*;

    #[test]
    fn each_reply_has_its_reason() {
        let run =
            |command: &str| format!("does not let this user run `{command}` (allow `+{command}`)");
        for (reply, reason) in [
            ("LOADING Redis is loading", "is still loading its data after a start".to_owned()),
            ("MASTERDOWN Link with MASTER is down", "is a replica that lost its primary".to_owned()),
            ("WRONGPASS invalid username-password pair", WRONG_PASSWORD.to_owned()),
            ("ERR operation not permitted", NO_PASSWORD.to_owned()),
            ("NOPERM User shop has no permissions to run the 'set' command", run("set")),
            (
                "NOPERM this user has no permissions to run the 'config|get' command or its subcommand",
                run("config|get"),
            ),
            (
                "ERR ACL failure in script: User shop has no permissions to run the 'get' command script: 1f",
                run("get"),
            ),
            (
                "NOPERM this user has no permissions to access one of the channels used as arguments",
                "does not let this user use this channel (allow the channels of the prefix, such as `&idem:*`)"
                    .to_owned(),
            ),
            (
                "ERR unknown command `EVALSHA`, with args beginning with: `s3cret`",
                "does not know the command `EVALSHA` (is it renamed, or the server too old?)".to_owned(),
            ),
            (
                "ERR Error running script (call to f_1f): @user_script: 6: -READONLY You can't",
                "is a read-only replica (connect to its primary)".to_owned(),
            ),
            (
                "ERR max number of clients reached",
                "has no room for another connection (raise `maxclients`)".to_owned(),
            ),
        ] {
            let parsed = parse_redis_value(format!("-{reply}\r\n").as_bytes());
            let error = parsed.and_then(Value::extract_error).expect_err(reply);
            assert_eq!(reason_for(&error).as_deref(), Some(&*reason), "{reply}");
        }
        let rare = RedisError::from((ErrorKind::Client, "rare"));
        assert_eq!(reason_for(&rare), None);
    }

    #[test]
    fn each_failure_of_tls_has_its_reason() {
        for (text, reason) in [
            (
                "received corrupt message of type InvalidContentType",
                "does not speak TLS on this port",
            ),
            (
                "invalid peer certificate: UnknownIssuer",
                "shows a certificate of an unknown authority",
            ),
            (
                "invalid peer certificate: certificate not valid for name \"a\"",
                "shows a certificate for other names",
            ),
            (
                "invalid peer certificate: Expired",
                "shows a certificate that has expired",
            ),
            ("received fatal alert", "failed the TLS handshake"),
        ] {
            assert!(reason_for_tls(text).starts_with(reason), "{text}");
        }
    }
}
