//! Drops a call after every poll, under every policy, alone and with an equal second call.
//!
//! The store is pending before it applies an operation and before it answers, so there is a poll at each point of
//! the protocol. `leftover` computes from the table of `release` which record a drop leaves.

mod case;
mod concurrent;
mod layer;
mod leftover;
pub(crate) mod polled;
mod single;
pub(crate) mod slow;
