//! The scripts of records. Each operation uses one key.

use crate::script::{Script, each};

/// The scripts of most calls, which a new store makes known to its server. Each reads its key first, so without a key it fails before
/// it writes.
pub(crate) static OF_MOST_CALLS: [&Script; 5] = [
    &READ,
    &REPLACE,
    &REPLACE_AND_NOTIFY,
    &REMOVE,
    &REMOVE_AND_NOTIFY,
];

/// Returns `1` if it claimed the key, else the stored value.
pub(crate) static CLAIM: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if not current then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if current == ARGV[1] then return 1 end
return string.sub(current, 1, ARGV[3])",
);

/// Returns the stored value, if any, and its time to live.
///
/// A pipeline of two commands does not work: while a slot moves to another node, only the first command would be accepted.
pub(crate) static READ: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if current then current = string.sub(current, 1, ARGV[1]) end
return {current, redis.call('PTTL', KEYS[1])}",
);

/// Returns `1` if the value is replaced, nil if nothing is stored, else the stored value, or `0` if that is long.
///
/// The arguments are the expected and the new value, and the time to live. A renewal is a `PEXPIRE`, because a server without
/// memory refuses every `SET`.
macro_rules! replace {
    ($notification:literal, $again:literal) => {
        each!(
            1,
            "local key, expected, value = KEYS[k], ARGV[a], ARGV[a + 1]
local current = redis.call('GET', key)
if current == expected then
  if expected == value then
    redis.call('PEXPIRE', key, ARGV[z])
  else
    redis.call('SET', key, value, 'PX', ARGV[z])
",
            $notification,
            "  end
  return 1
end
if current == value then
",
            $again,
            "  return 1
end
if current and #current > 4096 then return 0 end
return current"
        )
    };
}

pub(crate) static REPLACE: Script = replace!("", "");

/// [`REPLACE`] with a notification on the channel with the name of the key.
pub(crate) static REPLACE_AND_NOTIFY: Script =
    replace!("    redis.pcall('PUBLISH', key, '')\n", "");

/// [`CLAIM`] before a `WAIT`. `WAIT` waits for the writes of its connection, so the script writes the own record again if it
/// finds it. Otherwise `WAIT` would return at once.
///
/// The write sets the remaining time to live again, or the time to live of the claim if less than a millisecond remains or the
/// record has no expiry.
pub(crate) static CLAIM_REPLICATED: Script = Script::new(
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
);

/// Claims all keys or none: their values, their time to live, and the number of bytes to return. Returns `1` if all are claimed, else
/// the place of the first taken key, a space, and the stored value.
///
/// It writes each key. After its first write the server refuses no other, because it runs no other command in between. As in
/// [`CLAIM_REPLICATED`], an own record is written again.
pub(crate) static CLAIM_ALL: Script = Script::new(
    "local own, ttl, most = {}, ARGV[#KEYS + 1], ARGV[#KEYS + 2]
for at, key in ipairs(KEYS) do
  own[at] = redis.call('GET', key)
  if own[at] and own[at] ~= ARGV[at] then
    return at .. ' ' .. string.sub(own[at], 1, most)
  end
end
for at, key in ipairs(KEYS) do
  if own[at] then
    local remaining = redis.call('PTTL', key)
    redis.call('PEXPIRE', key, remaining > 0 and remaining or ttl)
  else
    redis.call('SET', key, ARGV[at], 'PX', ttl)
  end
end
return 1",
);

/// Claims the first free key: as in [`CLAIM_ALL`], with its arguments. Returns the place of the claimed key, or all stored values.
pub(crate) static CLAIM_ANY: Script = Script::new(
    "local found, free, ttl, most = {}, nil, ARGV[#KEYS + 1], ARGV[#KEYS + 2]
for at, key in ipairs(KEYS) do
  local current = redis.call('GET', key)
  if current == ARGV[at] then
    local remaining = redis.call('PTTL', key)
    redis.call('PEXPIRE', key, remaining > 0 and remaining or ttl)
    return at
  end
  if current then found[at] = string.sub(current, 1, most) else free = free or at end
end
if not free then return found end
redis.call('SET', KEYS[free], ARGV[free], 'PX', ttl)
return free",
);

/// [`REPLACE`] before a `WAIT`: as in [`CLAIM_REPLICATED`], a value that is already stored is written again.
pub(crate) static REPLACE_REPLICATED: Script = replace!(
    "",
    "  local remaining = redis.call('PTTL', key)
  redis.call('PEXPIRE', key, remaining > 0 and remaining or ARGV[z])
"
);

/// [`REPLACE_REPLICATED`] with a notification on the channel with the name of the key.
pub(crate) static REPLACE_AND_NOTIFY_REPLICATED: Script = replace!(
    "    redis.pcall('PUBLISH', key, '')\n",
    "  local remaining = redis.call('PTTL', key)
  redis.call('PEXPIRE', key, remaining > 0 and remaining or ARGV[z])
"
);

/// Returns `1` if the value is removed, nil if nothing is stored, else the stored value, or `0` if that is long.
///
/// The argument is the expected value. An argument costs the server as much as a tenth of its other work.
macro_rules! remove {
    ($notification:literal) => {
        each!(
            1,
            "local key = KEYS[k]
local current = redis.call('GET', key)
if current == ARGV[a] then
  redis.call('DEL', key)
",
            $notification,
            "  return 1
end
if current and #current > 4096 then return 0 end
return current"
        )
    };
}

pub(crate) static REMOVE: Script = remove!("");

/// [`REMOVE`] with a notification on the channel with the name of the key.
pub(crate) static REMOVE_AND_NOTIFY: Script = remove!("  redis.pcall('PUBLISH', key, '')\n");

/// Replaces a value without a change of its time to live.
///
/// Returns `1` if the value is replaced, nil if nothing is stored, else the stored value, or `0` if that is long.
///
/// Servers before Redis 6 do not know `KEEPTTL` (a syntax error, which changes nothing). There the script sets the remaining time,
/// at least one millisecond. If the new value is already stored, the script sets its time to live again, so that a following
/// `WAIT` has a write to wait for. A server without memory accepts this.
///
/// The arguments are the expected and the new value.
pub(crate) static EXCHANGE: Script = each!(
    1,
    "local call, key, value = redis.call, KEYS[k], ARGV[z]
local current = call('GET', key)
if current == ARGV[a] then
  if redis.pcall('SET', key, value, 'KEEPTTL').err then
    local remaining = call('PTTL', key)
    if remaining < 0 then
      call('SET', key, value)
    else
      call('SET', key, value, 'PX', math.max(remaining, 1))
    end
  end
  return 1
end
if current == value then
  local remaining = call('PTTL', key)
  if remaining >= 0 then call('PEXPIRE', key, math.max(remaining, 1)) end
  return 1
end
if current and #current > 4096 then return 0 end
return current"
);
