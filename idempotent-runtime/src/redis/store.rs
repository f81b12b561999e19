//! The store that keeps records in Redis.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::connection::RedisConnection;
use super::doctor::Doctor;
use super::executor::Executor;
use super::filters::Filters;
use super::listener::Listener;
use super::records::Records;
use super::script::SILENT;
use super::topology::Topology;
use super::{counting, sets};
use crate::store::{
    BloomFilter, BloomStats, Claim, Count, Durability, Entry, Finding, Hint, Store, StoreError,
    Swap,
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
/// replicas must have every claim ([`RedisOptions::replicas`](crate::RedisOptions::replicas), or `?replicas=1` in the URL; the user
/// of an ACL needs `+wait` for that). [`Durability::Fsync`] is said of one server alone, never of one
/// that had replicas when the store was connected, of one behind sentinels, or of a cluster: their disk
/// is not what survives a fail-over.
#[derive(Clone)]
pub struct RedisStore<C = RedisConnection> {
    executor: Executor<C>,
    records: Records,
    filters: Filters,
    durability: Durability,
    /// None on a connection of the caller's own: that may be a cluster's, which is not one server to
    /// listen to.
    listener: Option<Arc<Listener>>,
}

impl RedisStore {
    pub(super) fn listening_to(self, topology: Arc<Topology>) -> Self {
        let durability = match (self.durability, &*topology) {
            // A fail-over does not ask the disk of the server that is gone.
            (Durability::Fsync, Topology::Sentinels(_)) => Durability::Server,
            (durability, _) => durability,
        };
        Self {
            executor: self.executor.with_connections_beside(),
            durability,
            listener: Some(Arc::new(Listener::new(topology))),
            ..self
        }
    }
}

impl<C> RedisStore<C> {
    /// `info` is what the servers say of themselves.
    pub(super) fn new(executor: Executor<C>, info: &[String], durability: Durability) -> Self {
        Self {
            executor,
            records: Records::of_servers(info),
            filters: Filters::of_servers(info),
            durability,
            listener: None,
        }
    }

    /// The channel on which a change of `key` is told.
    fn channel<'a>(&self, key: &'a str) -> &'a str {
        if self.listener.is_some() { key } else { SILENT }
    }
}

impl<C> fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("native_claim", &self.records.claims_natively())
            .field("native_removal", self.records.removal())
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
        self.records.claim(&self.executor, key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let replace = self
            .records
            .replace(&self.executor, SILENT, key, expected, value, ttl);
        replace.await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let remove = self.records.remove(&self.executor, SILENT, key, expected);
        remove.await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.records.get(&self.executor, key).await
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let channel = self.channel(key);
        let replace = self
            .records
            .replace(&self.executor, channel, key, expected, value, ttl);
        replace.await
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let channel = self.channel(key);
        let remove = self.records.remove(&self.executor, channel, key, expected);
        remove.await
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.listener.as_ref()?.listen(key).await
    }

    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        sets::insert(&self.executor, set, member, owner, retention).await
    }

    async fn set_remove(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        sets::remove(&self.executor, set, member, owner, retention).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let exchange = self.records.exchange(&self.executor, key, expected, value);
        exchange.await
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        counting::count(&self.executor, key, attempt, window).await
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        let mut connection = self.executor.connection();
        let hint = self.filters.insert(&mut connection, filter, member).await;
        hint.map_err(|error| self.executor.error(error))
    }

    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        let mut connection = self.executor.connection();
        let fill = self.filters.stats(&mut connection, filter).await;
        fill.map(Some).map_err(|error| self.executor.error(error))
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        let doctor = Doctor {
            connection: self.executor.connection(),
            one_server: self.executor.sends_once(),
            replicas: self.executor.replicas(),
            removal: self.records.removal(),
            listener: self.listener.as_deref(),
        };
        doctor.examine(key, deadline).await
    }

    fn longest_record(&self, bytes: usize) {
        self.records.allow(bytes);
    }
}
