//! How often each thing happened in many runs: a run in which nothing happens proves nothing.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, Default)]
pub(super) struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    pub(super) fn add(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn join(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub(super) fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(what, count)| writeln!(f, "{count:>12} {what}"))
    }
}
