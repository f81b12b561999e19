//! Everything that a step may depend on, and what the rules have to remember.

use crate::call::Call;
use crate::config::{Caller, Config, Faults};
use crate::rules::Rule;
use crate::store::{Command, Record};

/// One state of the key, its callers and what is between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What stands under the key.
    pub(crate) record: Option<Record>,
    /// What stands there by the knowledge of the replica.
    pub(crate) replica: Option<Record>,
    pub(crate) calls: Vec<Call>,
    /// Commands that were sent and may be executed. Sorted.
    pub(crate) bag: Vec<Command>,
    /// The flight of each process (`in_flight`).
    pub(crate) flights: Vec<Option<u8>>,
    /// What may still go wrong.
    pub(crate) faults: Faults,
    pub(crate) memory: Memory,
}

/// What nobody knows but the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    /// Rules that were broken, a bit for each.
    pub(crate) broken: u16,
    /// The result that must stand there, and for how long.
    pub(crate) recorded: Option<Recorded>,
    /// The record was taken from its holder, so that two bodies are nobody's fault.
    pub(crate) record_lost: bool,
    /// For how long a second effect would be one too many.
    pub(crate) effect: u8,
    /// A crash, or the end of a lease, came between an effect and its record.
    pub(crate) effect_unrecorded: bool,
    /// The row that commits with the effect.
    pub(crate) row: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recorded {
    pub(crate) call: u8,
    pub(crate) left: u8,
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
            flights: vec![None; usize::from(processes.unwrap_or_default()) + 1],
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

    pub(crate) fn broke(&mut self, rule: Rule) {
        self.memory.broken |= 1 << rule as u16;
    }
}
