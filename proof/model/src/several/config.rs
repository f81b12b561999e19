//! A configuration: the calls, the possible faults and the mistake in the protocol.

/// How many times each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A process dies.
    pub crashes: u8,
    /// A caller drops its future.
    pub cancels: u8,
    /// A renewal of one call is late by a tick.
    pub late: u8,
}

/// The protocol, or a variant with one mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The protocol of the runtime.
    Right,
    /// A call claims its keys in the order in which its caller names them.
    OrderOfCaller,
    /// A call that finds a key taken keeps the keys that it has claimed before.
    KeepsEarlierKeys,
    /// A call that waits for a key does not renew the keys that it holds.
    RenewsOnlyWhileItRuns,
    /// The leases are not checked after the last claim.
    LeasesNotChecked,
    /// The end of the body frees only the key that names the call.
    FreesOneKey,
    /// A dropped call withdraws only the last claim.
    WithdrawsLastKey,
    /// A claim of all keys in one step claims the free ones, also if one is taken.
    ClaimsFreeKeys,
    /// A key that is named twice is claimed twice, each time by a new owner.
    ClaimsEqualKeys,
}

/// One space of states.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in reports.
    pub name: &'static str,
    /// The keys of each call, in the order in which the caller names them.
    pub calls: Vec<Vec<u8>>,
    /// Whether a call waits for a taken key. If not, it is refused.
    pub waits: bool,
    /// In ticks. A record expires one tick later.
    pub lease: u8,
    /// The faults that may happen.
    pub faults: Faults,
    /// The mistake in the protocol.
    pub variant: Variant,
}

impl Config {
    /// Two crossing calls.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            calls: vec![vec![0, 1], vec![1, 0]],
            waits: false,
            lease: 2,
            faults: Faults::default(),
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

    /// The keys of a call, in the order in which it claims them (`protocol::several`).
    pub(crate) fn order(&self, id: u8) -> Vec<u8> {
        let mut keys = self.calls[usize::from(id)].clone();
        if !self.is(Variant::OrderOfCaller) {
            keys.sort_unstable();
        }
        if !self.is(Variant::ClaimsEqualKeys) {
            keys.dedup();
        }
        keys
    }

    pub(crate) fn keys(&self) -> usize {
        let last = self.calls.iter().flatten().max();
        last.map_or(0, |last| usize::from(*last) + 1)
    }
}
