//! A table of idempotency keys as it is usually written by hand, beside the option `tx` of the attribute: the same calls on the
//! same PostgreSQL, with a pool of ten connections.

pub mod by_hand;
pub mod guarded;
pub mod payment;
pub mod scenarios;
