//! Bloom filters with the server's module.

use idempotent_runtime::port::redis::{Shape, float};
use idempotent_runtime::store::{BloomFilter, BloomStats, Hint};

use super::buckets::{Buckets, count, mark, stats_of};
use crate::bloom::time_buckets::{clock, counts, current_bucket, put};
use crate::client::connection_like::StoreClient;
use crate::script::{Script, each};
use crate::send::op::SendError;
use crate::send::sender::Sender;

/// Returns `1` if a bucket has the member or is full, else `0`, and inserts the member into the current bucket. The arguments after
/// the width are the member, and the capacity and the error rate of a bucket.
///
/// A bucket does not grow, because a growing filter is a chain of filters and becomes slower. A full bucket accepts no more
/// members, so as long as it exists every member is perhaps seen.
static INSERT: Script = each!(
    3,
    current_bucket!(3),
    "local function seen_in(key)
  return call('BF.EXISTS', key, ARGV[a + 1]) == 1 or call('BF.CARD', key) >= tonumber(ARGV[a + 2])
end
if seen_in(bucket) then return 1 end
local seen = 0
for at = k, last do
  if KEYS[at] ~= bucket and seen_in(KEYS[at]) then
    seen = 1
    break
  end
end
",
    put!(
        "call('BF.RESERVE', bucket, ARGV[a + 3], ARGV[a + 2], 'NONSCALING')",
        "call('BF.ADD', bucket, ARGV[a + 1])
return seen"
    )
);

/// Counts the members of each bucket.
static STATS: Script = counts!("BF.CARD");

pub(crate) async fn insert<C: StoreClient>(
    sender: &Sender<C>,
    filter: &BloomFilter,
    member: &[u8],
) -> Result<Hint, SendError> {
    let capacity = filter.capacity.to_string();
    let error_rate = (filter.error_rate / 2.0).to_string();
    let buckets = Buckets::new(filter.retention);
    let width = buckets.width();
    let args = [
        width.as_bytes(),
        member,
        capacity.as_bytes(),
        error_rate.as_bytes(),
    ];
    mark(sender, &INSERT, buckets, &prefix(filter), &args).await
}

pub(crate) async fn stats<C: StoreClient>(
    sender: &Sender<C>,
    filter: &BloomFilter,
) -> Result<BloomStats, SendError> {
    let shape = Shape::for_filter(filter);
    let counts = count(sender, &STATS, &prefix(filter), filter).await?;
    Ok(stats_of(filter, counts, |members| {
        let error_rate = if members < filter.capacity {
            shape.error_rate(shape.set(members))
        } else {
            1.0
        };
        (float(members), error_rate)
    }))
}

/// The prefix of the keys.
fn prefix(filter: &BloomFilter) -> String {
    format!(
        "{}:bf:{}:{}",
        filter.key, filter.capacity, filter.error_rate
    )
}
