//! The calls whose costs are counted. `benches/counts.rs` counts them and compares the counts with the table of
//! `benches/README.md`.

mod case;
mod guarded;
mod requests;
mod server;

pub use case::{Case, Started, cases};
