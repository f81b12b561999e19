//! A second model: the token phase of a call, and redemptions without a call.
//!
//! A state has one token, the keys of its redeemers, and a clock. A redeemer is a call, which claims its key, redeems the token, runs its
//! body and withdraws, or it is `Tokens::redeem` without a call. Messages are as in the first model: executed at any time, in any order,
//! twice, or never.
//!
//! The first model checks claims, renewals and results. So here a claim is not renewed, and a success is recorded in the step that ends its
//! body.

mod config;
mod redeemer;
mod rules;
pub mod spaces;
mod state;
mod steps;

pub use config::{Config, Faults, Redeemer, Variant};
pub use rules::{Event, Rule};
pub use spaces::Space;
pub use state::State;
pub use steps::Action;
