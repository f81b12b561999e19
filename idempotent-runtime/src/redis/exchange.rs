//! Putting one value in the place of another for as long as that would have stood.

use super::script::{Script, hash};

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
