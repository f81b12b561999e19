//! Seen-sets: a ring of hashes from members to their owners.

use std::time::Duration;

use ::redis::aio::ConnectionLike;

use super::executor::Executor;
use super::ring::{Ring, clock, put, turn};
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
for at = 1, #KEYS do
  local stored = call('HGET', KEYS[at], member)
  if stored then
    if stored ~= owner then return stored end
    call('HSET', KEYS[at], member, owner)
    return 1
  end
end
",
        put!(
            "call('HSET', bucket, member, owner)",
            "call('HSET', bucket, member, owner)
return 1"
        )
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

/// Six slots are four buckets. So a member is remembered for at most a quarter longer than the retention.
type Buckets = Ring<6>;

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
    let ring = Buckets::new(retention);
    let (keys, width) = (ring.newest_keys(set), ring.width());
    let args = [width.as_bytes(), member, owner];
    let keys = keys.all();
    let reply = executor.write(&INSERT, &INSERT, &keys, &args).await?;
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
    let keys = Buckets::new(retention).newest_keys(set);
    let (keys, args) = (keys.all(), [member, owner]);
    let reply = executor.run_with_others(&REMOVE, &keys, &args).await?;
    executor.read_swap(reply.map_err(|error| executor.error(error))?)
}

#[cfg(all(test, unix))]
mod tests {
    use ::redis::{AsyncConnectionConfig, Client, Value, cmd};
    use idempotence_test_servers::RedisServer;

    use super::*;

    const RETENTION: Duration = Duration::from_hours(1);

    /// A client whose clock is wrong by any number of buckets adds a member, and then another member.
    #[tokio::test]
    async fn a_wrong_guess_of_the_slot_changes_nothing() {
        let server = RedisServer::start().unwrap();
        let client = Client::open(server.unix_url()).unwrap();
        // A busy machine may need longer for a reply than the client waits by default.
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&patient);
        let mut connection = connection.await.unwrap();
        let width = Buckets::new(RETENTION).width();
        for guess in 0..6 {
            let set = format!("{{set-{guess}}}");
            let keys = Buckets::keys(&set);
            let mut keys = keys.all();
            keys.reverse();
            keys.rotate_right(guess);
            let mut insert = async |member: &[u8], owner: &[u8]| {
                let args = [width.as_bytes(), member, owner];
                INSERT.run(&mut connection, &keys, &args).await.unwrap()
            };
            for member in [b"one", b"two"] {
                assert_eq!(insert(member, b"mine").await, Value::Int(1));
                assert_eq!(insert(member, b"mine").await, Value::Int(1));
                let mine = Value::BulkString(b"mine".to_vec());
                assert_eq!(insert(member, b"yours").await, mine);
            }
            let (mut members, width) = (0, width.parse::<i64>().unwrap());
            for (slot, key) in (0..).zip(Buckets::keys(&set).all()) {
                let in_bucket: i64 = cmd("HLEN")
                    .arg(key)
                    .query_async(&mut connection)
                    .await
                    .unwrap();
                if in_bucket == 0 {
                    continue;
                }
                members += in_bucket;
                let mut ask = async |command| -> i64 {
                    let asked = cmd(command).arg(key).query_async(&mut connection).await;
                    asked.unwrap()
                };
                let (left, ends) = (ask("PTTL").await, ask("PEXPIRETIME").await);
                assert!((4 * width - 60_000..=5 * width).contains(&left), "{left}");
                assert_eq!(
                    (ends / width - 5) % 6,
                    slot,
                    "the slot of the server's clock"
                );
            }
            assert_eq!(members, 2, "guess {guess}");
        }
    }
}
