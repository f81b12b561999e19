//! Further keys of a call.

use super::GuardedCall;
use crate::call::Call;
use crate::key::fingerprint::KeyPart;

impl<A, K, T> GuardedCall<A, K, T> {
    /// Also holds the key that another call of the endpoint would have with `.key(part)`. The body runs when all keys of the call are held.
    ///
    /// For work on two things at once, such as a transfer between two accounts. If one key is taken, none is held, and the error names
    /// the taken one. A call is a [duplicate](crate::Error::is_duplicate) of a running call only if all their keys are equal, in the same
    /// order. Each `also` adds one whole key: if the key of the endpoint has several parts, give both [`key`](Self::key) and `also` one
    /// tuple of them. A call with several `key` does not run its body: its error is [`Error::InvalidKey`](crate::Error::InvalidKey).
    ///
    /// Only with [`Release::Always`](crate::Release::Always), and not with a [`token`](Self::token), a [`fence`](Self::fence) or `run_in`.
    /// Costs no more round trips if the store [claims the keys together](Self::run), else one more for each key at the start. While the
    /// store is unavailable, no body runs, whatever [`on_store_error`](Self::on_store_error) says.
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

impl Call {
    /// Notes how many parts the key of a call of the builder has. Without a part, its token is the key. With several parts it has no
    /// further keys, because they have one part.
    pub(in crate::call) fn note_key_parts(&mut self, parts: u32) {
        match parts {
            0 => self.keyed(),
            1 => {}
            _ => {
                if let Ok(open) = &mut self.0
                    && open.more.as_ref().is_some_and(|more| more.has_keys())
                {
                    open.set_invalid_key(
                        "`key` was called more than once, so no other call would have a key of `also`, and the body did not run; \
                         write one tuple each, as in `key(&(tenant, from)).also(&(tenant, to))`",
                    );
                }
            }
        }
    }
}
