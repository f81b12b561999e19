//! A script: several commands as one atomic step of the server.
//!
//! A script writes at most once, as the last command that can fail, so a failed script has changed nothing. Scripts that write
//! more explain how they ensure this. All keys of a script share a slot.
//!
//! A script returns no long value, or limits how many bytes it returns by an argument (`-1` for all), because another program
//! may have stored a gigabyte under the key.
//!
//! The notification after the write cannot fail a script: `pcall` turns every error into a value, for example a missing
//! permission, and the script ignores it. A notification before the write could announce a change that the server then refuses.

use std::sync::LazyLock;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{Arg, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

/// A script and its hash.
pub(super) struct Script {
    source: &'static str,
    hash: LazyLock<String>,
}

impl Script {
    pub(super) const fn new(source: &'static str, hash: fn() -> String) -> Self {
        Self {
            source,
            hash: LazyLock::new(hash),
        }
    }

    /// Runs the script by its hash, and by its source if the server does not have it.
    ///
    /// `SCRIPT LOAD` would go to all nodes of a cluster and fail if one is down.
    pub(super) async fn run<C: ConnectionLike>(
        &self,
        connection: &mut C,
        keys: &[&str],
        args: &[&[u8]],
    ) -> RedisResult<Value> {
        let call = self.by_hash(keys, args);
        match send(connection, &call).await {
            Err(error) if Self::is_unknown(&error) => {
                // Boxed, because this is rare and the future of each command would have room for it.
                let again = async { send(connection, &self.by_source(keys, args)).await };
                Box::pin(again).await
            }
            reply => reply,
        }
    }

    pub(super) fn by_hash(&self, keys: &[&str], args: &[&[u8]]) -> Cmd {
        call("EVALSHA", &self.hash, keys, args)
    }

    pub(super) fn by_source(&self, keys: &[&str], args: &[&[u8]]) -> Cmd {
        call("EVAL", self.source, keys, args)
    }

    /// A call by hash as a call by source, with the same keys and arguments.
    pub(super) fn again_by_source(&self, call: &Cmd) -> Cmd {
        let mut again = Cmd::new();
        again.arg("EVAL").arg(self.source);
        for arg in call.args_iter().skip(2) {
            if let Arg::Simple(arg) = arg {
                again.arg(arg);
            }
        }
        again
    }

    /// Whether the error means that the server does not have the script.
    pub(super) fn is_unknown(error: &RedisError) -> bool {
        error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
    }
}

fn call(command: &str, script: &str, keys: &[&str], args: &[&[u8]]) -> Cmd {
    let keys = keys.iter().map(|key| key.as_bytes());
    let number = keys.len();
    let parts = keys.chain(args.iter().copied());
    let lengths = parts.clone().map(<[u8]>::len);
    let bytes = command.len() + script.len() + MOST_DIGITS + lengths.sum::<usize>();
    let mut call = Cmd::with_capacity(3 + number + args.len(), bytes);
    call.arg(command).arg(script).arg(number);
    for part in parts {
        call.arg(part);
    }
    call
}

/// The most digits of a number in a command.
pub(super) const MOST_DIGITS: usize = 20;

/// Sends one command. An error reply is an error.
pub(super) async fn send<C: ConnectionLike>(
    connection: &mut C,
    command: &Cmd,
) -> RedisResult<Value> {
    let reply = connection.req_packed_command(command).await;
    reply.and_then(Value::extract_error)
}

pub(super) fn hash(script: &Script) -> String {
    ::redis::Script::new(script.source).get_hash().to_owned()
}

/// The channel for no notification.
pub(super) const SILENT: &str = "";

/// The longest time to live that is sent. A server refuses a time that overflows its clock.
const THOUSAND_YEARS: u64 = 1000 * 365 * 24 * 60 * 60 * 1000;

/// `ttl` in whole milliseconds, rounded up: a record may live too long, but never too short.
pub(super) fn millis(ttl: Duration) -> u64 {
    let millis = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(THOUSAND_YEARS, |millis| millis.clamp(1, THOUSAND_YEARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_rounded_up_and_capped() {
        for (ttl, expected) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_nanos(1_000_001), 2),
            (Duration::from_secs(30), 30_000),
            (Duration::MAX, THOUSAND_YEARS),
        ] {
            assert_eq!(millis(ttl), expected, "{ttl:?}");
        }
    }
}
