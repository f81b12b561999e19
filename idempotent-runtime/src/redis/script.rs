//! A script, by which a server does several things in one step.
//!
//! Each writes at most once, as the last act that may fail, so that a script that failed has changed nothing; those that
//! write more say themselves how they keep to that. The keys of each share a slot.
//!
//! Of what stands under a key each gives as many bytes as an argument says, `-1` for all: who put it there may have
//! put a gigabyte.
//!
//! The hint that follows the write cannot fail a script: `pcall` makes a value of every error, of a
//! publish that is not allowed or not known, too, and the script does not look at it. Before the
//! write it would tell of changes that the server then refused.

use std::sync::LazyLock;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, cmd};

/// A script, and the hash by which a server knows it.
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

    /// Runs it by its hash, or by its source if the server does not know it (yet, or any more).
    ///
    /// Not by `SCRIPT LOAD`: in a cluster that goes to all nodes and fails if one of them is away.
    pub(super) async fn run<C: ConnectionLike>(
        &self,
        connection: &mut C,
        keys: &[&str],
        args: &[&[u8]],
    ) -> RedisResult<Value> {
        let reply = self.by_hash(keys, args).query_async(connection).await;
        match reply {
            Err(error) if Self::is_unknown(&error) => {
                self.by_source(keys, args).query_async(connection).await
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

    /// Whether the server does not know the script by its hash.
    pub(super) fn is_unknown(error: &RedisError) -> bool {
        error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
    }
}

fn call(command: &str, script: &str, keys: &[&str], args: &[&[u8]]) -> Cmd {
    let mut call = cmd(command);
    call.arg(script).arg(keys.len()).arg(keys);
    for arg in args {
        call.arg(*arg);
    }
    call
}

pub(super) fn hash(script: &Script) -> String {
    ::redis::Script::new(script.source).get_hash().to_owned()
}

/// The channel on which nothing is told.
pub(super) const SILENT: &str = "";

/// The longest time to live that is asked for; a server refuses one that overflows its clock.
const THOUSAND_YEARS: u64 = 1000 * 365 * 24 * 60 * 60 * 1000;

/// `ttl` in whole milliseconds, rounded up: a record may live too long, never too short.
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
