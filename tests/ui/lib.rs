//! Tests only: see `main.rs`.
