//! The scripts of records. Each uses one key. Except for [`REMOVE`], the last argument is the most bytes of a value that it
//! returns.

use super::script::{Script, hash};

/// Returns `1` if it claimed the key, else the stored value.
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

/// Returns the stored value, if any, and its time to live.
///
/// A pipeline of two commands does not work: while a slot moves to another node, only the first command would be accepted.
pub(super) static READ: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if current then current = string.sub(current, 1, ARGV[1]) end
return {current, redis.call('PTTL', KEYS[1])}",
    || hash(&READ),
);

/// Returns `1` if the value is replaced, nil if nothing is stored, else the stored value.
///
/// A renewal is a `PEXPIRE`, because a server without memory refuses every `SET`. `ARGV[4]` is the channel for the
/// notification, or empty for no notification.
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

/// [`CLAIM`] before a `WAIT`. `WAIT` waits for the writes of its connection, so the script writes the own record again if it
/// finds it. Otherwise `WAIT` would return at once.
///
/// The write sets the remaining time to live again, or the time to live of the claim if less than a millisecond remains or the
/// record has no expiry.
pub(super) static CLAIM_REPLICATED: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if current == ARGV[1] then
  local remaining = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], remaining > 0 and remaining or ARGV[2])
  return 1
end
return string.sub(current, 1, ARGV[3])",
    || hash(&CLAIM_REPLICATED),
);

/// [`REPLACE`] before a `WAIT`: as in [`CLAIM_REPLICATED`], a value that is already stored is written again.
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
  local remaining = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], remaining > 0 and remaining or ARGV[3])
  return 1
end
return string.sub(current, 1, ARGV[5])",
    || hash(&REPLACE_REPLICATED),
);

/// Returns `1` if the value is removed, nil if nothing is stored, else the stored value, or `0` if that is long.
///
/// `ARGV[2]` is the channel for the notification, if any. An argument costs the server as much as a tenth of its other work.
pub(super) static REMOVE: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if current == ARGV[1] then
  redis.call('DEL', KEYS[1])
  if ARGV[2] then redis.pcall('PUBLISH', ARGV[2], '') end
  return 1
end
if current and #current > 4096 then return 0 end
return current",
    || hash(&REMOVE),
);

/// Replaces a value without a change of its time to live.
///
/// Returns `1` if the value is replaced, nil if nothing is stored, else the stored value. It does not replace a value that never
/// expires, because another program wrote it, and returns that value.
///
/// Servers before Redis 6 do not know `KEEPTTL` (a syntax error, which changes nothing). There, and if less than a millisecond
/// remains, the script sets the remaining time, at least one millisecond. If the new value is already stored, the script sets
/// its time to live again, so that a following `WAIT` has a write to wait for. A server without memory accepts this.
pub(super) static EXCHANGE: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then return false end
local remaining = redis.call('PTTL', KEYS[1])
if remaining < 0 then return string.sub(current, 1, ARGV[3]) end
if current == ARGV[2] then
  redis.call('PEXPIRE', KEYS[1], math.max(remaining, 1))
  return 1
end
if current == ARGV[1] then
  if remaining == 0 or redis.pcall('SET', KEYS[1], ARGV[2], 'KEEPTTL').err then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', math.max(remaining, 1))
  end
  return 1
end
return string.sub(current, 1, ARGV[3])",
    || hash(&EXCHANGE),
);
