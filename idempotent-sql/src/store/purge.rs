//! Removes expired records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use idempotent_runtime::store::StoreError;
use sqlx::Pool;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::attempts::Attempts;
use crate::database::{Database, records};

/// How often a store purges, unless it is set.
pub(super) const PERIOD: Duration = Duration::from_mins(10);

/// The largest number of records that one statement removes.
const BATCH: u32 = 1000;

/// The limits of the period: zero would spin, and the longest durations would overflow.
const MIN_PERIOD: Duration = Duration::from_millis(10);
const MAX_PERIOD: Duration = Duration::from_hours(365 * 24);

/// Purges in the background while a clone of the store lives.
#[derive(Debug)]
pub(super) struct Purging<DB: Database> {
    pool: Pool<DB>,
    period: Duration,
    is_running: AtomicBool,
}

impl<DB: Database> Purging<DB> {
    pub(super) fn every(period: Duration, pool: &Pool<DB>) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.clone(),
            period: period.clamp(MIN_PERIOD, MAX_PERIOD),
            is_running: AtomicBool::new(false),
        })
    }

    /// Starts the task if it does not run: at the first operation of the store, and again after its runtime has ended.
    pub(super) fn start(self: &Arc<Self>) {
        if self.is_running.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(runtime) = Handle::try_current()
            && !self.is_running.swap(true, Ordering::Relaxed)
        {
            let (period, task) = (self.period, PurgeTask(Arc::downgrade(self)));
            runtime.spawn(async move {
                loop {
                    // The jitter spreads the purges of processes that started at the same time.
                    sleep(period.mul_f64(rand::random_range(0.75..1.25))).await;
                    let Some(purging) = task.0.upgrade() else {
                        return;
                    };
                    purging.purge().await;
                }
            });
        }
    }

    async fn purge(&self) {
        match purge_expired(&self.pool).await {
            Ok(removed) => {
                tracing::debug!(target: "idempotence", removed, "purged expired records");
            }
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(target: "idempotence", error, "expired records could not be purged");
            }
        }
    }
}

/// The task of a store. It does not keep the store alive.
struct PurgeTask<DB: Database>(Weak<Purging<DB>>);

impl<DB: Database> Drop for PurgeTask<DB> {
    fn drop(&mut self) {
        if let Some(purging) = self.0.upgrade() {
            purging.is_running.store(false, Ordering::Relaxed);
        }
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
        let removed = records::purge::<DB>(&mut connection, BATCH).await;
        if let Some(removed) = attempts.resolve(connection, removed.map(Some))? {
            return Ok(removed);
        }
    }
}
