//! A third model: the numbers of claims with a fence.
//!
//! A state has one key, the record of its last number, a few calls and the clock of the store. A call claims the key, draws a number, runs its
//! body, writes to a resource that refuses smaller numbers, ends its fence and frees the key. The store draws the number in the same
//! step as the claim, or the call draws it in steps, by the clock of its process. Messages are as in the first model: executed at any time, in
//! any order, twice, or never. So a write that arrives after the lease of its call is the write of a paused process.
//!
//! The first model checks claims, renewals and results. So here a claim is not renewed, and nobody waits.

mod call;
mod config;
mod rules;
pub mod spaces;
mod state;
mod steps;
mod store;

pub use config::{Config, Faults, Store, Variant};
pub use rules::{Event, Rule};
pub use spaces::Space;
pub use state::State;
pub use steps::Action;
pub use store::Command;
