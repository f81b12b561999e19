//! Waits for a lock.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use idempotent_runtime::port::sql::jitter;
use tokio::time::{Instant, sleep};

use super::{Lock, LockGuard, new_owner, send};
use crate::database::{Database, lock};

impl<DB: Database> Lock<DB> {
    /// Takes the lock `name` for the time `lease`, and waits for it up to `timeout` while another holder has it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use idempotence::sql::{self, sqlx};
    /// # #[cfg(feature = "sqlite")]
    /// # async fn example(pool: sqlx::SqlitePool) -> sqlx::Result<()> {
    /// let lock = sql::Lock::new(pool);
    /// let taken = lock.take_within("trade:42", Duration::from_secs(30), Duration::from_secs(5));
    /// match taken.await? {
    ///     Ok(held) => println!("with fence {}", held.fence()),
    ///     Err(holder) => println!("not now: {holder}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Round trips: one if the lock is free. Otherwise one read every 50 to 75 ms or when the holder's lease expires, and one
    /// that takes the lock once it is free. There is no queue: all waiting callers poll equally often, however long they have
    /// waited, so each has the same chance.
    ///
    /// # Errors
    ///
    /// As for [`take`](Self::take). The `timeout` interrupts neither a statement nor the wait for a connection of the pool.
    ///
    /// # Cancellation
    ///
    /// As for [`take`](Self::take).
    pub async fn take_within(
        &self,
        name: &str,
        lease: Duration,
        timeout: Duration,
    ) -> sqlx::Result<Result<LockGuard<DB>, Holder>> {
        let begun = Instant::now();
        let owner = new_owner(name)?;
        loop {
            if let Some(held) = self.take_as(name, owner, lease).await? {
                return Ok(Ok(held));
            }
            // This read locks nothing, so waiting callers do not block the holder's renewal.
            while let Some(holder) = self.holder(name).await? {
                let remaining = timeout.saturating_sub(begun.elapsed());
                if remaining.is_zero() {
                    return Ok(Err(holder));
                }
                let pause = PAUSE.mul_f64(jitter());
                sleep(pause.min(remaining).min(holder.remaining)).await;
            }
        }
    }

    async fn holder(&self, name: &str) -> sqlx::Result<Option<Holder>> {
        let (_, holder) = send(&self.pool, |mut connection| {
            Box::pin(async move {
                let holder = lock::holder::<DB>(&mut connection, name).await?;
                Ok((connection, holder))
            })
        })
        .await?;
        Ok(holder.map(|(fence, micros)| Holder {
            fence,
            remaining: Duration::from_micros(micros.try_into().unwrap_or_default()),
        }))
    }
}

const PAUSE: Duration = Duration::from_millis(50);

/// The holder of a lock that was not free before the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    fence: i64,
    remaining: Duration,
}

impl Holder {
    /// The holder's [fence](LockGuard::fence). No other holder of this name has the same fence.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// The remaining time of the holder's lease by the database's clock, unless it renews or releases the lock.
    pub fn remaining(&self) -> Duration {
        self.remaining
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fence, remaining } = self;
        write!(
            f,
            "the holder with fence {fence} has the lock for another {remaining:.1?}"
        )
    }
}

impl StdError for Holder {}
