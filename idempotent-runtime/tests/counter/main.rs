#![allow(clippy::unwrap_used)]

//! Counters: in memory, on a store with only the four required operations, on Redis and on databases.

#[cfg(all(unix, feature = "redis"))]
#[path = "../admin/mod.rs"]
mod admin;
#[cfg(all(unix, feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod databases;
#[path = "../four/mod.rs"]
mod four;
#[cfg(all(unix, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[path = "../fresh/mod.rs"]
mod fresh;
#[cfg(unix)]
mod line;
mod mutant;
mod rules;
#[cfg(all(unix, feature = "redis"))]
mod servers;
mod together;
#[cfg(all(unix, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[path = "../sql_tx/turns.rs"]
mod turns;

/// The store with the four operations passes the conformance suite.
mod suite {
    idempotent_runtime::testkit::conformance!(async {
        crate::four::Four(idempotent_runtime::MemoryStore::new())
    });
}
