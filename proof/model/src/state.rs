//! The state of the model, and what the rules remember.

use crate::call::Call;
use crate::config::{Caller, Config, Faults};
use crate::rules::Rule;
use crate::store::{Command, Record};

/// One state of the key, its callers and the messages between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The record under the key.
    pub(crate) record: Option<Record>,
    /// The record on the replica.
    pub(crate) replica: Option<Record>,
    pub(crate) calls: Vec<Call>,
    /// Sent commands that may be executed, sorted.
    pub(crate) bag: Vec<Command>,
    /// The call in the in-flight table of each process (`in_flight`).
    pub(crate) in_flight: Vec<Option<u8>>,
    /// The faults that may still happen.
    pub(crate) faults: Faults,
    pub(crate) memory: Memory,
}

/// Facts that only the rules know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    /// A bit for each broken rule.
    pub(crate) broken: u16,
    /// The result that must be stored, and for how long.
    pub(crate) recorded: Option<Recorded>,
    /// The store lost the record of a holder, which excuses two bodies.
    pub(crate) record_lost: bool,
    /// How long a second effect is forbidden.
    pub(crate) effect: u8,
    /// A crash or the end of a lease prevented the record of an effect.
    pub(crate) effect_unrecorded: bool,
    /// The row that commits with the effect.
    pub(crate) row: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recorded {
    pub(crate) call: u8,
    pub(crate) remaining: u8,
    pub(crate) acknowledged: bool,
}

impl State {
    pub(crate) fn first(config: &Config) -> Self {
        let mut calls = Vec::new();
        for (caller, of) in (0..).zip(&config.callers) {
            let Caller { process, calls: of } = *of;
            calls.extend((0..of).map(|_| Call::new(caller, process)));
        }
        let processes = config.callers.iter().map(|caller| caller.process).max();
        Self {
            record: None,
            replica: None,
            calls,
            bag: Vec::new(),
            in_flight: vec![None; usize::from(processes.unwrap_or_default()) + 1],
            faults: config.faults,
            memory: Memory::default(),
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

    pub(crate) fn send(&mut self, command: Command) {
        let place = self.bag.partition_point(|other| *other <= command);
        self.bag.insert(place, command);
    }

    pub(crate) fn report_broken(&mut self, rule: Rule) {
        self.memory.broken |= 1 << rule as u16;
    }
}
