//! Tests of the adapters: `cargo test -p idempotence-adapters`.
