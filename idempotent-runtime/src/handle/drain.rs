//! Waits for background work at a shutdown.

use std::time::Duration;

use super::Idempotency;

/// The error of [`Idempotency::drain`]: background work still ran at the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`drain`: {remaining} of the background operations still run after {timeout:?}, because bodies or the store need longer; \
     call `drain` again, or stop: the keys of calls that are not settled become free when their records expire"
)]
pub struct DrainError {
    remaining: usize,
    timeout: Duration,
}

impl DrainError {
    /// How many background operations still run.
    pub fn remaining(&self) -> usize {
        self.remaining
    }
}

impl Idempotency {
    /// Waits for background work, for at most `timeout`: bodies that run to their end after their caller dropped the call
    /// (`on_cancel = "finish"`), records that are not settled yet (`settle = "background"`, or a store that did not answer in time), and
    /// requests that are undone because their answer did not come in time. Without it a claim that arrives late keeps its key until its lease ends.
    ///
    /// `Ok` means that nothing is pending. The handle may have given up on an end: then the log has the event `unrecorded`, and `drain`
    /// does not report it.
    ///
    /// It does not wait for a body that still has a caller. So call it at shutdown, after the last request, and in a program that ends
    /// after its call, such as a cron job, also after an error.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// if let Err(error) = idempotency.drain(Duration::from_secs(30)).await {
    ///     eprintln!("{error}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If work still runs after `timeout`. The work continues as long as the runtime.
    pub async fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        let tracker = self.shared().tracker();
        let drained = tokio::time::timeout(timeout, tracker.wait_until_idle()).await;
        self.shared().observers().flush_log();
        drained.map_err(|_| DrainError {
            remaining: tracker.count(),
            timeout,
        })
    }
}
