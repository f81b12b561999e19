//! A configuration: the redeemers, the possible faults and the mistake in the protocol.

/// Redeems the token once.
#[derive(Clone, Copy, Debug)]
pub struct Redeemer {
    /// Redeemers of one process die together.
    pub process: u8,
    /// The number of the key of its call. `None`: `Tokens::redeem`, without a call.
    pub key: Option<u8>,
}

/// How many times each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A command without an answer in time is sent again. With none remaining, a redeemer gives up.
    pub resends: u8,
    /// A process dies.
    pub crashes: u8,
    /// A caller drops its future.
    pub cancels: u8,
    /// A command is delivered a second time.
    pub repeats: u8,
}

/// The protocol, or a variant with one mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The protocol of the runtime.
    Right,
    /// A redemption replaces any line of the token.
    RedeemsAnyLine,
    /// A return replaces the line of any redeemer.
    ReturnsAnyLine,
    /// A redemption without an answer is taken back once, although its command may still arrive.
    TakesBackOnce,
    /// A returned token has the line of a new token.
    ReturnsAsFresh,
    /// A redemption without an answer is sent again with a new owner.
    OwnerPerAttempt,
    /// The claim is removed before the token is given back.
    FreesKeyFirst,
    /// The token is given back after a body whose outcome is unknown.
    ReturnsAfterUnknown,
    /// The body runs if the redemption gets no answer.
    RunsWithoutAnswer,
    /// The lease is not checked after the redemption.
    LateAnswerAccepted,
    /// A return stores the token again after it has expired.
    ReturnsExpired,
    /// A call that gives up does not give the token back.
    NeverTakesBack,
}

/// One space of states.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in reports.
    pub name: &'static str,
    /// Who redeems the token.
    pub redeemers: Vec<Redeemer>,
    /// How long the token is valid, in ticks.
    pub token_ttl: u8,
    /// In ticks. Also how long a job in the background tries to give the token back without a call.
    pub lease: u8,
    /// In ticks.
    pub grace: u8,
    /// The option `give_back`.
    pub give_back: bool,
    /// `on_cancel = "release"` instead of `"keep"`.
    pub releases: bool,
    /// The faults that may happen.
    pub faults: Faults,
    /// The mistake in the protocol.
    pub variant: Variant,
}

impl Config {
    /// Two calls with one key in separate processes. Only the network is faulty.
    pub fn new(name: &'static str) -> Self {
        let call = |process| Redeemer {
            process,
            key: Some(0),
        };
        Self {
            name,
            redeemers: vec![call(0), call(1)],
            token_ttl: 4,
            lease: 2,
            grace: 1,
            give_back: false,
            releases: false,
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

    /// Whether these redeemers differ only in their numbers: both are alone in their processes, and have a key or none.
    pub(crate) fn are_interchangeable(&self, one: usize, other: usize) -> bool {
        let has_key = |id: usize| self.redeemers[id].key.is_some();
        has_key(one) == has_key(other)
            && self.redeemers[one].process != self.redeemers[other].process
    }

    pub(crate) fn keys(&self) -> usize {
        let keys = self.redeemers.iter().filter_map(|redeemer| redeemer.key);
        keys.max().map_or(0, |last| usize::from(last) + 1)
    }
}
