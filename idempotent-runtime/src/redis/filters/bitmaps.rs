//! Bloom filters in bitmaps.

use std::iter;

use ::redis::RedisResult;
use ::redis::aio::ConnectionLike;

use super::super::ring::turn;
use super::super::script::{Script, hash};
use super::buckets::{fill_of, hint, run};
use crate::store::filter::Shape;
use crate::store::{BloomFilter, BloomStats, Hint};

/// `1` if all bits of the member are set in one of the buckets, else `0`. Sets them in the current one.
///
/// What follows the width: the last bit of a bucket, and those of the member. To add nothing to the last one makes the bucket
/// as long as it will ever be with its first write, and no longer: a string that grows takes a megabyte in advance. All that
/// memory is zeroed at once, which is half a second for 512 MB. What is marked already is not written again.
///
/// The bits are read one by one, because the first that is not set ends it: of a bucket that is filled as it should be, that
/// is the second. They are written at once.
static MARK: Script = Script::new(
    concat!(
        turn!(),
        "local function seen_in(key)
  for at = 3, #ARGV do
    if redis.call('GETBIT', key, ARGV[at]) == 0 then return false end
  end
  return true
end
if seen_in(bucket) then return 1 end
local seen = 0
for _, key in ipairs(KEYS) do
  if key ~= bucket and seen_in(key) then
    seen = 1
    break
  end
end
put(function(key)
  local set = {'INCRBY', 'u1', ARGV[2], 0}
  for at = 3, #ARGV do
    local last = #set
    set[last + 1], set[last + 2], set[last + 3], set[last + 4] = 'SET', 'u1', ARGV[at], 1
  end
  redis.call('BITFIELD', key, unpack(set))
end)
return seen"
    ),
    || hash(&MARK),
);

/// How old the current bucket is, in its widths, and how many bits are set in each, from the current one back.
static FILL: Script = Script::new(
    concat!(
        turn!(),
        "local counts = {}
for back = 0, #KEYS - 1 do
  counts[#counts + 1] = redis.call('BITCOUNT', KEYS[(turn - back) % #KEYS + 1])
end
return {tostring((time[1] * 1000 + time[2] / 1000) / width - turn), counts}"
    ),
    || hash(&FILL),
);

pub(super) async fn insert<C: ConnectionLike>(
    connection: &mut C,
    filter: &BloomFilter,
    member: &[u8],
) -> RedisResult<Hint> {
    let shape = Shape::of(filter);
    let bits = iter::once(shape.bits - 1).chain(shape.positions(member));
    let bits: Vec<_> = bits.map(|bit| bit.to_string()).collect();
    let args: Vec<_> = bits.iter().map(String::as_bytes).collect();
    let seen = run(connection, &MARK, &prefix(filter, shape), filter, &args).await?;
    Ok(hint(seen))
}

pub(super) async fn stats<C: ConnectionLike>(
    connection: &mut C,
    filter: &BloomFilter,
) -> RedisResult<BloomStats> {
    let shape = Shape::of(filter);
    let counts = run(connection, &FILL, &prefix(filter, shape), filter, &[]).await?;
    Ok(fill_of(filter, counts, |set| {
        (shape.members(set), shape.error_rate(set))
    }))
}

/// What the keys of the bitmaps begin with: those of another shape are another filter's.
fn prefix(filter: &BloomFilter, Shape { bits, hashes }: Shape) -> String {
    format!("{}:{bits}x{hashes}", filter.key)
}
