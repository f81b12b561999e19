//! Whether a call waits for the record of its end.

use super::GuardedCall;
use crate::policy::Settle;

impl<A, K, T> GuardedCall<A, K, T> {
    /// Sets when the call returns, after its body has ended. Default: [`Settle::Await`].
    ///
    /// [`Settle::Background`] saves a round trip, but not with a store in memory. Until the store has confirmed the end, the claim is
    /// renewed, [`drain`](crate::Idempotency::drain) waits, and equal calls of the same process and handle wait for at most the
    /// [deadline](crate::Builder::deadline). Other calls get what they get while the body runs. Not with `run_in`.
    ///
    /// The runtime sends the end after the call has returned: a program that ends calls `drain` before. If the process or its runtime
    /// ends before the store has the end, or stands still (as a current-thread runtime outside of `block_on` does), the key stays taken until
    /// it expires: with the default lease after 20 to 33 s. With
    /// [`Release::Always`](crate::Release::Always) that is all. Otherwise an equal call then runs the body again, although the caller
    /// had the result: the time between an effect and its record grows by one round trip.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore, Release, Settle};
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let call = idempotency.call("stock.refresh").key(&42).ttl(Duration::from_secs(30));
    /// let refreshed = call.release(Release::Always).settle(Settle::Background);
    /// refreshed.run(async { Ok::<_, Error>(()) }).await?;
    /// // Before the program ends, so that the end is not lost:
    /// let _ = idempotency.drain(Duration::from_secs(5)).await;
    /// # Ok(()) }
    /// ```
    pub fn settle(mut self, settle: Settle) -> Self {
        self.policy = self.policy.settle(settle);
        self
    }
}
