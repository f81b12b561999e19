//! A configuration: the runs, the possible faults and the mistake in the protocol.

/// How many times each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A process dies, or a call is dropped.
    pub crashes: u8,
    /// A body fails after a step.
    pub failures: u8,
    /// A body succeeds after a step that is not its last.
    pub short: u8,
    /// The answer to a record is lost.
    pub replies: u8,
    /// A record gets no answer, and is stored at a later time in the lease.
    pub late: u8,
    /// A body drops a step while its record is sent, and goes on.
    pub drops: u8,
    /// The renewal of one run is late by a tick.
    pub pauses: u8,
}

/// The protocol, or a variant with one mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The protocol of the runtime.
    Right,
    /// A run does not read the record of the earlier runs.
    NeverReads,
    /// A run that has lost its lease records a step without a look at the key.
    RecordsUnchecked,
    /// Such a run looks at the key only before it records a step.
    ChecksOnlyBefore,
    /// Such a run takes another run that has the key for a proof that none has succeeded, at any time.
    TrustsOldRuns,
    /// A step is recorded over the record of any other run.
    ReplacesOthers,
    /// A step whose record was refused counts as recorded.
    BelievesRefused,
    /// A record whose reply was lost counts as the record of another run.
    ForgetsUnanswered,
    /// A first record that may come late does not keep the record from being removed.
    RemovesBeforeLate,
    /// The record is removed when the body fails.
    RemovesAfterError,
    /// The record is removed before the success is stored.
    RemovesBeforeSuccess,
    /// The record lives longer than the record of a success.
    LivesLonger,
}

/// One space of states.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in reports.
    pub name: &'static str,
    /// How many runs begin.
    pub runs: u8,
    /// In ticks. A claim expires one tick later.
    pub lease: u8,
    /// How long the record of a success lives, in ticks.
    pub ttl: u8,
    /// The faults that may happen.
    pub faults: Faults,
    /// Whether a late record of an earlier run also comes after a success. This is not promised.
    pub comes_after_success: bool,
    /// The mistake in the protocol.
    pub variant: Variant,
}

impl Config {
    /// Three runs without a fault.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            runs: 3,
            lease: 1,
            ttl: 3,
            faults: Faults::default(),
            comes_after_success: false,
            variant: Variant::Right,
        }
    }

    /// The same configuration with changes.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn is(&self, variant: Variant) -> bool {
        self.variant == variant
    }
}
