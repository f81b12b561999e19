#![allow(clippy::unwrap_used)]

//! The test kit: the suite finds broken stores, and faults are what they are called.

mod broken;
mod suite;
mod wrappers;
