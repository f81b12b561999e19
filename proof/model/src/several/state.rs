//! The state of the model, and the store.

use super::config::{Config, Faults};
use super::rules::Rule;

/// One state of the keys and the calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) keys: Vec<Option<Claim>>,
    pub(crate) calls: Vec<Call>,
    pub(crate) faults: Faults,
    /// A bit for each broken rule.
    pub(crate) broken: u8,
    /// A call that held a key has found another key taken.
    pub(crate) has_met: bool,
}

/// The record under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub(crate) by: u8,
    /// The time until it expires by the clock of the store.
    pub(crate) remaining: u8,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) phase: Phase,
    /// How it ends, or has ended.
    pub(crate) end: End,
    /// How many of its keys it has claimed.
    pub(crate) claimed: u8,
    /// What remains of the shortest lease of its claims.
    pub(crate) lease: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    NotStarted,
    Claiming,
    Running,
    /// Frees its keys, one after another.
    Freeing,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Open,
    /// The body ran to its end.
    Done,
    /// A key was taken.
    Refused,
    /// It was dropped before its body ran.
    Cancelled,
    /// Its leases ended before its body ran.
    TooLate,
    /// Its body was dropped or stopped: whether it did its work is not known.
    Unknown,
    Died,
}

impl State {
    pub(crate) fn first(config: &Config) -> Self {
        let call = Call {
            phase: Phase::NotStarted,
            end: End::Open,
            claimed: 0,
            lease: config.lease,
        };
        Self {
            keys: vec![None; config.keys()],
            calls: vec![call; config.calls.len()],
            faults: config.faults,
            broken: 0,
            has_met: false,
        }
    }

    pub(crate) fn call(&self, id: u8) -> &Call {
        &self.calls[usize::from(id)]
    }

    pub(crate) fn call_mut(&mut self, id: u8) -> &mut Call {
        &mut self.calls[usize::from(id)]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u8> + use<> {
        0..u8::try_from(self.calls.len()).expect("calls are few")
    }

    /// The keys that the store keeps for a call.
    pub(crate) fn held_by(&self, id: u8) -> usize {
        let claims = self.keys.iter().flatten();
        claims.filter(|claim| claim.by == id).count()
    }

    pub(crate) fn key(&mut self, key: u8) -> &mut Option<Claim> {
        &mut self.keys[usize::from(key)]
    }

    pub(crate) fn report_broken(&mut self, rule: Rule) {
        self.broken |= 1 << rule as u8;
    }
}
