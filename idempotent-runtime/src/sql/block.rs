//! Transactions that run again.

mod begin;
pub(crate) mod retry;
