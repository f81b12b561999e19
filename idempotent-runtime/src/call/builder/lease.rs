//! How long a key stays taken after its claim, at most and at least.

use std::time::Duration;

use super::GuardedCall;

impl<A, K, T> GuardedCall<A, K, T> {
    /// Sets how long a claim is valid if its holder no longer renews it. Only with [`Release::OnError`](crate::Release::OnError).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.policy = self.policy.lease(lease);
        self
    }

    /// Keeps the key taken for at least this long after the claim, also if the body was quicker or failed. At most the lease.
    ///
    /// Until then an equal call gets the same answer as while the body runs: [`Error::InProgress`](crate::Error::InProgress), or it [waits](Self::wait). For a job that
    /// several machines start at the same time by clocks that differ. Costs nothing: the end of the call shortens its lease in place of
    /// freeing the key. Not with `run_in` and further keys.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore, Release};
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let tick = || {
    ///     let call = idempotency.call("reports.refresh").key(&()).ttl(Duration::from_mins(10));
    ///     call.release(Release::Always).at_least(Duration::from_secs(30)).run(async { Ok::<_, Error>(()) })
    /// };
    /// tick().await?;
    /// assert!(matches!(tick().await, Err(Error::InProgress(_)))); // the same tick of another machine
    /// # Ok(()) }
    /// ```
    #[doc(alias("lockAtLeastFor"))]
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.policy = self.policy.at_least(at_least);
        self
    }
}
