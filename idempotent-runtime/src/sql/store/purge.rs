//! Removes expired records.

use std::time::Duration;

use sqlx::Pool;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::attempts::Attempts;
use crate::sql::database::Database;
use crate::store::StoreError;

/// The largest number of records that one statement removes.
const BATCH: u32 = 1000;

/// The limits of the period: zero would spin, and the longest durations would overflow.
const MIN_PERIOD: Duration = Duration::from_millis(10);
const MAX_PERIOD: Duration = Duration::from_hours(365 * 24);

/// A purge that runs in the background until this is dropped.
#[derive(Debug)]
#[must_use = "the purge ends when this is dropped"]
pub struct PurgeTask(JoinHandle<()>);

impl PurgeTask {
    pub(super) fn start<DB: Database>(pool: Pool<DB>, period: Duration) -> Self {
        let period = period.clamp(MIN_PERIOD, MAX_PERIOD);
        Self(tokio::spawn(async move {
            loop {
                // The jitter spreads the purges of processes that started at the same time.
                sleep(period.mul_f64(rand::random_range(0.75..1.25))).await;
                match purge_expired(&pool).await {
                    Ok(removed) => {
                        tracing::debug!(target: "idempotence", removed, "purged expired records");
                    }
                    Err(error) => {
                        let error: &(dyn std::error::Error + 'static) = &error;
                        tracing::warn!(target: "idempotence", error, "expired records could not be purged");
                    }
                }
            }
        }))
    }
}

impl Drop for PurgeTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) async fn purge_expired<DB: Database>(pool: &Pool<DB>) -> Result<u64, StoreError> {
    let mut all = 0;
    loop {
        let removed = purge_batch(pool).await?;
        all += removed;
        if removed < u64::from(BATCH) {
            return Ok(all);
        }
    }
}

async fn purge_batch<DB: Database>(pool: &Pool<DB>) -> Result<u64, StoreError> {
    let mut attempts = Attempts::new(pool);
    loop {
        let mut connection = attempts.acquire().await?;
        let removed = DB::purge(&mut connection, BATCH).await;
        if let Some(removed) = attempts.resolve(connection, removed.map(Some))? {
            return Ok(removed);
        }
    }
}
