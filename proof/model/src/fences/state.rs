//! The state of the model, and what the rules remember.

use super::call::Call;
use super::config::{Config, Faults};
use super::rules::Rule;
use super::store::{Command, Line, Record};

/// One state of the key, its number, its calls and the messages between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The record under the key.
    pub(crate) record: Option<Record>,
    /// The record of the last number.
    pub(crate) line: Option<Line>,
    /// How long the line is still stored.
    pub(crate) life: u8,
    /// In ticks.
    pub(crate) clock: u8,
    /// How many ticks still pass.
    pub(crate) ticks: u8,
    pub(crate) calls: Vec<Call>,
    /// Sent commands that may be executed, sorted.
    pub(crate) bag: Vec<Command>,
    /// What the resource has accepted last.
    pub(crate) resource: Write,
    /// The faults that may still happen.
    pub(crate) faults: Faults,
    pub(crate) memory: Memory,
}

/// A write to the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Write {
    pub(crate) number: u8,
    /// The order of its claim. The resource does not know it.
    pub(crate) order: u8,
}

/// Facts that only the rules know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    /// A bit for each broken rule.
    pub(crate) broken: u8,
    /// How many claims were stored.
    pub(crate) claims: u8,
    /// The record of a number expired or was lost, so the history before it is unknown.
    pub(crate) line_lost: bool,
    /// The resource has refused a write.
    pub(crate) refused_write: bool,
}

impl State {
    pub(crate) fn first(config: &Config) -> Self {
        Self {
            record: None,
            line: None,
            life: 0,
            clock: 2,
            ticks: config.ticks,
            calls: vec![Call::default(); usize::from(config.calls)],
            bag: Vec::new(),
            resource: Write::default(),
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
        self.memory.broken |= 1 << rule as u8;
    }
}
