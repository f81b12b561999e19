//! Tests of the testkit: the conformance suite finds broken stores, and faults do what their names say.

mod broken;
mod broken_fences;
mod broken_first_free;
mod broken_hints;
mod broken_listings;
mod broken_several;
mod late;
mod storm;
mod suite;
mod wrappers;
