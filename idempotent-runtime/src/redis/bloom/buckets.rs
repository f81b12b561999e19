//! The time buckets of a filter, in bitmaps or in the module.

use std::iter;

use ::redis::aio::ConnectionLike;
use ::redis::{FromRedisValue, RedisError, RedisResult};

use crate::redis::bloom::time_buckets::TimeBuckets;
use crate::redis::script::Script;
use crate::redis::send::executor::Executor;
use crate::store::filter::Bucket;
use crate::store::{BloomFilter, BloomStats, Hint, StoreError};

/// Three slots are two buckets for each retention, and the current bucket. Every insertion reads all of them.
pub(crate) type Buckets = TimeBuckets<3>;

/// Inserts by a script into the current one of the buckets whose keys begin with `name`. An error of the server is in the reply.
pub(crate) async fn mark<C>(
    executor: &Executor<C>,
    script: &'static Script,
    buckets: Buckets,
    name: &str,
    args: &[&[u8]],
) -> Result<RedisResult<Hint>, StoreError>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let keys = buckets.newest_keys(name);
    let reply = executor.run_with_others(script, &keys.all(), args).await?;
    Ok(reply.and_then(|seen| {
        Ok(if bool::from_redis_value(seen)? {
            Hint::PerhapsSeen
        } else {
            Hint::Unseen
        })
    }))
}

/// The age and the counts of the buckets whose keys begin with `name`.
pub(crate) async fn count<C: ConnectionLike>(
    connection: &mut C,
    script: &Script,
    name: &str,
    filter: &BloomFilter,
) -> RedisResult<(f64, Vec<u64>)> {
    let (keys, width) = (Buckets::keys(name), Buckets::new(filter.retention).width());
    let reply = script
        .run(connection, &keys.all(), &[width.as_bytes()])
        .await?;
    FromRedisValue::from_redis_value(reply).map_err(RedisError::from)
}

/// The statistics for the counts of the buckets. `of_count` returns the members and the error rate of a bucket.
pub(crate) fn stats_of(
    filter: &BloomFilter,
    (age, counts): (f64, Vec<u64>),
    of_count: impl Fn(u64) -> (f64, f64),
) -> BloomStats {
    let ages = iter::successors(Some(age), |age| Some(age + 1.0));
    BloomStats::of(
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
