//! Stores that break one rule each, and a policy that does: what the check must find.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use idempotence::RedisStore;
use idempotence::store::{Bytes, Claim, Entry, Store, StoreError, Swap, async_trait};
use tokio::sync::watch;

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A record is removed whoever it is of.
    RemovesOthers,
    /// A claim that was sent again is told of its own record as if it were another's.
    KnowsNotItself,
    /// A success is acknowledged before it is written, one in fifty never is.
    LosesResults,
    /// The lease is not renewed, and the body goes on when it ends.
    NeverRenews,
    /// A body goes on when its lease is lost.
    NeverStops,
    /// The server forgets everything when it is killed; the crate is as it should be.
    Forgets,
}

impl Fault {
    /// All that must be found.
    pub const ALL: [Self; 6] = [
        Self::RemovesOthers,
        Self::KnowsNotItself,
        Self::LosesResults,
        Self::NeverRenews,
        Self::NeverStops,
        Self::Forgets,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for Fault {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter().chain([Self::None]);
        all.find(|fault| fault.to_string() == text).ok_or(())
    }
}

/// A store with a fault.
#[derive(Debug)]
pub struct BrokenStore {
    /// The store inside.
    pub store: RedisStore,
    /// What is wrong with it.
    pub fault: Fault,
}

#[async_trait]
impl Store for BrokenStore {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        if self.fault == Fault::KnowsNotItself
            && let Some(standing) = self.store.get(key).await?
        {
            return Ok(Claim::Taken(standing.value));
        }
        self.store.claim(key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let completes = value != expected;
        if self.fault == Fault::LosesResults && completes && rand::random_ratio(1, 50) {
            return Ok(Swap::Done);
        }
        self.store.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        if self.fault == Fault::RemovesOthers
            && let Some(standing) = self.store.get(key).await?
        {
            return self.store.remove(key, &standing.value).await;
        }
        self.store.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).await
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.store.subscribe(key).await
    }
}
