//! The store in Redis.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use bytes::Bytes;
use idempotent_runtime::port::redis::member_key;
use idempotent_runtime::store::{
    BloomFilter, BloomStats, Claim, ClaimAll, ClaimAny, Count, Cursor, Durability, Entry,
    FencedClaim, Finding, Hint, Page, Store, StoreError, StoreErrorKind, Swap, async_trait,
};
use tokio::sync::watch;

use crate::bloom;
use crate::client::connection::RedisConnection;
use crate::client::listener::Listener;
use crate::doctor::Doctor;
use crate::record::records::RecordCommands;
use crate::record::{counting, fencing, listing, several};
use crate::send::sender::Sender;

/// Stores records in Redis: one string with an expiry per key.
///
/// Every operation of a call uses one key, so Redis Cluster needs no hash tags. A claim with a fence uses two, and braces in
/// the second keep both on one node. Several keys are claimed by one script, in a cluster only if they share a slot. An operation is one round trip, with these
/// exceptions: a script that the server does not know is sent a second time ([`connect`](Self::connect) makes the scripts of most calls known to a single server); the end of a call reads the key if
/// `SET … IFEQ`, `DELIFEQ` or `DELEX` changes nothing; a removal or a replacement reads the key if it has another record of more than 4 KiB; a write that waits for replicas lasts until
/// they answer, and may need a new connection. Concurrent operations share round trips: see
/// [`batch`](crate::RedisOptions::batch). Needs Redis 2.6.12 or Valkey. A clone shares the connection.
///
/// # Permissions
///
/// The ACL user needs:
///
/// * on the keys of the prefix `+set +get +pttl +pexpire +del +evalsha +eval`;
/// * `+info` for the checks at [`connect`](Self::connect), and `+select` for another database than 0;
/// * behind sentinels also `+role`; the user of a sentinel needs `+sentinel|get-master-addr-by-name`;
/// * in a cluster also `+cluster|slots +ping +asking`, on each node;
/// * `+wait` if writes wait for [`replicas`](crate::RedisOptions::replicas);
/// * for Bloom filters `+time +pexpireat +getbit +bitfield +bitcount` and Redis 3.2;
/// * for fences `+time` and Redis 3.2.
///
/// These are optional:
///
/// * with `+publish +subscribe +unsubscribe` and the channels of the prefix, such as `&idem:*`, a settled call wakes its waiting
///   duplicates. Without them the duplicates poll, and the server notes each refusal in its `ACL LOG`;
/// * with `+config|get` the store finds out whether an append-only file is synced before every answer ([`Durability::Fsync`]);
/// * with `+scan +getrange` the keys can be [listed](Store::list), for example by the command `idempotence`. A listing looks at all
///   keys of the database, a few hundred by each `SCAN`. While a cluster moves slots, a listing may miss records;
/// * with `+delifeq` (Valkey 9) or `+delex` (Redis 8.4) a release needs no script.
///
/// A Bloom filter is a ring of bitmaps. Its scripts use several keys, and the braces in their names keep them on one node. While a
/// cluster moves their slot, the filter is unavailable. A member of a seen-set is a record with a key of its own.
///
/// # Durability
///
/// The server's clock decides what has expired. Records are as durable as the server's setup: without an append-only file a
/// restart loses them, and a fail-over may lose the latest records. [`replicas`](crate::RedisOptions::replicas), or
/// `?replicas=1` in the URL, prevents the loss by a fail-over. The store reports [`Durability::Fsync`] only for a single server
/// without replicas at [`connect`](Self::connect), never behind sentinels or in a cluster: after a fail-over the disk of the
/// old server does not count.
#[derive(Clone)]
pub struct RedisStore<C = RedisConnection> {
    sender: Sender<C>,
    records: RecordCommands,
    durability: Durability,
    /// `None` on the caller's own connection, because the store cannot make another connection to subscribe.
    listener: Option<Arc<Listener>>,
}

#[cfg(test)]
impl RedisStore {
    pub(crate) fn connection(&self) -> RedisConnection {
        self.sender.connection()
    }
}

impl<C> RedisStore<C> {
    /// `info` has the answers of the servers to `INFO`.
    pub(crate) fn new(
        sender: Sender<C>,
        info: &[String],
        durability: Durability,
        listener: Option<Arc<Listener>>,
    ) -> Self {
        Self {
            sender,
            records: RecordCommands::of_servers(info),
            durability,
            listener,
        }
    }

    /// Whether waiting duplicates of this store get notifications.
    fn notifies(&self) -> bool {
        self.listener.is_some()
    }
}

impl<C> fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("native_claim", &self.records.claims_natively())
            .field("native_removal", self.records.removal())
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
        self.records.claim(&self.sender, key, value, ttl).await
    }

    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        let keys = [key, fence_key];
        fencing::claim(&self.sender, &self.records, keys, value, ttl).await
    }

    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        several::claim_all(&self.sender, &self.records, claims, ttl).await
    }

    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        several::claim_any(&self.sender, &self.records, claims, ttl).await
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
            .replace(&self.sender, false, key, expected, value, ttl);
        replace.await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let remove = self.records.remove(&self.sender, false, key, expected);
        remove.await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.records.get(&self.sender, key).await
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let replace =
            self.records
                .replace(&self.sender, self.notifies(), key, expected, value, ttl);
        replace.await
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let remove = self
            .records
            .remove(&self.sender, self.notifies(), key, expected);
        remove.await
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.listener.as_ref()?.subscribe(key).await
    }

    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        let key = member_key(set, member);
        let full = match self.claim(&key, owner, retention).await {
            Err(error) if error.kind() == StoreErrorKind::Full => error,
            answer => return answer,
        };
        // A server without memory refuses also the claim of a member that it has.
        match self.get(&key).await? {
            Some(Entry { value, .. }) if value == owner => Ok(Claim::Claimed),
            Some(Entry { value, .. }) => Ok(Claim::Taken(value)),
            None => Err(full),
        }
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let exchange = self.records.exchange(&self.sender, key, expected, value);
        exchange.await
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        counting::count(&self.sender, key, attempt, window).await
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        bloom::insert(&self.sender, filter, member).await
    }

    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        bloom::stats(&self.sender, filter).await.map(Some)
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Page>, StoreError> {
        listing::list(&self.sender, prefix, after, most).await
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        let doctor = Doctor {
            connection: self.sender.connection(),
            one_server: self.sender.sends_once(),
            replicas: self.sender.replicas(),
            removal: self.records.removal(),
            listener: self.listener.as_deref(),
        };
        doctor.examine(key, deadline).await
    }

    fn longest_record(&self, bytes: usize) {
        self.records.allow(bytes);
    }
}
