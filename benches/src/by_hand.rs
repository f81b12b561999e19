//! The minimal correct code against a store that guards a function.

use crate::replay::Receipt;

/// The commands of a store, written by hand. A clone works on the same store and connection.
pub(crate) trait ByHand: Clone + Send + Sync + 'static {
    /// Proves at the end that the caller still owns the key.
    type Owner: Send + Sync;

    /// Claims the key, or returns the state of its record.
    fn claim(&self, key: &str) -> impl Future<Output = Claim<Self::Owner>> + Send;

    /// Releases the key.
    fn release(&self, key: &str, owner: Self::Owner) -> impl Future<Output = ()> + Send;

    /// Stores the result under the key, as JSON.
    fn complete(
        &self,
        key: &str,
        owner: Self::Owner,
        receipt: &Receipt,
    ) -> impl Future<Output = ()> + Send;
}

/// The outcome of a claim.
pub(crate) enum Claim<O> {
    /// The caller owns the key.
    Won(O),
    /// Another call runs.
    Running,
    /// Another call is done, with this result.
    Done(Receipt),
}
