//! The scripts: each touches one key and writes at most once, as the last act that may fail, so that a
//! script that failed has changed nothing.
//!
//! The hint that follows the write cannot fail a script: `pcall` makes a value of every error, of a
//! publish that is not allowed or not known, too, and the script does not look at it. Before the
//! write it would tell of changes that the server then refused.

use std::sync::LazyLock;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value, cmd};

/// `1`: claimed. Bytes: what stands there.
pub(super) static CLAIM: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if current == ARGV[1] then return 1 end
return current",
    || hash(&CLAIM),
);

/// What stands there, if anything, and how long it will.
///
/// Not two commands at once: where a slot is on its way to another node, only the first is let in.
pub(super) static READ: Script = Script::new(
    "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}",
    || hash(&READ),
);

/// `1`: done. Nil: absent. Bytes: what stands there.
///
/// Renewing is a `PEXPIRE`, because a server that is out of memory refuses every `SET`. The last
/// argument is the channel for the hint; empty for none.
pub(super) static REPLACE: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then return false end
if current == ARGV[1] then
  if ARGV[1] == ARGV[2] then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  else
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    if ARGV[4] ~= '' then redis.pcall('PUBLISH', ARGV[4], '') end
  end
  return 1
end
if current == ARGV[2] then return 1 end
return current",
    || hash(&REPLACE),
);

/// `1`: done. Nil: absent. Bytes: what stands there.
///
/// The last argument is the channel for the hint; empty for none.
pub(super) static REMOVE: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then return false end
if current == ARGV[1] then
  redis.call('DEL', KEYS[1])
  if ARGV[2] ~= '' then redis.pcall('PUBLISH', ARGV[2], '') end
  return 1
end
return current",
    || hash(&REMOVE),
);

pub(super) struct Script {
    source: &'static str,
    hash: LazyLock<String>,
}

impl Script {
    const fn new(source: &'static str, hash: fn() -> String) -> Self {
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
        key: &str,
        args: &[&[u8]],
    ) -> RedisResult<Value> {
        let call = |mut cmd: Cmd| {
            cmd.arg(1).arg(key);
            for arg in args {
                cmd.arg(*arg);
            }
            cmd
        };
        let mut by_hash = cmd("EVALSHA");
        by_hash.arg(&*self.hash);
        let reply = call(by_hash).query_async(connection).await;
        match reply {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let mut by_source = cmd("EVAL");
                by_source.arg(self.source);
                call(by_source).query_async(connection).await
            }
            reply => reply,
        }
    }
}

fn hash(script: &Script) -> String {
    ::redis::Script::new(script.source).get_hash().to_owned()
}
