//! Bloom filters in bitmaps.

use std::iter;

use ::redis::RedisResult;
use ::redis::aio::ConnectionLike;

use super::super::executor::Executor;
use super::super::ring::{clock, put, turn};
use super::super::script::{Script, hash};
use super::buckets::{Buckets, count, mark, stats_of};
use crate::store::filter::Shape;
use crate::store::{BloomFilter, BloomStats, Hint, StoreError};

/// Returns `1` if one bucket has all bits of the member, else `0`, and sets the bits in the current bucket.
///
/// The arguments after the width are the last bit of a bucket and the bits of the member. The first write into a bucket adds
/// zero to the last bit, which gives the bucket its final length: a string that grows reserves an extra megabyte. The server
/// zeroes this memory at once, which takes half a second for 512 MB. Bits that are already set are not written again.
///
/// The bits are read one by one, because the first zero ends the search: usually the second bit. They are written all at once.
static INSERT: Script = Script::new(
    concat!(
        turn!(),
        "local function seen_in(key)
  for at = 3, #ARGV do
    if call('GETBIT', key, ARGV[at]) == 0 then return false end
  end
  return true
end
if seen_in(bucket) then return 1 end
local seen = 0
for at = 1, #KEYS do
  if KEYS[at] ~= bucket and seen_in(KEYS[at]) then
    seen = 1
    break
  end
end
",
        put!(
            "call('BITFIELD', bucket, 'INCRBY', 'u1', ARGV[2], '0')",
            "local set = {}
for at = 3, #ARGV do
  local first = 4 * at - 11
  set[first], set[first + 1], set[first + 2], set[first + 3] = 'SET', 'u1', ARGV[at], '1'
end
call('BITFIELD', bucket, unpack(set))
return seen"
        )
    ),
    || hash(&INSERT),
);

/// Returns the age of the current bucket in widths, and the number of set bits in each bucket, newest first.
static STATS: Script = Script::new(
    concat!(
        "local width = ARGV[1]
",
        clock!(),
        "local counts = {}
for back = 0, #KEYS - 1 do
  counts[#counts + 1] = redis.call('BITCOUNT', KEYS[(turn - back) % #KEYS + 1])
end
return {tostring((time[1] * 1000 + time[2] / 1000) / width - turn), counts}"
    ),
    || hash(&STATS),
);

pub(super) async fn insert<C>(
    executor: &Executor<C>,
    filter: &BloomFilter,
    member: &[u8],
) -> Result<RedisResult<Hint>, StoreError>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let shape = Shape::of(filter);
    let ring = Buckets::new(filter.retention);
    let width = ring.width();
    let count = 2 + shape.hashes as usize;
    let mut text = String::with_capacity(width.len() + count * "4294967295 ".len());
    text.push_str(&width);
    for bit in iter::once(shape.bits - 1).chain(shape.positions(member)) {
        text.push(' ');
        text.push_str(itoa::Buffer::new().format(bit));
    }
    let mut args = Vec::with_capacity(count);
    args.extend(text.split(' ').map(str::as_bytes));
    mark(executor, &INSERT, ring, &prefix(filter, shape), &args).await
}

pub(super) async fn stats<C: ConnectionLike>(
    connection: &mut C,
    filter: &BloomFilter,
) -> RedisResult<BloomStats> {
    let shape = Shape::of(filter);
    let counts = count(connection, &STATS, &prefix(filter, shape), filter).await?;
    Ok(stats_of(filter, counts, |set| {
        (shape.members(set), shape.error_rate(set))
    }))
}

/// The prefix of the keys of the bitmaps. A filter with another shape has another prefix.
fn prefix(filter: &BloomFilter, Shape { bits, hashes }: Shape) -> String {
    let (mut most, mut number) = (itoa::Buffer::new(), itoa::Buffer::new());
    let parts = [
        &filter.key,
        ":",
        most.format(bits),
        "x",
        number.format(hashes),
    ];
    parts.concat()
}
