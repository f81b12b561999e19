//! Bloom filters in bitmaps, two [time buckets](time_buckets::TimeBuckets) for each retention.

mod time_buckets;

use std::iter;

use idempotent_runtime::port::redis::{Bucket, Shape, bloom_stats};
use idempotent_runtime::store::{BloomFilter, BloomStats, Hint, StoreError};

use self::time_buckets::TimeBuckets;
use crate::client::connection_like::StoreClient;
use crate::script::{Script, each};
use crate::send::op::{Op, Order};
use crate::send::sender::Sender;

/// Inserts a member, and returns whether it may have been inserted before. Takes one round trip.
pub(crate) async fn insert<C: StoreClient>(
    sender: &Sender<C>,
    filter: &BloomFilter,
    member: &[u8],
) -> Result<Hint, StoreError> {
    let shape = Shape::for_filter(filter);
    let buckets = TimeBuckets::new(filter.retention);
    let (keys, width) = (buckets.newest_keys(&prefix(filter, shape)), buckets.width());
    let count = 2 + shape.hashes as usize;
    let mut text = String::with_capacity(width.len() + count * "4294967295 ".len());
    text.push_str(&width);
    for bit in iter::once(shape.bits - 1).chain(shape.positions(member)) {
        text.push(' ');
        text.push_str(itoa::Buffer::new().format(bit));
    }
    let mut args = Vec::with_capacity(count);
    args.extend(text.split(' ').map(str::as_bytes));
    let keys = keys.each_ref().map(String::as_str);
    let insert = Op::script(&INSERT, &keys, &args).in_order(Order::Any);
    let reply = sender.value(sender.send(&insert).await)?;
    Ok(if sender.read(reply)? {
        Hint::PerhapsSeen
    } else {
        Hint::Unseen
    })
}

/// How full a filter is. Takes one round trip.
pub(crate) async fn stats<C: StoreClient>(
    sender: &Sender<C>,
    filter: &BloomFilter,
) -> Result<BloomStats, StoreError> {
    let shape = Shape::for_filter(filter);
    let width = TimeBuckets::new(filter.retention).width();
    let keys = TimeBuckets::keys(&prefix(filter, shape));
    let (keys, args) = (keys.each_ref().map(String::as_str), [width.as_bytes()]);
    let reply = sender.value(sender.send(&Op::script(&STATS, &keys, &args)).await)?;
    let (age, counts): (f64, Vec<u64>) = sender.read(reply)?;
    let ages = iter::successors(Some(age), |age| Some(age + 1.0));
    let buckets = counts.into_iter().zip(ages).map(|(set, age)| Bucket {
        age,
        members: shape.members(set),
        error_rate: shape.error_rate(set),
    });
    Ok(bloom_stats(filter, buckets))
}

/// The prefix of the keys. A filter with another shape has another prefix.
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

/// Returns `1` if one bucket has all bits of the member, else `0`, and sets the bits in the current bucket.
///
/// The keys are the [newest keys](TimeBuckets::newest_keys). The arguments are the width of a bucket in milliseconds, the last bit of a
/// bucket, and the bits of the member.
///
/// `ends` is the expiry that the current bucket must get, or nil if its expiry is right. Only the current bucket has more than a retention
/// left, so the time is asked for only if the first key is not the current bucket, or has no bit yet. `TIME` before a write needs
/// `redis.replicate_commands` (Redis 3.2); from 5.0 on the call has no effect.
///
/// The bits of the earlier buckets are read one by one, because the first zero ends the search: usually the second bit. If `ends`, the
/// current bucket is read, too, so that a key of another type is refused before anything changes.
///
/// The first write into a bucket adds zero to the last bit, which gives the bucket its final length: a string that grows reserves an
/// extra megabyte. The server zeroes this memory at once, which takes half a second for 512 MB.
///
/// A bucket without an expiry cannot remain. If the first write is refused, there is no bucket. If `PEXPIREAT` is then refused,
/// which only a missing permission can cause, the script deletes the bucket and repeats `PEXPIREAT` for its error. It does not
/// try `PEXPIREAT` before the write, because the server checks for free memory only at a script's first write. All writes of a
/// script go to the append-only file and to the replicas as one transaction, so a killed server has all or none of these
/// writes.
///
/// The bits of the current bucket are written all at once, and the answer has what they were before. If the write is refused, for example
/// because the memory is full, they are read. The words of the write are not in a table, because a table that grows costs the
/// server as much as the write.
static INSERT: Script = each!(
    3,
    "if redis.replicate_commands then redis.replicate_commands() end
local slots, call, bucket, width, ends = 3, redis.call, KEYS[k], tonumber(ARGV[a])
local last, retention = k + slots - 1, (slots - 1) * width - 1
local remaining = call('PTTL', bucket)
if remaining < retention or remaining > retention + width then
  local time = call('TIME')
  local turn = math.floor((time[1] * 1000 + math.floor(time[2] / 1000)) / width)
  bucket = KEYS[(string.sub(bucket, -1) - turn) % slots + k]
  remaining = call('PTTL', bucket)
  if remaining < retention or remaining > retention + width then
    ends = string.format('%.0f', (turn + slots) * width - 1)
  end
end
local function seen_in(key)
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
if ends and remaining ~= -2 then
  call('PEXPIREAT', bucket, ends)
elseif ends then
  call('BITFIELD', bucket, 'INCRBY', 'u1', ARGV[a + 1], '0')
  if redis.pcall('PEXPIREAT', bucket, ends) ~= 1 then
    redis.pcall('DEL', bucket)
    call('PEXPIREAT', bucket, ends)
  end
end
local function sets(at)
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
);

/// Returns the age of the current bucket in widths, and the number of set bits of each bucket, newest first. The argument is the width.
static STATS: Script = Script::new(
    "local width, time, counts = ARGV[1], redis.call('TIME'), {}
local turn = math.floor((time[1] * 1000 + math.floor(time[2] / 1000)) / width)
for back = 0, #KEYS - 1 do
  counts[#counts + 1] = redis.call('BITCOUNT', KEYS[(turn - back) % #KEYS + 1])
end
return {tostring((time[1] * 1000 + time[2] / 1000) / width - turn), counts}",
);
