//! A lock that is waited for.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::database::Database;
use super::{Lock, LockGuard, new_owner, send};
use crate::world;

impl<DB: Database> Lock<DB> {
    /// Takes the lock `name` for as long as `lease`, and waits for it up to `timeout` while somebody else has it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use idempotent_runtime::sql::{self, sqlx};
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
    /// Round trips: one if the lock is free. While it is not, one that only reads every 50 to 75 ms, or when the holder's lease
    /// ends; and one that takes it when it was found free. All who wait ask equally often, however long they have waited,
    /// so each has the same chance; they do not stand in a queue.
    ///
    /// # Errors
    ///
    /// As of [`take`](Self::take). The `timeout` cuts short neither a statement nor the wait for a connection of the pool.
    ///
    /// # Cancellation
    ///
    /// As of [`take`](Self::take).
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
            // A look locks nothing, so those who wait do not keep the holder from its renewal.
            while let Some(holder) = self.holder(name).await? {
                let left = timeout.saturating_sub(begun.elapsed());
                if left.is_zero() {
                    return Ok(Err(holder));
                }
                let pause = PAUSE.mul_f64(world::jitter());
                sleep(pause.min(left).min(holder.remaining)).await;
            }
        }
    }

    async fn holder(&self, name: &str) -> sqlx::Result<Option<Holder>> {
        let (_, holder) = send(&self.pool, |mut connection| {
            Box::pin(async move {
                let holder = DB::lock_holder(&mut connection, name).await?;
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

/// Who has a lock that was waited for in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    fence: i64,
    remaining: Duration,
}

impl Holder {
    /// Its [fence](LockGuard::fence), which no other holder of that name has.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// How long its lease goes on by the database's clock, unless it renews or releases the lock.
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
