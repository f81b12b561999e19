//! Bloom filters in bitmaps.

use std::iter;

use ::redis::RedisResult;
use ::redis::aio::ConnectionLike;

use super::super::ring::turn;
use super::super::script::{Script, hash};
use super::buckets::{hint, run, stats_of};
use crate::store::filter::Shape;
use crate::store::{BloomFilter, BloomStats, Hint};

/// Returns `1` if one bucket has all bits of the member, else `0`, and sets the bits in the current bucket.
///
/// The arguments after the width are the last bit of a bucket and the bits of the member. The script adds zero to the last bit,
/// so that the first write gives the bucket its final length: a string that grows reserves an extra megabyte. The server zeroes
/// this memory at once, which takes half a second for 512 MB. Bits that are already set are not written again.
///
/// The bits are read one by one, because the first zero ends the search: usually the second bit. They are written all at once.
static INSERT: Script = Script::new(
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
    || hash(&INSERT),
);

/// Returns the age of the current bucket in widths, and the number of set bits in each bucket, newest first.
static STATS: Script = Script::new(
    concat!(
        turn!(),
        "local counts = {}
for back = 0, #KEYS - 1 do
  counts[#counts + 1] = redis.call('BITCOUNT', KEYS[(turn - back) % #KEYS + 1])
end
return {tostring((time[1] * 1000 + time[2] / 1000) / width - turn), counts}"
    ),
    || hash(&STATS),
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
    let seen = run(connection, &INSERT, &prefix(filter, shape), filter, &args).await?;
    Ok(hint(seen))
}

pub(super) async fn stats<C: ConnectionLike>(
    connection: &mut C,
    filter: &BloomFilter,
) -> RedisResult<BloomStats> {
    let shape = Shape::of(filter);
    let counts = run(connection, &STATS, &prefix(filter, shape), filter, &[]).await?;
    Ok(stats_of(filter, counts, |set| {
        (shape.members(set), shape.error_rate(set))
    }))
}

/// The prefix of the keys of the bitmaps. A filter with another shape has another prefix.
fn prefix(filter: &BloomFilter, Shape { bits, hashes }: Shape) -> String {
    format!("{}:{bits}x{hashes}", filter.key)
}
