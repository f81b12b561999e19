//! What several test programs share. It is not published.
//!
//! Without features it only captures logs, which is what the unit tests of the runtime need.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    missing_debug_implementations,
    missing_docs
)]

#[cfg(feature = "stores")]
pub mod blocked;
#[cfg(feature = "stores")]
pub mod databases;
#[cfg(feature = "stores")]
pub mod dropping;
#[cfg(feature = "stores")]
pub mod equal_calls;
#[cfg(feature = "stores")]
pub mod exports;
#[cfg(feature = "http")]
pub mod forging;
#[cfg(feature = "http")]
pub mod http_client;
#[cfg(feature = "stores")]
pub mod implies;
pub mod log_capture;
#[cfg(feature = "stores")]
pub mod orders;
#[cfg(feature = "stores")]
pub mod patient;
#[cfg(feature = "stores")]
pub mod redis_client;
#[cfg(feature = "stores")]
pub mod required_only;
#[cfg(feature = "stores")]
pub mod spy;
#[cfg(feature = "stores")]
pub mod transfers;
#[cfg(feature = "stores")]
pub mod turns;
#[cfg(feature = "stores")]
pub mod wire;
