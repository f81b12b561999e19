//! The events of a run, in their order.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use bytes::Bytes;

use super::source;
use crate::record::token as record;

/// A call, by its index in the plan.
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

/// One event. `at`: milliseconds after the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Event {
    pub(super) at: u64,
    pub(super) key: Option<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A call is made, in this process.
    Made {
        call: CallId,
        process: usize,
    },
    /// The process of the call is down, so the call is not made.
    NoProcess {
        call: CallId,
    },
    /// The caller dropped the call.
    Dropped {
        call: CallId,
    },
    /// The call died with its process.
    Died {
        call: CallId,
    },
    /// The caller got an answer.
    Returned {
        call: CallId,
        returned: Returned,
    },
    /// The caller does not poll the call for a while.
    Frozen {
        call: CallId,
        until: u64,
    },

    BodyPolled {
        call: CallId,
        first: bool,
    },
    /// The body does its work.
    Effect {
        call: CallId,
    },
    BodyEnded {
        call: CallId,
        end: BodyEnd,
    },
    /// A step of the body runs.
    StepBegan {
        call: CallId,
        step: usize,
    },
    /// A step of the body has returned what a step of the call `of` returned.
    StepReturned {
        call: CallId,
        step: usize,
        of: CallId,
    },
    /// The body runs without a claim.
    Unguarded {
        call: CallId,
    },
    /// The engine reports that the end of a call is not recorded.
    Unrecorded {
        process: usize,
    },
    /// The engine reports that a lease was lost.
    Overrun {
        process: usize,
    },

    Sent {
        message: u64,
        call: CallId,
        op: Sends,
    },
    /// The request has reached the store. Its sender may have given up.
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
    /// The sender received the answer.
    Answered {
        message: u64,
        fine: bool,
    },

    /// The request goes to a connection of the process, in a batch.
    HandedOver {
        message: u64,
        process: usize,
        connection: usize,
        batch: u64,
    },
    /// The store asks for the request again, without applying it.
    Repeated {
        message: u64,
    },
    /// The store's reply to a message of a batch has reached the process.
    Replied {
        message: u64,
        reply: u64,
    },
    /// The engine of batches has answered the operation.
    Received {
        message: u64,
        reply: u64,
        fine: bool,
        /// The answer says that the operation was not applied.
        denied: bool,
    },
    /// Operations wait, and no task of their runtime will take them.
    Stuck,
    /// The tasks that send batches are dropped.
    TasksEnd,
    /// The caller of the operation has stopped waiting.
    GivenUp {
        message: u64,
    },

    /// A record of `call` is stored until this time. Its request was sent at `sent`.
    Put {
        call: CallId,
        done: bool,
        sent: u64,
        until: Option<u64>,
    },
    /// A request set a new expiry of a record.
    Touched {
        call: CallId,
        sent: u64,
        until: u64,
    },
    /// The store's clock has jumped, so a record expires at another time.
    ExpiryMoved {
        call: CallId,
        done: bool,
        until: Option<u64>,
    },
    Removed {
        call: CallId,
        done: bool,
        cause: RemovalCause,
    },

    /// The store has another line for a token.
    Token {
        line: Line,
        by: CallId,
    },
    /// The store draws a number for the claim of a call.
    Drawn {
        call: CallId,
        number: i64,
    },
    /// The record of a fence says that the claim with this number has ended.
    FenceEnded {
        number: i64,
    },
    /// A call with this number is about to run its body.
    Fenced {
        call: CallId,
        number: i64,
        took_over: bool,
    },

    /// The engine reports that a claim or a redemption is not withdrawn.
    NotWithdrawn {
        process: usize,
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
    StoreFault(&'static str),
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sends {
    Claim,
    Renewal,
    Completion,
    Removal,
    Look,
    Exchange,
    /// Any request with the key of a fence.
    Fence,
}

/// The line of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Line {
    Fresh,
    Used(CallId),
    Returned(CallId),
}

/// Why a record was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RemovalCause {
    Expired,
    /// Removed or replaced by a request of this call.
    Changed(CallId),
    /// The store lost it.
    Forgotten,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BodyEnd {
    Success,
    Failure,
    Panic,
    /// The body returned without a known outcome, and its call holds the key.
    Held,
    /// The body returned an error that says that the outcome is unknown: `hold_err`.
    Unknown,
    /// The body was dropped before its end.
    Stopped,
}

/// What a call returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Returned {
    /// The value of the body of this call.
    Value(CallId),
    BodyFailed,
    Panicked,
    InProgress,
    /// Another call, which is not equal, has a key of the call or its permit.
    InUse,
    Taken,
    /// An equal call has ended, and its outcome is unknown.
    Unknown,
    Done,
    /// An equal call has ended, and its result is not stored.
    NoResult,
    Mismatch,
    LeaseLost,
    Unavailable,
    TokenUsed,
    TokenUnknown,
    Otherwise(&'static str),
}

impl Kind {
    /// The call of the event.
    pub(super) fn call(&self) -> Option<CallId> {
        match *self {
            Self::Made { call, .. }
            | Self::NoProcess { call }
            | Self::Dropped { call }
            | Self::Died { call }
            | Self::Returned { call, .. }
            | Self::Frozen { call, .. }
            | Self::BodyPolled { call, .. }
            | Self::Effect { call }
            | Self::BodyEnded { call, .. }
            | Self::Unguarded { call }
            | Self::Put { call, .. }
            | Self::Touched { call, .. }
            | Self::ExpiryMoved { call, .. }
            | Self::Sent { call, .. }
            | Self::Removed { call, .. } => Some(call),
            _ => None,
        }
    }
}

/// A number that differs if two values print differently.
pub(super) fn digest_of(value: &impl fmt::Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{value:?}").hash(&mut hasher);
    hasher.finish()
}

/// A number that differs if two histories differ.
pub(super) fn digest(history: &[Event]) -> u64 {
    let mut hasher = DefaultHasher::new();
    history.hash(&mut hasher);
    hasher.finish()
}

/// The call that made a record.
pub(super) fn call_of(record: &Bytes) -> Option<CallId> {
    // `idem2 R`, and 22 digits of Base64; perhaps after the line of a fence.
    if let Some(line) = record.windows(6).position(|start| start == b"idem2 ") {
        return source::made_by(owner_in(record.get(line + 8..line + 30)?)?);
    }
    // `idem1 T used owner=`, and 32 digits.
    let owner = record.windows(6).position(|name| name == b"owner=")? + 6;
    let owner = str::from_utf8(record.get(owner..owner + 32)?).ok()?;
    source::made_by(u128::from_str_radix(owner, 16).ok()?)
}

/// The owner that 22 digits of Base64 write.
fn owner_in(digits: &[u8]) -> Option<u128> {
    let value = |digit: u8| {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        Some(u128::from(value))
    };
    let (last, digits) = digits.split_last()?;
    let first = digits
        .iter()
        .try_fold(0, |owner, digit| Some(owner << 6 | value(*digit)?))?;
    Some(first << 2 | value(*last)? >> 4)
}

/// The line of a token that a record is.
pub(super) fn line_of(record: &Bytes) -> Line {
    let by = call_of(record).unwrap_or(OPERATOR);
    match record::read(record) {
        Some(record::TokenState::Used) => Line::Used(by),
        _ if *record == record::FRESH => Line::Fresh,
        _ => Line::Returned(by),
    }
}
