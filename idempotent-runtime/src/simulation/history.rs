//! What happened in a run, in the order in which it happened.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

/// A call by its place in the plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallId(pub(super) usize);

/// Not a call: an operator who frees keys.
pub(super) const OPERATOR: CallId = CallId(usize::MAX);

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            OPERATOR => f.write_str("operator"),
            Self(call) => write!(f, "#{call}"),
        }
    }
}

/// At so many milliseconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Event {
    pub(super) at: u64,
    pub(super) key: Option<usize>,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// A call is made, in this process.
    Made {
        call: CallId,
        process: usize,
    },
    /// Its process is down, so it is not made.
    NoProcess {
        call: CallId,
    },
    /// The caller dropped it.
    Dropped {
        call: CallId,
    },
    /// It died with its process.
    Died {
        call: CallId,
    },
    /// The caller got an answer.
    Told {
        call: CallId,
        told: Told,
    },
    /// The caller does not poll it for a while.
    Frozen {
        call: CallId,
        until: u64,
    },

    BodyPolled {
        call: CallId,
        first: bool,
    },
    /// The body does what it is for.
    Effect {
        call: CallId,
    },
    BodyEnded {
        call: CallId,
        end: BodyEnd,
    },
    /// The body runs without a claim.
    Unguarded {
        call: CallId,
    },
    /// The engine says that an end is not recorded.
    Unrecorded {
        process: usize,
    },
    /// The engine says that a lease was lost.
    Overrun {
        process: usize,
    },

    Sent {
        message: u64,
        call: CallId,
        op: Sends,
    },
    /// The request has reached the store, whose sender may have given up.
    Arrived {
        message: u64,
        given_up: bool,
    },
    Lost {
        message: u64,
        reply: bool,
    },
    Refused {
        message: u64,
        full: bool,
    },
    /// The sender has the answer.
    Answered {
        message: u64,
        fine: bool,
    },

    /// A record of `call` stands from now until then; the request was sent at `sent`.
    Put {
        call: CallId,
        done: bool,
        sent: u64,
        until: Option<u64>,
    },
    /// A record stands longer, or shorter.
    Touched {
        call: CallId,
        sent: u64,
        until: u64,
    },
    /// The store's clock has jumped, so a record stands until then.
    Stands {
        call: CallId,
        done: bool,
        until: Option<u64>,
    },
    Gone {
        call: CallId,
        done: bool,
        why: Why,
    },

    Crashed {
        process: usize,
    },
    Paused {
        process: usize,
    },
    Resumed {
        process: usize,
    },
    Weather(&'static str),
}

/// What a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sends {
    Claim,
    Renewal,
    Completion,
    Removal,
    Look,
}

/// Why a record is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Why {
    Expired,
    /// By a request of this call.
    Changed(CallId),
    /// The store lost it.
    Forgotten,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BodyEnd {
    Success,
    Failure,
    Panic,
    /// It was dropped in the middle.
    Stopped,
}

/// What a caller got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Told {
    /// The value of a body; its call.
    Value(CallId),
    BodyFailed,
    Panicked,
    InProgress,
    Taken,
    Done,
    Mismatch,
    LeaseLost,
    Unavailable,
    Otherwise(&'static str),
}

impl What {
    /// The call that it is about.
    pub(super) fn call(&self) -> Option<CallId> {
        match *self {
            Self::Made { call, .. }
            | Self::NoProcess { call }
            | Self::Dropped { call }
            | Self::Died { call }
            | Self::Told { call, .. }
            | Self::Frozen { call, .. }
            | Self::BodyPolled { call, .. }
            | Self::Effect { call }
            | Self::BodyEnded { call, .. }
            | Self::Unguarded { call }
            | Self::Put { call, .. }
            | Self::Touched { call, .. }
            | Self::Stands { call, .. }
            | Self::Sent { call, .. }
            | Self::Gone { call, .. } => Some(call),
            _ => None,
        }
    }
}

/// A number that differs if anything in two histories does.
pub(super) fn digest(history: &[Event]) -> u64 {
    let mut hasher = DefaultHasher::new();
    history.hash(&mut hasher);
    hasher.finish()
}
