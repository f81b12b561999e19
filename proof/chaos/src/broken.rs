//! Stores and policies that each break one rule. The check must find them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use idempotence::store::{Bytes, Claim, Entry, Store, StoreError, Swap, async_trait};
use tokio::sync::watch;

/// The mistake of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// `remove` removes the record of any owner.
    RemovesOthers,
    /// A repeated claim is refused for its own record.
    RefusesItself,
    /// One success in fifty is acknowledged but never written.
    LosesResults,
    /// The lease is not renewed, and the body continues after its end.
    NeverRenews,
    /// A body continues after its lease was lost.
    NeverStops,
    /// A killed server loses its data. The crate has no mistake.
    LosesData,
}

impl Fault {
    /// All mistakes. The check must find each of them.
    pub const ALL: [Self; 6] = [
        Self::RemovesOthers,
        Self::RefusesItself,
        Self::LosesResults,
        Self::NeverRenews,
        Self::NeverStops,
        Self::LosesData,
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

/// A store with a mistake.
#[derive(Debug)]
pub struct BrokenStore {
    /// The inner store.
    pub store: Arc<dyn Store>,
    /// The mistake.
    pub fault: Fault,
}

#[async_trait]
impl Store for BrokenStore {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        if self.fault == Fault::RefusesItself
            && let Some(stored) = self.store.get(key).await?
        {
            return Ok(Claim::Taken(stored.value));
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
            && let Some(stored) = self.store.get(key).await?
        {
            return self.store.remove(key, &stored.value).await;
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
