//! How many calls hold a key at once.

use super::GuardedCall;

impl<A, K, T> GuardedCall<A, K, T> {
    /// Lets up to `permits` calls hold the key at once, of all processes, as a semaphore does: 1 to 100. Only with
    /// [`Release::Always`](crate::Release::Always), and not with [`payload`](Self::payload), [`also`](Self::also),
    /// [`on_duplicate`](Self::on_duplicate), a [`token`](Self::token), a [`fence`](Self::fence),
    /// [`Settle::Background`](crate::Settle::Background) or `run_in`.
    ///
    /// If as many calls run, another call is refused: [`Error::InProgress`](crate::Error::InProgress) has their number, see
    /// [`Duplicate::holders`](crate::Duplicate::holders). It is no [duplicate](crate::Error::is_duplicate). Or it [waits](Self::wait). The waiting calls of one
    /// [`Idempotency`](crate::Idempotency) get permits in the order in which they were made, and one of them polls the store for all.
    /// Processes have no order: in overload their calls can overtake a call until its `wait` ends. A call that does not wait gets a free
    /// permit also if others wait. A call does not see all permits at one instant, so it may be refused although one became free a moment
    /// before. The permit of a call whose process dies is free after its lease.
    ///
    /// Of calls with different numbers each compares with its own, and they do not wait for each other's turn: after a change the larger
    /// number may run until its calls have ended. A setting of the [endpoint](crate::Settings) replaces the number.
    ///
    /// Round trips before the body: 1; 3 if the first permit is taken, and more if others take the free ones; 2 for a refused call. The
    /// second reads all other permits at once.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore, Release};
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let export = |tenant: u64| {
    ///     let call = idempotency.call("exports.run").key(&tenant).permits(2);
    ///     call.ttl(Duration::from_secs(30)).release(Release::Always)
    /// };
    /// export(7)
    ///     .run(async {
    ///         export(7)
    ///             .run(async {
    ///                 let third = export(7).run(async { Ok::<_, Error>(()) }).await;
    ///                 let Err(Error::InProgress(running)) = third else { panic!("two are running") };
    ///                 assert_eq!(running.holders(), 2);
    ///                 Ok::<_, Error>(())
    ///             })
    ///             .await
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    #[doc(alias("semaphore"))]
    pub fn permits(mut self, permits: u32) -> Self {
        self.policy = self.policy.permits(permits);
        self
    }
}
