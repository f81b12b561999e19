//! Counters: in memory, on a store with only the four required operations, on Redis and on databases.

mod databases;
#[cfg(unix)]
mod line;
mod mutant;
mod rules;
mod servers;
mod together;

/// The store with the four operations passes the conformance suite.
mod suite {
    idempotence::testkit::conformance!(async {
        support::required_only::RequiredOnly(idempotent_runtime::MemoryStore::new())
    });
}
