//! Claim, hold, settle: the protocol of one call, for any store.

pub(crate) mod background;
pub(crate) mod claim;
pub(crate) mod held;
pub(crate) mod in_flight;
pub(crate) mod lease;
pub(crate) mod poll_limiter;
pub(crate) mod redeem;
pub(crate) mod refusal;
pub(crate) mod retry;
pub(crate) mod scheduler;
pub(crate) mod settle;
pub(crate) mod shared;
pub(crate) mod token;
pub(crate) mod tracker;
pub(crate) mod wait;
