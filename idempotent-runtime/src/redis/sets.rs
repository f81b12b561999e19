//! Seen-sets: a ring of hashes from members to their owners.

use std::time::Duration;

use ::redis::aio::ConnectionLike;

use super::executor::Executor;
use super::ring::{Ring, turn};
use super::script::{Script, hash};
use crate::store::{Claim, StoreError, Swap};

/// Returns `1` if it inserted the member, else the owner of the member.
///
/// It searches all buckets, because the member may be in an earlier bucket: the member of another owner, or the caller's own
/// member after a lost reply. The caller's own member is written again, so that a following `WAIT` has a write to wait for.
static INSERT: Script = Script::new(
    concat!(
        turn!(),
        "local member, owner = ARGV[2], ARGV[3]
for _, key in ipairs(KEYS) do
  local stored = redis.call('HGET', key, member)
  if stored and stored ~= owner then return stored end
  if stored then
    redis.call('HSET', key, member, owner)
    return 1
  end
end
put(function(bucket) redis.call('HSET', bucket, member, owner) end)
return 1"
    ),
    || hash(&INSERT),
);

/// Returns `1` if it removed the member, nil if there is none, else the owner of the member.
static REMOVE: Script = Script::new(
    "for _, key in ipairs(KEYS) do
  local stored = redis.call('HGET', key, ARGV[1])
  if stored and stored ~= ARGV[2] then return stored end
  if stored then return redis.call('HDEL', key, ARGV[1]) end
end
return false",
    || hash(&REMOVE),
);

/// With four buckets a member is remembered for at most a quarter longer than the retention.
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
