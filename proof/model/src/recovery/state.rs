//! The state of the model, and the store.

use super::config::{Config, Faults};
use super::rules::{Event, Rule};

/// The steps of a call.
pub(crate) const STEPS: usize = 3;

/// One state of the store and the runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) key: Option<Holder>,
    pub(crate) record: Option<Stored>,
    pub(crate) runs: Vec<Run>,
    /// Records that were sent and are not stored yet, and for how long they may come. Each is a first record.
    pub(crate) late: Vec<(Record, u8)>,
    /// How many runs have succeeded.
    pub(crate) successes: u8,
    /// The steps that a run knows to be recorded, since the last success and while the record lives.
    pub(crate) known: [bool; STEPS],
    pub(crate) faults: Faults,
    /// A bit for each broken rule.
    pub(crate) broken: u8,
    /// A bit for each event.
    pub(crate) happened: u8,
}

/// What the key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    /// The run that has claimed it; `None` after a success.
    pub(crate) by: Option<u8>,
    /// The time until it expires.
    pub(crate) remaining: u8,
}

/// The record of the steps, in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    pub(crate) remaining: u8,
}

/// The record of the steps: its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) by: u8,
    /// For each recorded step: how many runs had succeeded before the run that did it began.
    pub(crate) done: [Option<u8>; STEPS],
}

/// A run of the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) phase: Phase,
    /// The step that it is at.
    pub(crate) step: u8,
    /// What remains of its lease; 0 if it is lost.
    pub(crate) lease: u8,
    /// How long ago the lease was lost, at most the time to live of a success.
    pub(crate) lost_for: u8,
    /// How many runs had succeeded when it began.
    pub(crate) began: u8,
    /// The steps that were known to be recorded when it began.
    pub(crate) known: [bool; STEPS],
    /// The record that it has read or written last.
    pub(crate) last: Option<Record>,
    /// The steps that it knows to be done, as the record has them.
    pub(crate) done: [Option<u8>; STEPS],
    /// The record of its step is a first record.
    pub(crate) is_first: bool,
    /// The records that it has sent, and that got no answer.
    pub(crate) unanswered: Vec<Record>,
    /// A first record may come late.
    pub(crate) may_come_late: bool,
    /// Its last record was stored after its lease, and the look at the key has not followed yet.
    pub(crate) is_unchecked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    NotStarted,
    /// It has the key, and reads the record.
    Reading,
    /// It begins its next step, or ends.
    Between,
    /// A step runs.
    Running,
    Recording,
    /// It looks at the key, because its record was stored after its lease.
    Checking,
    TakingBack,
    /// Its body has succeeded.
    Succeeding,
    /// Its body has failed.
    Failing,
    /// It removes the record.
    Removing,
    Ended,
}

impl State {
    pub(crate) fn first(config: &Config) -> Self {
        Self {
            key: None,
            record: None,
            runs: vec![Run::new(config.lease); usize::from(config.runs)],
            late: Vec::new(),
            successes: 0,
            known: [false; STEPS],
            faults: config.faults,
            broken: 0,
            happened: 0,
        }
    }

    pub(crate) fn run(&self, id: u8) -> &Run {
        &self.runs[usize::from(id)]
    }

    pub(crate) fn run_mut(&mut self, id: u8) -> &mut Run {
        &mut self.runs[usize::from(id)]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u8> + use<> {
        0..u8::try_from(self.runs.len()).expect("runs are few")
    }

    /// Whether the key has the claim of this run.
    pub(crate) fn has_key(&self, id: u8) -> bool {
        self.key.is_some_and(|key| key.by == Some(id))
    }

    /// Ends a run. Of what it knew only this matters from now on.
    pub(crate) fn end(&mut self, id: u8) {
        let run = self.run_mut(id);
        *run = Run {
            phase: Phase::Ended,
            is_unchecked: run.is_unchecked,
            ..Run::new(0)
        };
    }

    /// No step is recorded any more.
    pub(crate) fn forget_known(&mut self) {
        self.known = [false; STEPS];
        for run in &mut self.runs {
            run.known = [false; STEPS];
        }
    }

    pub(crate) fn note(&mut self, event: Event) {
        self.happened |= 1 << event as u8;
    }

    pub(crate) fn report_broken(&mut self, rule: Rule) {
        self.broken |= 1 << rule as u8;
    }
}

impl Run {
    fn new(lease: u8) -> Self {
        Self {
            phase: Phase::NotStarted,
            step: 0,
            lease,
            lost_for: 0,
            began: 0,
            known: [false; STEPS],
            last: None,
            done: [None; STEPS],
            is_first: false,
            unanswered: Vec::new(),
            may_come_late: false,
            is_unchecked: false,
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lease == 0
    }

    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.phase, Phase::NotStarted | Phase::Ended)
    }

    /// The record after the step that it is at.
    pub(crate) fn next_record(&self, id: u8) -> Record {
        let mut done = self.done;
        done[usize::from(self.step)] = Some(self.began);
        Record { by: id, done }
    }
}
