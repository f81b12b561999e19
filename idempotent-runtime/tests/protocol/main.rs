//! The protocol, rule by rule, as the attribute's code drives it.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, missing_docs)]

mod bypassed;
mod cancellation;
mod claiming;
mod doctor;
mod drops;
mod events;
mod finish;
mod following;
mod guarded;
#[path = "../heard/mod.rs"]
mod heard;
mod hinting;
mod hints;
mod keeper;
mod lost;
mod names;
mod never_released;
mod operations;
mod outage;
mod oversize;
mod panics;
mod payload;
mod peek;
mod polling;
mod release_table;
mod renewal;
mod replay;
mod retrying;
mod running_on;
mod settling;
mod soak;
mod together;
mod tokens;
mod told;
mod waiting;
mod without_the_macro;
