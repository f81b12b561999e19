//! One-time tokens, counters, sets, Bloom filters and order numbers, each on the store of a handle.

pub(crate) mod bloom;
pub(crate) mod counter;
mod mistakes;
#[cfg(feature = "order-numbers")]
pub(crate) mod numbers;
pub(crate) mod placed;
pub(crate) mod seen;
pub(crate) mod tokens;
