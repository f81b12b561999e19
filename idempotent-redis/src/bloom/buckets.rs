//! The time buckets of a filter, in bitmaps or in the module.

use std::iter;

use ::redis::{FromRedisValue, RedisError, Value};
use idempotent_runtime::port::redis::{Bucket, bloom_stats};
use idempotent_runtime::store::{BloomFilter, BloomStats, Hint};

use crate::bloom::time_buckets::TimeBuckets;
use crate::client::connection_like::StoreClient;
use crate::script::Script;
use crate::send::op::{Op, Order, SendError};
use crate::send::sender::Sender;

/// Three slots are two buckets for each retention, and the current bucket. Every insertion reads all of them.
pub(crate) type Buckets = TimeBuckets<3>;

/// Inserts by a script into the current one of the buckets whose keys begin with `name`.
pub(crate) async fn mark<C: StoreClient>(
    sender: &Sender<C>,
    script: &'static Script,
    buckets: Buckets,
    name: &str,
    args: &[&[u8]],
) -> Result<Hint, SendError> {
    let keys = buckets.newest_keys(name);
    let keys = keys.all();
    let insert = Op::script(script, &keys, args).in_order(Order::Any);
    Ok(if read(sender.send(&insert).await?)? {
        Hint::PerhapsSeen
    } else {
        Hint::Unseen
    })
}

/// The age and the counts of the buckets whose keys begin with `name`.
pub(crate) async fn count<C: StoreClient>(
    sender: &Sender<C>,
    script: &'static Script,
    name: &str,
    filter: &BloomFilter,
) -> Result<(f64, Vec<u64>), SendError> {
    let (keys, width) = (Buckets::keys(name), Buckets::new(filter.retention).width());
    let (keys, args) = (keys.all(), [width.as_bytes()]);
    let count = Op::script(script, &keys, &args);
    read(sender.send(&count).await?)
}

fn read<T: FromRedisValue>(reply: Value) -> Result<T, SendError> {
    T::from_redis_value(reply).map_err(|error| SendError::Redis(RedisError::from(error)))
}

/// The statistics for the counts of the buckets. `of_count` returns the members and the error rate of a bucket.
pub(crate) fn stats_of(
    filter: &BloomFilter,
    (age, counts): (f64, Vec<u64>),
    of_count: impl Fn(u64) -> (f64, f64),
) -> BloomStats {
    let ages = iter::successors(Some(age), |age| Some(age + 1.0));
    bloom_stats(
        filter,
        counts.into_iter().zip(ages).map(|(count, age)| {
            let (members, error_rate) = of_count(count);
            Bucket {
                age,
                members,
                error_rate,
            }
        }),
    )
}
