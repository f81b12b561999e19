//! The protocol, rule by rule, as the attribute's code drives it.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, missing_docs)]

mod cancellation;
mod claiming;
mod events;
mod finish;
mod guarded;
mod heard;
mod keeper;
mod lost;
mod never_released;
mod outage;
mod payload;
mod peek;
mod release_table;
mod renewal;
mod replay;
mod review_bugs;
mod review_kills;
mod settling;
mod together;
mod waiting;
mod without_the_macro;
