//! A configuration: the store, the calls, the possible faults and the mistake in the protocol.

/// How the store draws a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In the same step as the claim, by the clock of the store.
    OneStep,
    /// After the claim, by the four operations and the clock of the process.
    Steps,
}

/// How many times each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A command without an answer in time is sent again. With none remaining, a call gives up.
    pub resends: u8,
    /// A call dies with its process.
    pub crashes: u8,
    /// A caller drops its future.
    pub cancels: u8,
    /// A command is delivered a second time.
    pub repeats: u8,
    /// An operator frees the key.
    pub forgets: u8,
    /// The clock of the store is set back by a tick.
    pub set_back: u8,
    /// The store loses the record of the number.
    pub losses: u8,
}

/// The protocol, or a variant with one mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The protocol of the runtime.
    Right,
    /// The number is the time, without the last number.
    ClockAlone,
    /// The number follows the last number, without the time.
    NoClock,
    /// The number is drawn before the claim is won.
    DrawnBeforeClaim,
    /// A number that was drawn in a second step is used although the claim is not stored any more.
    NotConfirmed,
    /// A claim that is sent again draws another number.
    NewForRepeat,
    /// A refused claim draws a number.
    RefusedDraws,
    /// The end of a fence replaces the line of any claim.
    UnownedEnd,
    /// The end of a fence removes its line.
    EndRemovesLine,
    /// The key is free before its fence is ended.
    KeyFreedFirst,
    /// The fence is ended before the success is recorded.
    EndedBeforeRecorded,
    /// A claim that took over and was withdrawn ends its fence.
    WithdrawalHidesDead,
    /// A withdrawn claim counts as an attempt.
    WithdrawalCounts,
    /// A dropped body ends its fence.
    DroppedIsEnded,
}

/// One space of states.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct Config {
    /// The name in reports.
    pub name: &'static str,
    /// How the store draws a number.
    pub store: Store,
    /// The number of calls, each in a process of its own.
    pub calls: u8,
    /// In ticks.
    pub lease: u8,
    /// In ticks.
    pub grace: u8,
    /// How long the record of a number is stored, in ticks.
    pub life: u8,
    /// How many ticks pass.
    pub ticks: u8,
    /// By how many ticks the clock of each process is behind.
    pub behind: [u8; 3],
    /// A success is recorded, and keeps the key: `release = "on_error"` instead of `true`.
    pub records: bool,
    /// A call may be refused after its claim and before its body, as by a token.
    pub refuses: bool,
    /// `on_cancel = "release"` instead of `"keep"`.
    pub releases: bool,
    /// A call gives up if an answer is late. Otherwise every answer comes in time.
    pub gives_up: bool,
    /// Bodies write to the resource.
    pub writes: bool,
    /// The faults that may happen.
    pub faults: Faults,
    /// The mistake in the protocol.
    pub variant: Variant,
}

impl Config {
    /// Two calls on a store that draws in one step. Only the network is faulty.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            store: Store::OneStep,
            calls: 2,
            lease: 1,
            grace: 1,
            life: u8::MAX,
            ticks: 2,
            behind: [0; 3],
            records: false,
            refuses: false,
            releases: false,
            gives_up: true,
            writes: false,
            faults: Faults {
                resends: 1,
                ..Faults::default()
            },
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
