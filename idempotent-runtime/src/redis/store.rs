//! The store that keeps records in Redis.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use ::redis::{FromRedisValue, RedisError, RedisResult, Value, cmd};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::connection::RedisConnection;
use super::doctor;
use super::exchange::EXCHANGE;
use super::failure::Failure;
use super::filters::Filters;
use super::lanes::Lanes;
use super::large::{Large, Turn};
use super::listener::Listener;
use super::options::RedisOptions;
use super::oversize::Oversize;
use super::removal::Removal;
use super::replicas::Replicas;
use super::script::{CLAIM, CLAIM_REPLICATED, READ, REPLACE, REPLACE_REPLICATED, Script};
use super::topology::Topology;
use crate::store::{
    Claim, Count, Durability, Entry, Fill, Filter, Finding, Hint, Store, StoreError,
    StoreErrorKind, Swap,
};

/// Keeps records in Redis: one string per key, with an expiry.
///
/// Every operation of a call touches one key, so Redis Cluster needs no hash tags, and is one round trip, but for
/// these: a script that the server does not know yet is sent a second time; a removal by `DELIFEQ` or
/// `DELEX` that removes nothing asks what stands there; and a write that waits for replicas lasts until
/// they have answered, on a connection that may have to be made first.
/// Works from Redis 2.6.12 on, and with Valkey. A clone shares the connection.
///
/// The user of an ACL needs, on the keys of the prefix, `+set +get +pttl +pexpire +del +evalsha
/// +eval`, and `+info` for the checks at [`connect`](Self::connect); for a database other than 0
/// `+select`; behind sentinels also `+role`, and in a cluster, on each node, `+cluster|slots +ping
/// +asking`. The user of a sentinel needs `+sentinel|get-master-addr-by-name`. With `+config|get` the
/// store finds out whether an append-only file is synced before every answer
/// ([`Durability::Fsync`]). With `+delifeq` (Valkey 9) or `+delex` (Redis 8.4) a release
/// costs the server no script. Bloom filters need `+time +pexpireat +getbit +bitfield +bitcount`, and Redis 3.2; where the server has
/// a module for them, `+bf.exists +bf.card +bf.reserve +bf.add` let it be used. With `+publish +subscribe +unsubscribe` and the channels of the
/// prefix, such as `&idem:*`, calls that wait for a key are woken when it is settled; without, they
/// find out by asking again (and the server notes what it refused in its `ACL LOG`).
///
/// A seen-set is a ring of hashes, and its scripts touch several keys, which the braces in their names keep together: while a
/// cluster moves their slot, the set is unavailable. It needs Redis 3.2, and `+time +pexpireat +hget +hset +hdel` besides.
///
/// Expiry is decided by the server's clock. Records are as durable as the server is set up to be:
/// without an append-only file a restart forgets them, and a fail-over may forget the latest, unless
/// replicas must have every claim ([`RedisOptions::replicas`], or `?replicas=1` in the URL; the user
/// of an ACL needs `+wait` for that). [`Durability::Fsync`] is said of one server alone, never of one
/// that had replicas when the store was connected, of one behind sentinels, or of a cluster: their disk
/// is not what survives a fail-over.
#[derive(Clone)]
pub struct RedisStore<C = RedisConnection> {
    pub(super) connection: C,
    native_claim: bool,
    oversize: Oversize,
    pub(super) removal: Removal,
    filters: Filters,
    durability: Durability,
    /// None where the server's own word is enough.
    pub(super) replicas: Option<Replicas>,
    /// None on a connection of the caller's own, which waits for the replicas itself.
    lanes: Option<Arc<Lanes>>,
    pub(super) failure: Failure,
    /// None on a connection of the caller's own: that may be a cluster's, which is not one server to
    /// listen to.
    listener: Option<Arc<Listener>>,
    /// None on a connection of the caller's own, of which no other can be made.
    large: Option<Arc<Large<C>>>,
}

impl RedisStore {
    /// Connects to the Redis at `url`:
    ///
    /// * `redis://user:password@host:6379/0`, one server, and `redis+unix:///path?user=…&pass=…&db=0`;
    /// * `redis-cluster://user:password@host,host:6379`, a cluster, found by any of these nodes;
    /// * `redis-sentinel://user:password@host,host:26379/master/0`, the server that sentinels call
    ///   `master`; they have credentials of their own, `?sentinel_user=…&sentinel_pass=…`, or none;
    /// * `rediss://`, `rediss-cluster://` and `rediss-sentinel://`, the same by TLS, with the feature
    ///   `redis-rustls` or `redis-native-tls`; with both it is rustls. The names that a cluster or
    ///   sentinels announce must be those of the certificates.
    ///
    /// Ports may be left out, IPv6 addresses are in brackets, and `@ : / ? # %` in names and passwords
    /// are percent-encoded. The option `?protocol=3` speaks RESP3.
    ///
    /// The connection is shared by all calls, and made anew when it breaks, when its server became a
    /// replica, and when a reply that a caller gave up waiting for is overdue for another second. A
    /// server that may evict keys is refused, because an evicted claim lets a second call run; a cache
    /// server can be used all the same with `?allow_eviction=true`. Costs the connection's handshake
    /// and one round trip; a second one where there is an append-only file (`CONFIG GET`), or where
    /// replicas are waited for (`WAIT`); behind sentinels also a connection to one of them and two round
    /// trips.
    ///
    /// The first replay of a result that was found to be large (16 KiB) opens another connection, for all such replays: so they
    /// hold up each other, and no other call; four are under way at a time. (Redis 7 and newer.)
    ///
    /// The first call that waits for a key opens a second connection, to listen; it is shared, too,
    /// and ends with the last clone of the store. To listen costs one round trip on it, and none for
    /// a key that others listen to already.
    ///
    /// # Errors
    ///
    /// Within five seconds, if the URL makes no sense or needs a feature that this build has not, the
    /// server is not reached, refuses the credentials, or may evict keys. The text never contains the
    /// password.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        RedisOptions::default().connect(url).await
    }

    /// Settings for a store that is to be connected.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    pub(super) fn listening_to(self, topology: Arc<Topology>) -> Self {
        let durability = match (self.durability, &*topology) {
            // A fail-over does not ask the disk of the server that is gone.
            (Durability::Fsync, Topology::Sentinels(_)) => Durability::Server,
            (durability, _) => durability,
        };
        let listener = Some(Arc::new(Listener::new(topology)));
        let lanes = self
            .replicas
            .map(|_| Arc::new(Lanes::beside(self.connection.clone())));
        let large = Some(Arc::new(Large::on(self.connection.another())));
        Self {
            durability,
            lanes,
            listener,
            large,
            ..self
        }
    }
}

impl<C> RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Makes a store on a connection of the caller's own.
    ///
    /// Give it one that heals itself, such as a [`RedisConnection`] on a client of your own: a plain
    /// [`MultiplexedConnection`] fails for ever once it broke. Performs the checks of
    /// [`connect`](RedisStore::connect), on every node of a cluster. Costs one round trip, or two as
    /// there.
    ///
    /// A cluster's client, and any that this crate does not know, may send a command twice by
    /// itself, so its refusals are passed on as [`StoreErrorKind::Unknown`].
    /// A store made by this gives no hints: calls that wait for a key find out by asking again.
    ///
    /// # Errors
    ///
    /// If the server does not answer within five seconds, or may evict keys.
    pub async fn from_connection(connection: C) -> Result<Self, StoreError> {
        RedisOptions::default().from_connection(connection).await
    }

    pub(super) fn new(connection: C, native_claim: bool, durability: Durability) -> Self {
        let client: &dyn Any = &connection;
        let sends_once = match client.downcast_ref::<RedisConnection>() {
            Some(connection) => !connection.is_cluster(),
            None => client.is::<ConnectionManager>() || client.is::<MultiplexedConnection>(),
        };
        Self {
            connection,
            native_claim,
            oversize: Oversize::default(),
            removal: Removal::default(),
            filters: Filters::default(),
            durability,
            replicas: None,
            lanes: None,
            failure: Failure { sends_once },
            listener: None,
            large: None,
        }
    }

    pub(super) fn removing_by(self, removal: Removal) -> Self {
        Self { removal, ..self }
    }

    pub(super) fn filtering_by(self, filters: Filters) -> Self {
        Self { filters, ..self }
    }

    pub(super) fn waiting_for(self, replicas: Replicas) -> Self {
        let replicas = (replicas.wanted > 0).then_some(replicas);
        Self { replicas, ..self }
    }

    /// The connection for what is asked about this key, and the turn on it, if it has to be waited for.
    async fn connection_for(&self, key: &str) -> (C, Option<Turn<'_>>) {
        match self.large.as_ref().filter(|large| large.knows(key)) {
            Some(large) => {
                let (connection, turn) = large.turn().await;
                (connection, Some(turn))
            }
            None => (self.connection.clone(), None),
        }
    }

    pub(super) async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let (mut connection, _turn) = self.connection_for(keys[0]).await;
        let reply = script.run(&mut connection, keys, args).await;
        reply.map_err(|error| self.failure.of(error))
    }

    /// Runs a script that writes; where replicas must have what it wrote, the form of it for that.
    ///
    /// Its reply is a number, or begins with one, if the write, or one that it found done already, is to count.
    pub(super) async fn write(
        &self,
        script: &Script,
        replicated: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let Some(replicas) = self.replicas else {
            return self.run(script, keys, args).await;
        };
        let ran = if let Some(lanes) = &self.lanes {
            lanes.run(replicas, replicated, keys, args).await
        } else {
            let mut connection = self.connection.clone();
            replicas.run(&mut connection, replicated, keys, args).await
        };
        let (reply, enough) = ran.map_err(|error| self.failure.of(error))?;
        match (reply, enough) {
            (Value::Int(_) | Value::Array(_), Err(short)) => Err(short.into_error()),
            (reply, _) => Ok(reply),
        }
    }

    /// A caller who is told that the server is full looks what stands under the key, and counts an own
    /// record as claimed: by a reply that no replica was waited for. So it is told to claim again: a
    /// full server refuses to put a record, but the script finds an own one and waits for its
    /// replicas. (`SET NX GET` would be refused for an own record, too.)
    fn full_claim(&self, error: StoreError) -> StoreError {
        match error.kind() {
            StoreErrorKind::Full if self.replicas.is_some() => {
                StoreError::new(StoreErrorKind::NotApplied, error)
            }
            _ => error,
        }
    }

    /// Reads a reply of a kind that this store's commands give.
    pub(super) fn read<T: FromRedisValue>(&self, reply: Value) -> Result<T, StoreError> {
        T::from_redis_value(reply).map_err(|error| self.failure.of(RedisError::from(error)))
    }

    async fn replace_telling(
        &self,
        channel: &str,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let (ttl, most) = (millis(ttl).to_string(), self.oversize.most());
        let args = [
            &expected[..],
            &value[..],
            ttl.as_bytes(),
            channel.as_bytes(),
            most.as_bytes(),
        ];
        let keys = [key];
        let write = self.write(&REPLACE, &REPLACE_REPLICATED, &keys, &args);
        let reply = write.await?;
        self.swap(reply)
    }

    async fn remove_telling(
        &self,
        channel: &str,
        key: &str,
        expected: &Bytes,
    ) -> Result<Swap, StoreError> {
        let (mut connection, _turn) = self.connection_for(key).await;
        let most = self.oversize.most();
        let removal = &self.removal;
        let reply = removal.run(&mut connection, key, expected, channel, &most);
        self.swap(reply.await.map_err(|error| self.failure.of(error))?)
    }

    /// The channel on which a change of `key` is told.
    pub(super) fn channel<'a>(&self, key: &'a str) -> &'a str {
        if self.listener.is_some() { key } else { SILENT }
    }

    fn swap(&self, reply: Value) -> Result<Swap, StoreError> {
        Ok(match reply {
            Value::Nil => Swap::Absent,
            Value::Int(_) => Swap::Done,
            other => Swap::Other(self.read::<Vec<u8>>(other)?.into()),
        })
    }
}

impl<C> fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("native_claim", &self.native_claim)
            .field("native_removal", &self.removal)
            .field("filters", &self.filters)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<C> Store for RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let ttl = millis(ttl);
        if !self.native_claim || self.replicas.is_some() {
            let (ttl, most) = (ttl.to_string(), self.oversize.most());
            let args = [&value[..], ttl.as_bytes(), most.as_bytes()];
            let claim = self.write(&CLAIM, &CLAIM_REPLICATED, &[key], &args).await;
            return Ok(match claim.map_err(|error| self.full_claim(error))? {
                Value::Int(_) => Claim::Claimed,
                taken => Claim::Taken(self.read::<Vec<u8>>(taken)?.into()),
            });
        }
        let (mut connection, _turn) = self.connection_for(key).await;
        let standing = if self.oversize.is_met() {
            let (ttl, most) = (ttl.to_string(), self.oversize.most());
            let args = [&value[..], ttl.as_bytes(), most.as_bytes()];
            match CLAIM.run(&mut connection, &[key], &args).await {
                Ok(Value::Int(_)) => Ok(None),
                Ok(taken) => Vec::from_redis_value(taken)
                    .map(Some)
                    .map_err(RedisError::from),
                Err(error) => Err(error),
            }
        } else {
            let mut set = cmd("SET");
            set.arg(key).arg(&value[..]);
            set.arg("NX").arg("GET").arg("PX").arg(ttl);
            let waiting = self.oversize.wait();
            let standing: RedisResult<Option<Vec<u8>>> = set.query_async(&mut connection).await;
            waiting.answered();
            standing
        };
        let standing = standing.map_err(|error| self.failure.of(error))?;
        if let Some(large) = &self.large {
            large.note(key, standing.as_ref().map_or(0, Vec::len));
        }
        Ok(match standing {
            Some(standing) if standing != value[..] => Claim::Taken(self.oversize.cut(standing)),
            _ => Claim::Claimed,
        })
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.replace_telling(SILENT, key, expected, value, ttl)
            .await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.remove_telling(SILENT, key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let reply = self
            .run(&READ, &[key], &[self.oversize.most().as_bytes()])
            .await?;
        let (value, left): (Option<Vec<u8>>, i64) = self.read(reply)?;
        Ok(value.map(|value| Entry {
            value: value.into(),
            ttl: u64::try_from(left).ok().map(Duration::from_millis),
        }))
    }

    async fn replace_and_tell(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.replace_telling(self.channel(key), key, expected, value, ttl)
            .await
    }

    async fn remove_and_tell(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.remove_telling(self.channel(key), key, expected).await
    }

    async fn changed(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.listener.as_ref()?.listen(key).await
    }

    async fn add(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        match self.add_to_ring(set, member, owner, retention).await? {
            Value::Int(_) => Ok(Claim::Claimed),
            taken => Ok(Claim::Taken(self.read::<Vec<u8>>(taken)?.into())),
        }
    }

    async fn take_out(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        let reply = self.take_out_of_ring(set, member, owner, retention).await?;
        self.swap(reply)
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let most = self.oversize.most();
        let args = [&expected[..], &value[..], most.as_bytes()];
        let reply = self.write(&EXCHANGE, &EXCHANGE, &[key], &args).await?;
        self.swap(reply)
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        self.count_attempt(key, attempt, window).await
    }

    async fn mark(&self, filter: &Filter, member: &[u8]) -> Result<Hint, StoreError> {
        let mut connection = self.connection.clone();
        let hint = self.filters.mark(&mut connection, filter, member).await;
        hint.map_err(|error| self.failure.of(error))
    }

    async fn fill(&self, filter: &Filter) -> Result<Option<Fill>, StoreError> {
        let mut connection = self.connection.clone();
        let fill = self.filters.fill(&mut connection, filter).await;
        fill.map(Some).map_err(|error| self.failure.of(error))
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        doctor::examine(self, key, deadline).await
    }

    fn longest_record(&self, bytes: usize) {
        self.oversize.allow(bytes);
    }
}

/// The channel on which nothing is told.
pub(super) const SILENT: &str = "";

/// The longest time to live that is asked for; a server refuses one that overflows its clock.
const THOUSAND_YEARS: u64 = 1000 * 365 * 24 * 60 * 60 * 1000;

/// `ttl` in whole milliseconds, rounded up: a record may live too long, never too short.
pub(super) fn millis(ttl: Duration) -> u64 {
    let millis = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(THOUSAND_YEARS, |millis| millis.clamp(1, THOUSAND_YEARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_rounded_up_and_capped() {
        for (ttl, expected) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_nanos(1_000_001), 2),
            (Duration::from_secs(30), 30_000),
            (Duration::MAX, THOUSAND_YEARS),
        ] {
            assert_eq!(millis(ttl), expected, "{ttl:?}");
        }
    }
}
