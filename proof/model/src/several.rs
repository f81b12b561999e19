//! Another model: calls with several keys.
//!
//! A state has a few keys, calls that each claim some of them, and a clock. The first model checks messages that are late, lost or doubled. So
//! here a command and its answer are one step, and what is checked is the order of the claims, and what is held meanwhile.
//!
//! A call waits for a taken key without a limit, if it waits: then a circle of calls that wait for each other never ends.

mod config;
mod rules;
pub mod spaces;
mod state;
mod steps;

pub use config::{Config, Faults, Variant};
pub use rules::{Event, Rule};
pub use spaces::Space;
pub use state::State;
pub use steps::Action;
