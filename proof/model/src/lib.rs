//! A model of the protocol that is checked exhaustively.
//!
//! A state has one key, a few callers and a clock of a few ticks. Commands wait in a bag. They are executed at any time,
//! in any order, or never. Replies are lost, and processes die. The checker visits every reachable state and checks
//! every [`Rule`] in it.
//!
//! The model uses the names of the runtime. Comments name the module of the runtime that a step mirrors. Time is only
//! counted down and everything else is bounded, so every run ends in a state without further steps.

mod actions;
mod call;
mod config;
pub mod fences;
pub mod mistakes;
mod protocol;
pub mod recovery;
mod renewal;
mod rules;
mod search;
mod settle;
pub mod several;
pub mod spaces;
mod state;
mod store;
pub mod tokens;
mod wait;

pub use actions::Action;
pub use config::{Caller, Config, Faults, OnCancel, Release, Variant};
pub use rules::{Event, Rule};
pub use search::{Outcome, Search, Steps};
pub use spaces::Space;
pub use state::State;
