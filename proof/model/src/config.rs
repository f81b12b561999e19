//! A configuration: the callers, the possible faults and the mistake in the protocol.

/// The calls of one caller. Each call starts after the answer to the call before it.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Calls of one process share its in-flight table and die together.
    pub process: u8,
    /// The number of calls.
    pub calls: u8,
}

/// How many times each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A command without an answer in time is sent again. With none remaining, a call gives up.
    pub resends: u8,
    /// A process dies.
    pub crashes: u8,
    /// A caller drops the future of its call.
    pub cancels: u8,
    /// The network or the client delivers a command a second time.
    pub repeats: u8,
    /// An operator frees the key.
    pub forgets: u8,
    /// The store loses the record: eviction, a flush.
    pub losses: u8,
    /// The replica becomes the master.
    pub failovers: u8,
    /// The clock of the store is a tick ahead of the clocks of the callers.
    pub drifts: u8,
    /// A future is neither dropped nor polled again.
    pub freezes: u8,
}

/// The option `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// `true`.
    Always,
    /// `"on_error"`.
    OnError,
    /// `false`.
    Never,
}

/// The option `on_cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCancel {
    /// `"keep"`.
    Keep,
    /// `"release"`.
    Release,
    /// `"finish"`.
    Finish,
}

/// The protocol, or a variant with one mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The protocol of the runtime.
    Right,
    /// The end removes the record of any owner.
    UnownedRemove,
    /// The end replaces the record of any owner.
    UnownedComplete,
    /// The lease is neither renewed nor checked.
    LeaseShorterThanBody,
    /// A call does not recognize its own record.
    OwnRecordUnknown,
    /// The lease is counted from the answer instead of the first send.
    LeaseFromReply,
    /// A completion without an answer is a failure, and the record of its owner is removed, running or done.
    TimeoutRemovesByOwner,
    /// All calls of a caller have the same owner.
    OwnerPerCaller,
    /// The claim gets its expiry by a second command.
    ExpiryApart,
    /// A renewal prolongs the record of any owner.
    UnownedRenewal,
    /// The body is polled after its lease has expired.
    BodyOutlivesLease,
    /// A failover loses acknowledged records, and the rules do not excuse it.
    FailoverUnawaited,
    /// `on_store_error = "run"` for all calls.
    FailOpen,
    /// Payloads are not compared.
    PayloadIgnored,
    /// A completion without an answer is a failure, and the exact claim is removed.
    TimeoutRemoves,
    /// The renewal stops when the body ends instead of when its end is recorded.
    RenewalStopsWithBody,
    /// A follower believes the answer to its leader, even if the answer is older than the follower.
    StaleTakenBelieved,
    /// A claim without an answer is sent again with a new owner.
    OwnerPerAttempt,
    /// A follower waits for its leader without limit.
    FrozenLeaderAwaited,
    /// The record expires when the lease ends.
    NoGrace,
    /// A waiting call does not recognize its own earlier claims.
    StrayClaimsUnknown,
    /// A hold frees the key.
    HoldFreesKey,
    /// An error that says that the outcome is unknown frees the key, as other errors do.
    UnknownFreesKey,
    /// A hold is recorded as a success.
    HoldIsSuccess,
    /// The mark of a hold shortens the claim to a tick.
    HoldIsShort,
    /// The mark of a hold replaces the record of any owner.
    UnownedMark,
    /// A done record without a result replaces the record of any owner.
    UnownedTombstone,
}

/// One space of states.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct Config {
    /// The name in reports.
    pub name: &'static str,
    /// The callers.
    pub callers: Vec<Caller>,
    /// In ticks.
    pub lease: u8,
    /// In ticks.
    pub grace: u8,
    /// In ticks.
    pub ttl: u8,
    /// The maximum number of renewals of a claim: `renew_for` in `policy`.
    pub renewals: u8,
    /// How many times a call claims again behind a running call: the option `wait`.
    pub waits: u8,
    /// When the key becomes free.
    pub release: Release,
    /// What happens to the claim of a dropped call.
    pub on_cancel: OnCancel,
    /// Every call has another payload.
    pub payloads: bool,
    /// The effect commits in one transaction with a row that is unique for the key.
    pub row: bool,
    /// The effect is a message to another system. It may arrive up to the grace later, after its body was dropped.
    pub wire: bool,
    /// The store has no room for a result.
    pub full: bool,
    /// A due renewal is sent, executed and answered before the next tick.
    pub punctual: bool,
    /// A body may return an error.
    pub errors: bool,
    /// A body may end without knowing whether its effect took place, and hold its key: `Decision::Hold`.
    pub holds: bool,
    /// A body may end with an error that says that its outcome is unknown: `hold_err`.
    pub unknown: bool,
    /// The caller gets its result when the body has ended: `settle = "background"`.
    pub background: bool,
    /// The store answers after the replica has the change: `WAIT`.
    pub replicated: bool,
    /// The faults that may happen.
    pub faults: Faults,
    /// The mistake in the protocol.
    pub variant: Variant,
}

impl Config {
    /// Callers in separate processes, with one call each. Only the network is faulty.
    pub fn new(name: &'static str, callers: u8) -> Self {
        let alone = |process| Caller { process, calls: 1 };
        Self {
            name,
            callers: (0..callers).map(alone).collect(),
            lease: 2,
            grace: 1,
            ttl: 3,
            renewals: 0,
            waits: 0,
            release: Release::OnError,
            on_cancel: OnCancel::Keep,
            payloads: false,
            row: false,
            wire: false,
            full: false,
            punctual: false,
            errors: true,
            holds: false,
            unknown: false,
            background: false,
            replicated: false,
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

    /// The same configuration with a mistake.
    #[must_use]
    pub fn wrong(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    pub(crate) fn is(&self, variant: Variant) -> bool {
        self.variant == variant
    }

    /// Whether this process makes more than one call.
    pub(crate) fn has_several_calls(&self, process: u8) -> bool {
        let here = self
            .callers
            .iter()
            .filter(|caller| caller.process == process);
        here.map(|caller| caller.calls).sum::<u8>() > 1
    }

    /// Whether two callers with one call each differ only in their numbers.
    pub(crate) fn are_interchangeable(&self, one: u8, other: u8) -> bool {
        let (one, other) = (
            self.callers[usize::from(one)],
            self.callers[usize::from(other)],
        );
        let alone = |caller: Caller| !self.has_several_calls(caller.process);
        one.calls == 1 && other.calls == 1 && alone(one) == alone(other)
    }

    /// The time to live of a claim and of a renewal.
    pub(crate) fn expiry(&self) -> u8 {
        let grace = if self.is(Variant::NoGrace) {
            0
        } else {
            self.grace
        };
        self.lease + grace
    }
}
