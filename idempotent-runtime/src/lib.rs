//! What runs under the [`idempotence`](https://docs.rs/idempotence) crate: depend on that one.

pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use store::memory::MemoryStore;
pub use store::{Store, StoreError, StoreErrorKind};
