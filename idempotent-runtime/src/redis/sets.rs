//! Seen-sets: a hash for each bucket of a ring, from the member to its owner.

use std::time::Duration;

use ::redis::aio::ConnectionLike;

use super::executor::Executor;
use super::ring::{Ring, turn};
use super::script::{Script, hash};
use crate::store::{Claim, StoreError, Swap};

/// `1`: added. Bytes: the owner of the member that is there.
///
/// The member is looked for in all buckets, so that one which was added before the turn is found, and the caller's own, too,
/// from a try whose reply was lost. That one is written again, so that a `WAIT` behind the script has something to wait for.
static INSERT: Script = Script::new(
    concat!(
        turn!(),
        "local member, owner = ARGV[2], ARGV[3]
for _, key in ipairs(KEYS) do
  local standing = redis.call('HGET', key, member)
  if standing and standing ~= owner then return standing end
  if standing then
    redis.call('HSET', key, member, owner)
    return 1
  end
end
put(function(bucket) redis.call('HSET', bucket, member, owner) end)
return 1"
    ),
    || hash(&INSERT),
);

/// `1`: taken out. Nil: it was not there. Bytes: its owner.
static REMOVE: Script = Script::new(
    "for _, key in ipairs(KEYS) do
  local standing = redis.call('HGET', key, ARGV[1])
  if standing and standing ~= ARGV[2] then return standing end
  if standing then return redis.call('HDEL', key, ARGV[1]) end
end
return false",
    || hash(&REMOVE),
);

/// A member that is added is remembered for a quarter of the retention longer, at most.
const BUCKETS: u64 = 4;

pub(super) async fn insert<C>(
    executor: &Executor<C>,
    set: &str,
    member: &[u8],
    owner: &[u8],
    retention: Duration,
) -> Result<Claim, StoreError>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let ring = Ring::new(BUCKETS, retention);
    let (keys, width) = (ring.keys(set), ring.width());
    let args = [width.as_bytes(), member, owner];
    let reply = executor.write(&INSERT, &INSERT, &all(&keys), &args).await?;
    executor.read_claim(reply)
}

pub(super) async fn remove<C>(
    executor: &Executor<C>,
    set: &str,
    member: &[u8],
    owner: &[u8],
    retention: Duration,
) -> Result<Swap, StoreError>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let keys = Ring::new(BUCKETS, retention).keys(set);
    let (keys, args) = (all(&keys), [member, owner]);
    let reply = executor.run(&REMOVE, &keys, &args).await?;
    executor.read_swap(reply)
}

fn all(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}
