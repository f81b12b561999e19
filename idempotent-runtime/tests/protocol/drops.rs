//! A future that is dropped: after every poll, under every policy, alone and with equal calls beside it.
//!
//! The store is pending before it applies an operation and before it answers, so there is a poll at each point of
//! the protocol. What a drop leaves is worked out in `left`, from the table of `release`.

mod alone;
mod beside;
mod case;
mod left;
pub(crate) mod polled;
pub(crate) mod slow;
