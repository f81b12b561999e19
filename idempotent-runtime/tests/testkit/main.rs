#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used)]

//! The test kit: the suite finds broken stores, and faults are what they are called.

mod broken;
#[cfg(all(unix, feature = "postgres", feature = "mysql"))]
mod databases;
#[cfg(unix)]
mod redis;
mod suite;
mod wrappers;
