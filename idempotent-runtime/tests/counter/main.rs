#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used)]

//! Counters: in memory, on a store that has nothing but the four operations, and on Redis.

#[path = "../four/mod.rs"]
mod four;
mod naive;
mod rules;
#[cfg(all(unix, feature = "redis"))]
mod servers;
#[cfg(feature = "sqlite")]
mod sqlite;
mod together;

/// The store that has the four operations passes the suite.
mod suite {
    idempotent_runtime::testkit::conformance!(async {
        crate::four::Four(idempotent_runtime::MemoryStore::new())
    });
}
