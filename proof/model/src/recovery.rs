//! Another model: calls with three steps, whose results are kept when the call runs again.
//!
//! A state has one key, the record of its steps, up to three runs and a clock. The first model checks the messages of the key. So here a
//! command on the key and its answer are one step. The commands on the record of the steps are applied, lost, repeated, or late.
//!
//! A run that has lost its lease goes on, as with `on_lease_lost = "continue"`. A run that is stopped or dropped there is a crash.

mod config;
mod rules;
mod run;
pub mod spaces;
mod state;
mod steps;

pub use config::{Config, Faults, Variant};
pub use rules::{Event, Rule};
pub use spaces::Space;
pub use state::State;
pub use steps::Action;
