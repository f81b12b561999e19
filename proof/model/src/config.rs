//! What is checked: who calls, what may go wrong, and which mistake is built in.

/// Calls of one caller: each begins when the one before was answered.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Calls of one process share its flights, and die together.
    pub process: u8,
    /// How many.
    pub calls: u8,
}

/// How often each thing may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A command that was not answered in time is sent again. When none is left, a call gives up.
    pub resends: u8,
    /// A process dies.
    pub crashes: u8,
    /// A caller drops the future of its call.
    pub cancels: u8,
    /// The network or the client delivers a command once more.
    pub repeats: u8,
    /// An operator frees the key.
    pub forgets: u8,
    /// The store loses the record: eviction, a flush.
    pub losses: u8,
    /// The replica takes over.
    pub failovers: u8,
    /// The store's clock is a tick ahead of those of the callers.
    pub drifts: u8,
    /// A future is kept but never polled again.
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

/// The protocol, or one way to get it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As the runtime has it.
    Right,
    /// The end removes whatever stands under the key.
    UnownedRemove,
    /// The end is put over whatever stands under the key.
    UnownedComplete,
    /// The lease is neither renewed nor looked at.
    LeaseShorterThanBody,
    /// A record that stands there is always somebody else's.
    OwnRecordUnknown,
    /// The lease is counted from the answer, not from the first send.
    LeaseFromReply,
    /// A completion without an answer is a failure, and the record goes by its owner, running or done.
    TimeoutRemovesByOwner,
    /// The owner is made once per caller, not per call.
    OwnerPerCaller,
    /// The claim is put first and gets its expiry by a second command.
    ExpiryApart,
    /// A renewal prolongs whatever stands under the key.
    UnownedRenewal,
    /// The body is polled although the lease is over.
    BodyOutlivesLease,
    /// A failover may take what was acknowledged, and that counts as no excuse.
    FailoverUnawaited,
    /// `on_store_error = "run"` for everybody.
    FailOpen,
    /// A payload is not compared.
    PayloadIgnored,
    /// A completion without an answer is a failure, and the exact claim is removed.
    TimeoutRemoves,
    /// The keeper stops when the body ends, not when its end is recorded.
    KeeperStopsWithBody,
    /// Who follows a call believes whatever that is told, however old it is.
    LateTakenBelieved,
    /// A claim without an answer is sent again with an owner made anew.
    OwnerPerTry,
    /// Who follows a call waits for it without end.
    FrozenLeaderAwaited,
    /// The record expires when the lease ends.
    NoGrace,
    /// A call that waits does not know its own earlier claims.
    GhostUnknown,
}

/// One space of states.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Config {
    /// As it is printed.
    pub name: &'static str,
    /// Who calls.
    pub callers: Vec<Caller>,
    /// In ticks.
    pub lease: u8,
    /// In ticks.
    pub grace: u8,
    /// In ticks.
    pub ttl: u8,
    /// How often one claim is renewed at most: `renew_for` in `policy`.
    pub renewals: u8,
    /// How often a call that was told "running" asks again: the option `wait`.
    pub waits: u8,
    /// When the key becomes free.
    pub release: Release,
    /// What becomes of the claim of a dropped call.
    pub on_cancel: OnCancel,
    /// Every call has a payload of its own.
    pub payloads: bool,
    /// The effect commits together with a row that is unique for the key.
    pub row: bool,
    /// The effect goes to somebody else, and may arrive a grace later, with its body gone.
    pub wire: bool,
    /// The store has no room for a result.
    pub full: bool,
    /// A renewal that is due is sent, executed and answered before the clock moves on.
    pub punctual: bool,
    /// A body may end in an error.
    pub errors: bool,
    /// An answer is given once the replica has it: `WAIT`.
    pub replicated: bool,
    /// What may go wrong.
    pub faults: Faults,
    /// The mistake that is built in.
    pub variant: Variant,
}

impl Config {
    /// Callers in processes of their own, with one call each, and nothing that goes wrong but the network.
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
            replicated: false,
            faults: Faults {
                resends: 1,
                ..Faults::default()
            },
            variant: Variant::Right,
        }
    }

    /// The same with one thing changed or more.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The same with a mistake.
    #[must_use]
    pub fn wrong(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    pub(crate) fn is(&self, variant: Variant) -> bool {
        self.variant == variant
    }

    /// Whether more than one call is made in this process.
    pub(crate) fn in_company(&self, process: u8) -> bool {
        let here = self
            .callers
            .iter()
            .filter(|caller| caller.process == process);
        here.map(|caller| caller.calls).sum::<u8>() > 1
    }

    /// Whether nothing but their numbers tells two callers with one call each apart.
    pub(crate) fn are_alike(&self, one: u8, other: u8) -> bool {
        let (one, other) = (
            self.callers[usize::from(one)],
            self.callers[usize::from(other)],
        );
        let alone = |caller: Caller| !self.in_company(caller.process);
        one.calls == 1 && other.calls == 1 && alone(one) == alone(other)
    }

    /// What the store is told at a claim and at a renewal.
    pub(crate) fn expiry(&self) -> u8 {
        let grace = if self.is(Variant::NoGrace) {
            0
        } else {
            self.grace
        };
        self.lease + grace
    }
}
