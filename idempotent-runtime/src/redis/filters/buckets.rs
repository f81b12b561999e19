//! The time buckets of a filter, in bitmaps or in the module.

use std::iter;

use ::redis::aio::ConnectionLike;
use ::redis::{FromRedisValue, RedisError, RedisResult};

use super::super::ring::Ring;
use super::super::script::Script;
use crate::store::filter::Bucket;
use crate::store::{BloomFilter, BloomStats, Hint};

/// The number of buckets per retention. Every insertion reads all buckets.
const BUCKETS: u64 = 2;

/// Runs a script on the buckets whose keys begin with `name`.
pub(super) async fn run<T: FromRedisValue, C: ConnectionLike>(
    connection: &mut C,
    script: &Script,
    name: &str,
    filter: &BloomFilter,
    args: &[&[u8]],
) -> RedisResult<T> {
    let ring = Ring::new(BUCKETS, filter.retention);
    let (keys, width) = (ring.keys(name), ring.width());
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let mut all = vec![width.as_bytes()];
    all.extend_from_slice(args);
    let reply = script.run(connection, &keys, &all).await?;
    T::from_redis_value(reply).map_err(RedisError::from)
}

pub(super) fn hint(seen: bool) -> Hint {
    if seen {
        Hint::PerhapsSeen
    } else {
        Hint::Unseen
    }
}

/// The statistics for the counts of the buckets. `of_count` returns the members and the error rate of a bucket.
pub(super) fn stats_of(
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
