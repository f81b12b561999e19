//! Bloom filters by the server's module.

use ::redis::RedisResult;
use ::redis::aio::ConnectionLike;

use super::super::ring::turn;
use super::super::script::{Script, hash};
use super::buckets::{fill_of, hint, run};
use crate::store::filter::{Shape, float};
use crate::store::{BloomFilter, BloomStats, Hint};

/// `1` if a bucket has the member, or is full, else `0`. Puts it into the current one. What follows the width: the member, the capacity and the error rate of a bucket.
///
/// A bucket does not grow, because one that does is many, and slower with each. A full one takes no more members,
/// and so it may have seen everything: for as long as it is there, not only for as long as it is the current one.
static MARK: Script = Script::new(
    concat!(
        turn!(),
        "local function seen_in(key)
  return redis.call('BF.EXISTS', key, ARGV[2]) == 1 or redis.call('BF.CARD', key) >= tonumber(ARGV[3])
end
if seen_in(bucket) then return 1 end
local seen = 0
for _, key in ipairs(KEYS) do
  if key ~= bucket and seen_in(key) then
    seen = 1
    break
  end
end
if redis.call('PTTL', bucket) == -2 then
  put(function(key) redis.call('BF.RESERVE', key, ARGV[4], ARGV[3], 'NONSCALING') end)
end
put(function(key) redis.call('BF.ADD', key, ARGV[2]) end)
return seen"
    ),
    || hash(&MARK),
);

/// How old the current bucket is, in its widths, and how many members are in each, from the current one back.
static FILL: Script = Script::new(
    concat!(
        turn!(),
        "local counts = {}
for back = 0, #KEYS - 1 do
  counts[#counts + 1] = redis.call('BF.CARD', KEYS[(turn - back) % #KEYS + 1])
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
    let capacity = filter.capacity.to_string();
    let error_rate = (filter.error_rate / 2.0).to_string();
    let args = [member, capacity.as_bytes(), error_rate.as_bytes()];
    let seen = run(connection, &MARK, &prefix(filter), filter, &args).await?;
    Ok(hint(seen))
}

pub(super) async fn stats<C: ConnectionLike>(
    connection: &mut C,
    filter: &BloomFilter,
) -> RedisResult<BloomStats> {
    let shape = Shape::of(filter);
    let counts = run(connection, &FILL, &prefix(filter), filter, &[]).await?;
    Ok(fill_of(filter, counts, |members| {
        let error_rate = if members < filter.capacity {
            shape.error_rate(shape.set(members))
        } else {
            1.0
        };
        (float(members), error_rate)
    }))
}

/// What the keys begin with.
fn prefix(filter: &BloomFilter) -> String {
    format!(
        "{}:bf:{}:{}",
        filter.key, filter.capacity, filter.error_rate
    )
}
