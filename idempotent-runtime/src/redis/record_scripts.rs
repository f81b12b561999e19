//! The scripts of records. Each touches one key, and its last argument says how many bytes it gives of what it finds.

use super::script::{Script, hash};

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

/// Puts one value in the place of another, for as long as that one would have lived.
///
/// `1`: done. Nil: absent. Bytes: what stands there, or what was expected if it never expires, for then it is not ours.
///
/// `KEEPTTL` is known from Redis 6.0 on only. A record with less than a millisecond left is given one. The value that is
/// found there already is written again, for a `WAIT` that follows: by its time to live, which a server that is out of
/// memory accepts.
pub(super) static EXCHANGE: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then return false end
local left = redis.call('PTTL', KEYS[1])
if left < 0 then return string.sub(current, 1, ARGV[3]) end
if left == 0 then left = 1 end
if current == ARGV[2] then
  redis.call('PEXPIRE', KEYS[1], left)
  return 1
end
if current == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', left)
  return 1
end
return string.sub(current, 1, ARGV[3])",
    || hash(&EXCHANGE),
);
