//! What a person writes against a store to guard a function: the least that is correct.

use crate::replay::Receipt;

/// A store's commands, written by hand. A clone works on the same store and connection.
pub(crate) trait ByHand: Clone + Send + Sync + 'static {
    /// What shows at the end that the key is still the own one.
    type Owner: Send + Sync;

    /// Takes the key, or finds out what has it.
    fn claim(&self, key: &str) -> impl Future<Output = Claim<Self::Owner>> + Send;

    /// Gives the own key back.
    fn release(&self, key: &str, owner: Self::Owner) -> impl Future<Output = ()> + Send;

    /// Leaves the result under the own key, as JSON.
    fn complete(
        &self,
        key: &str,
        owner: Self::Owner,
        receipt: &Receipt,
    ) -> impl Future<Output = ()> + Send;
}

/// Whose the key is.
pub(crate) enum Claim<O> {
    /// The caller's.
    Won(O),
    /// A call's that is running.
    Running,
    /// A call's that is done, with its result.
    Done(Receipt),
}
