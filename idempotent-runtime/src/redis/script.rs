//! The scripts of records: each touches one key and writes at most once, as the last act that may fail, so that a
//! script that failed has changed nothing. Those of counters, sets and filters, which say themselves how they keep to that,
//! are in rooms of their own; the keys of each share a slot.
//!
//! Of what stands under a key each gives as many bytes as its last argument says, `-1` for all: who put it there may have
//! put a gigabyte.
//!
//! The hint that follows the write cannot fail a script: `pcall` makes a value of every error, of a
//! publish that is not allowed or not known, too, and the script does not look at it. Before the
//! write it would tell of changes that the server then refused.

use std::sync::LazyLock;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, cmd};

/// `1`: claimed. Bytes: what stands there.
pub(super) static CLAIM: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if current == ARGV[1] then return 1 end
return string.sub(current, 1, ARGV[3])",
    || hash(&CLAIM),
);

/// What stands there, if anything, and how long it will.
///
/// Not two commands at once: where a slot is on its way to another node, only the first is let in.
pub(super) static READ: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if current then current = string.sub(current, 1, ARGV[1]) end
return {current, redis.call('PTTL', KEYS[1])}",
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
return string.sub(current, 1, ARGV[5])",
    || hash(&REPLACE),
);

/// [`CLAIM`] before a `WAIT`, which waits for what its connection has written: an own record that is
/// found is written again, or the `WAIT` would have nothing to wait for and end at once.
///
/// To write it is to set the time to live that it has; a record without any, or with less than a
/// millisecond left, is given its own.
pub(super) static CLAIM_REPLICATED: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if current == ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], left > 0 and left or ARGV[2])
  return 1
end
return string.sub(current, 1, ARGV[3])",
    || hash(&CLAIM_REPLICATED),
);

/// [`REPLACE`] before a `WAIT`: as in [`CLAIM_REPLICATED`], what stands there already is written again.
pub(super) static REPLACE_REPLICATED: Script = Script::new(
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
if current == ARGV[2] then
  local left = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], left > 0 and left or ARGV[3])
  return 1
end
return string.sub(current, 1, ARGV[5])",
    || hash(&REPLACE_REPLICATED),
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
return string.sub(current, 1, ARGV[3])",
    || hash(&REMOVE),
);

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
