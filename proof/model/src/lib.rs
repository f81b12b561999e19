//! The protocol as a model that is checked exhaustively.
//!
//! One key, a few callers, a clock of a few ticks. Commands wait in a bag and are executed at any time, in any order,
//! or never; replies are lost; processes die. The checker visits every state that can be reached so, and looks
//! whether a [`Rule`] is broken in it.
//!
//! The words are the code's own, and a comment names the room of the runtime that a step mirrors. Time is counted
//! down, never up, and everything else is bounded, so no run goes on for ever: what cannot move any more is an end.

mod call;
mod check;
mod config;
mod protocol;
mod rules;
mod settle;
pub mod spaces;
mod state;
mod store;
mod wait;

pub use check::{Outcome, check};
pub use config::{Caller, Config, Faults, OnCancel, Release, Variant};
pub use protocol::{Action, Protocol};
pub use rules::{Event, Rule};
pub use spaces::Space;
pub use state::State;
