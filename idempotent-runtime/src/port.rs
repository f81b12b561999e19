//! What the other crates of this workspace use of the runtime beside its public names: one module for each crate.
//!
//! These crates need exactly this version of the runtime, so the names here change without notice.

#[cfg(feature = "testkit")]
pub mod testkit;
