//! Further keys of a call.

use super::GuardedCall;
use crate::key::fingerprint::KeyPart;

impl<A, K, T> GuardedCall<A, K, T> {
    /// Also holds the key that another call of the endpoint would have with `.key(part)`. The body runs when all keys of the call are held.
    ///
    /// For work on two things at once, such as a transfer between two accounts. If one key is taken, none is held, and the error names
    /// the taken one. Each `also` adds one whole key: if the key of the endpoint has several parts, give both [`key`](Self::key) and `also`
    /// one tuple of them. A call with several `key` does not run its body: its error is [`Error::InvalidKey`](crate::Error::InvalidKey).
    ///
    /// Only with [`Release::Always`](crate::Release::Always), and not with a [`token`](Self::token), a [`fence`](Self::fence) or `run_in`. Costs one
    /// more round trip for each key at the start, and none at the end. While the store is unavailable, no body runs, whatever
    /// [`on_store_error`](Self::on_store_error) says.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// # use std::time::Duration;
    /// # use idempotence::{Error, Idempotency, MemoryStore, Release};
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let transfer = |from: u64, to: u64| {
    ///     let call = idempotency.call("accounts.transfer").key(&from).also(&to);
    ///     call.ttl(Duration::from_secs(30)).release(Release::Always)
    /// };
    /// transfer(1, 2)
    ///     .run(async {
    ///         let crossing = transfer(2, 1).run(async { Ok::<_, Error>(()) }).await;
    ///         assert_eq!(crossing.unwrap_err().code(), "in_progress");
    ///         Ok::<_, Error>(())
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn also<P: KeyPart + ?Sized>(mut self, part: &P) -> Self {
        self.call.also();
        self.call.also_part(part);
        self
    }
}
