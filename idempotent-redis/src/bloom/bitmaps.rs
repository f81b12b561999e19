//! Bloom filters in bitmaps.

use std::iter;

use idempotent_runtime::port::redis::Shape;
use idempotent_runtime::store::{BloomFilter, BloomStats, Hint};

use super::buckets::{Buckets, count, mark, stats_of};
use crate::bloom::time_buckets::{clock, counts, current_bucket, put};
use crate::client::connection_like::StoreClient;
use crate::script::{Script, each};
use crate::send::op::SendError;
use crate::send::sender::Sender;

/// Returns `1` if one bucket has all bits of the member, else `0`, and sets the bits in the current bucket.
///
/// The arguments after the width are the last bit of a bucket and the bits of the member. The first write into a bucket adds
/// zero to the last bit, which gives the bucket its final length: a string that grows reserves an extra megabyte. The server
/// zeroes this memory at once, which takes half a second for 512 MB.
///
/// The bits of the earlier buckets are read one by one, because the first zero ends the search: usually the second bit. The bits of
/// the current bucket are written all at once, and the answer has what they were before. If the write is refused, for example
/// because the memory is full, they are read. The words of the write are not in a table, because a table that grows costs the
/// server as much as the write.
static INSERT: Script = each!(
    3,
    current_bucket!(3),
    "local function seen_in(key)
  for at = a + 2, z do
    if call('GETBIT', key, ARGV[at]) == 0 then return false end
  end
  return true
end
local seen = 0
for at = k, last do
  if KEYS[at] ~= bucket and seen_in(KEYS[at]) then
    seen = 1
    break
  end
end
if ends and seen_in(bucket) then return 1 end
",
    put!(
        "call('BITFIELD', bucket, 'INCRBY', 'u1', ARGV[a + 1], '0')",
        "local function sets(at)
  if at + 3 <= z then
    return 'SET', 'u1', ARGV[at], '1', 'SET', 'u1', ARGV[at + 1], '1',
      'SET', 'u1', ARGV[at + 2], '1', 'SET', 'u1', ARGV[at + 3], '1', sets(at + 4)
  end
  if at <= z then return 'SET', 'u1', ARGV[at], '1', sets(at + 1) end
end
local bits = redis.pcall('BITFIELD', bucket, sets(a + 2))
if bits.err then return seen_in(bucket) and 1 or bits end
for at = 1, #bits do
  if bits[at] == 0 then return seen end
end
return 1"
    )
);

/// Counts the set bits of each bucket.
static STATS: Script = counts!("BITCOUNT");

pub(crate) async fn insert<C: StoreClient>(
    sender: &Sender<C>,
    filter: &BloomFilter,
    member: &[u8],
) -> Result<Hint, SendError> {
    let shape = Shape::for_filter(filter);
    let buckets = Buckets::new(filter.retention);
    let width = buckets.width();
    let count = 2 + shape.hashes as usize;
    let mut text = String::with_capacity(width.len() + count * "4294967295 ".len());
    text.push_str(&width);
    for bit in iter::once(shape.bits - 1).chain(shape.positions(member)) {
        text.push(' ');
        text.push_str(itoa::Buffer::new().format(bit));
    }
    let mut args = Vec::with_capacity(count);
    args.extend(text.split(' ').map(str::as_bytes));
    mark(sender, &INSERT, buckets, &prefix(filter, shape), &args).await
}

pub(crate) async fn stats<C: StoreClient>(
    sender: &Sender<C>,
    filter: &BloomFilter,
) -> Result<BloomStats, SendError> {
    let shape = Shape::for_filter(filter);
    let counts = count(sender, &STATS, &prefix(filter, shape), filter).await?;
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
