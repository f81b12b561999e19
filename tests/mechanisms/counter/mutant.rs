//! A store with a broken counter.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Count, Entry, Wrap, async_trait};
use idempotent_runtime::{Store, StoreError};
use tokio::task::yield_now;

/// Reads a number, and then writes the next number.
#[derive(Debug)]
pub(crate) struct ReadsThenWrites<S>(pub(crate) S);

#[async_trait]
impl<S: Store> Wrap for ReadsThenWrites<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.0
    }

    async fn count(&self, key: &str, _: u128, window: Duration) -> Result<Count, StoreError> {
        let before = self.0.get(key).await?;
        yield_now().await;
        let number = |entry: &Entry| str::from_utf8(&entry.value).unwrap().parse().unwrap();
        let attempt = 1 + before.as_ref().map_or(0_u64, number);
        let value = Bytes::from(attempt.to_string());
        if let Some(found) = self.0.get(key).await? {
            self.0.replace(key, &found.value, &value, window).await?;
        } else {
            self.0.claim(key, &value, window).await?;
        }
        let remaining = window;
        Ok(Count { attempt, remaining })
    }
}
