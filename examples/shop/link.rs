//! The connection of one process to the store. It counts commands, and it can break.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotence::store::{
    BloomFilter, Bytes, Claim, ClaimAll, ClaimAny, Count, Entry, FencedClaim, Hint, Store,
    StoreError, StoreErrorKind, Swap, Wrap, async_trait,
};

use super::attempt::ATTEMPT;

/// A store around the store: [`Wrap`] forwards what is not overridden.
#[derive(Debug)]
pub(crate) struct Link {
    store: Arc<dyn Store>,
    is_down: AtomicBool,
    is_dead: AtomicBool,
}

impl Link {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            is_down: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
        }
    }

    /// The store refuses all commands from now on.
    pub(crate) fn take_down(&self) {
        self.is_down.store(true, Ordering::SeqCst);
    }

    /// The process has crashed: no command of it reaches the store any more.
    pub(crate) fn cut(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    async fn send<T>(
        &self,
        command: &'static str,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.is_dead.load(Ordering::SeqCst) {
            return pending().await;
        }
        // A clean-up in the background works for no attempt.
        let _ = ATTEMPT.try_with(|log| log.count(command));
        if self.is_down.load(Ordering::SeqCst) {
            return Err(StoreError::new(
                StoreErrorKind::NotApplied,
                "the store is down",
            ));
        }
        operation.await
    }
}

#[async_trait]
impl Wrap for Link {
    type Inner = dyn Store;

    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.send("claim", self.store.claim(key, value, ttl)).await
    }

    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        self.send("claim_all", self.store.claim_all(claims, ttl))
            .await
    }

    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        self.send("claim_any", self.store.claim_any(claims, ttl))
            .await
    }

    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        let claim = self.store.claim_fenced(key, fence_key, value, ttl);
        self.send("claim_fenced", claim).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let replace = self.store.replace(key, expected, value, ttl);
        self.send("replace", replace).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.send("remove", self.store.remove(key, expected)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.send("get", self.store.get(key)).await
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let replace = self.store.replace_and_notify(key, expected, value, ttl);
        self.send("replace", replace).await
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let remove = self.store.remove_and_notify(key, expected);
        self.send("remove", remove).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let exchange = self.store.exchange(key, expected, value);
        self.send("exchange", exchange).await
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        let count = self.store.count(key, attempt, window);
        self.send("count", count).await
    }

    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        let insert = self.store.set_insert(set, member, owner, retention);
        self.send("set_insert", insert).await
    }

    async fn set_remove(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        let remove = self.store.set_remove(set, member, owner, retention);
        self.send("set_remove", remove).await
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        let insert = self.store.bloom_insert(filter, member);
        self.send("bloom_insert", insert).await
    }
}
