//! The four operations of the store (`store`), and their mistakes.

use std::fmt;

use crate::config::{Config, Variant};
use crate::rules::Rule;
use crate::state::{Recorded, State};

/// The record under the key (`record`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// The call of the record, also if several calls have the same owner.
    pub(crate) call: u8,
    pub(crate) owner: u8,
    pub(crate) done: bool,
    /// The claim of a call that holds its key.
    pub(crate) marked: bool,
    /// The remaining time to live, or [`FOR_EVER`].
    pub(crate) remaining: u8,
}

pub(crate) const FOR_EVER: u8 = u8::MAX;

/// A command in flight to the store, or to the system of the effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command {
    pub(crate) operation: Operation,
    pub(crate) call: u8,
    pub(crate) owner: u8,
    /// The time to live in the command, for operations in which it varies.
    pub(crate) remaining: u8,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of call {}", self.operation, self.call)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    /// `claim` with the running record.
    Claim,
    /// The second command of [`Variant::ExpiryApart`].
    Expire,
    /// `replace` of the claim by the same claim.
    Renew,
    /// `replace` of the claim by the done record.
    Complete,
    /// `claim` with the done record, after the claim has expired.
    PutDone,
    /// `remove` of the claim.
    Remove,
    /// `replace` of the claim by the same claim, with the time to live in `remaining`.
    Hold,
    /// `replace` of the claim by a done record without a result, after the store had no room for the result.
    Tombstone,
    /// `replace` of the claim by the marked claim, with the time to live in `remaining`.
    Mark,
    /// `replace` of the claim by the marked claim, for the `ttl`: `hold_err`.
    Unknown,
    /// `claim` with the marked claim, after the claim has expired.
    PutUnknown,
    /// No command to the store, but the effect of the body in another system. It arrives within `remaining`.
    Effect,
}

impl Operation {
    /// Whether the operation stores the outcome of a call.
    pub(crate) fn records_outcome(self) -> bool {
        self.records_unknown() || matches!(self, Self::Complete | Self::PutDone)
    }

    /// Whether the operation stores that the outcome is unknown.
    pub(crate) fn records_unknown(self) -> bool {
        matches!(self, Self::Unknown | Self::PutUnknown)
    }

    /// The operation that is sent after no answer, or after the claim of another call.
    pub(crate) fn sent_again(self) -> Self {
        match self {
            Self::PutDone => Self::Complete,
            Self::PutUnknown => Self::Unknown,
            sent => sent,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Claimed,
    Taken(Record),
    Done,
    Absent,
    Other,
    /// The claim of another call, which may be marked.
    OtherClaim,
    Full,
}

impl State {
    /// Executes a command atomically and returns the answer.
    pub(crate) fn execute(&mut self, config: &Config, command: Command) -> Answer {
        let before = self.record;
        let own = before.is_some_and(|record| record.owner == command.owner);
        let exact = own && before.is_some_and(|record| !record.done && !record.marked);
        let put = |done, remaining| {
            Some(Record {
                call: command.call,
                owner: command.owner,
                done,
                marked: false,
                remaining,
            })
        };
        let marked = put(false, config.ttl).map(|record| Record {
            marked: true,
            ..record
        });
        let answer = match (command.operation, before) {
            (Operation::Claim, None) => {
                let apart = config.is(Variant::ExpiryApart);
                self.record = put(false, if apart { FOR_EVER } else { config.expiry() });
                Answer::Claimed
            }
            (Operation::Claim, Some(_)) if exact && !config.is(Variant::OwnRecordUnknown) => {
                Answer::Claimed
            }
            (Operation::PutDone, None) => {
                self.record = put(true, config.ttl);
                Answer::Claimed
            }
            (Operation::PutDone, Some(record)) if own && record.done => Answer::Claimed,
            (Operation::PutUnknown, None) => {
                self.record = marked;
                Answer::Claimed
            }
            (Operation::PutUnknown, Some(record)) if own && record.marked => Answer::Claimed,
            (Operation::Claim | Operation::PutDone | Operation::PutUnknown, Some(record)) => {
                Answer::Taken(record)
            }
            (Operation::Unknown, Some(record)) if own && record.marked => Answer::Done,
            (Operation::Unknown, Some(_)) if exact => {
                self.record = marked;
                Answer::Done
            }
            (Operation::Complete, _) if config.full => Answer::Full,
            (Operation::Complete, Some(record)) if own && record.done => Answer::Done,
            (Operation::Complete, _) if exact || config.is(Variant::UnownedComplete) => {
                self.record = put(true, config.ttl);
                Answer::Done
            }
            (Operation::Tombstone, Some(_)) if exact || config.is(Variant::UnownedTombstone) => {
                self.record = put(true, config.ttl);
                Answer::Done
            }
            (Operation::Remove, Some(_))
                if exact
                    || config.is(Variant::UnownedRemove)
                    || own && config.is(Variant::TimeoutRemovesByOwner) =>
            {
                self.record = None;
                Answer::Done
            }
            (Operation::Renew, Some(record)) if exact || config.is(Variant::UnownedRenewal) => {
                let remaining = config.expiry();
                self.record = Some(Record {
                    remaining,
                    ..record
                });
                Answer::Done
            }
            (Operation::Hold | Operation::Expire, Some(record)) if exact => {
                let remaining = command.remaining;
                self.record = (remaining > 0).then_some(Record {
                    remaining,
                    ..record
                });
                Answer::Done
            }
            (Operation::Mark, Some(record))
                if command.remaining > 0 && (exact || config.is(Variant::UnownedMark)) =>
            {
                self.record = Some(Record {
                    call: command.call,
                    owner: command.owner,
                    marked: true,
                    remaining: command.remaining,
                    ..record
                });
                Answer::Done
            }
            (_, None) => Answer::Absent,
            (_, Some(record)) if !record.done => Answer::OtherClaim,
            (_, Some(_)) => Answer::Other,
        };
        let held = config.full && command.operation == Operation::Hold && answer == Answer::Done;
        if before != self.record || held {
            self.remember(config, command, before, held);
        }
        answer
    }

    /// Remembers a change for the rules.
    fn remember(&mut self, config: &Config, command: Command, before: Option<Record>, held: bool) {
        if before.is_some_and(|record| record.call != command.call) {
            self.report_broken(Rule::OnlyOwnerChanges);
        }
        if let Some(recorded) = self.memory.recorded
            && !self.is_stored(config, recorded)
        {
            self.report_broken(Rule::ResultStaysStored);
        }
        if before.is_none() {
            // From now on a refusal for this call is true again.
            for call in &mut self.calls {
                call.ended_before &= !(1 << command.call);
            }
        }
        let is_unknown = matches!(
            command.operation,
            Operation::Unknown | Operation::PutUnknown
        );
        let done = is_unknown || self.record.is_some_and(|record| record.done);
        let again = (self.memory.recorded).is_some_and(|recorded| recorded.call == command.call);
        if (done || held) && self.record.is_some() && !again {
            self.memory.recorded = Some(Recorded {
                call: command.call,
                remaining: config.ttl,
                acknowledged: false,
            });
            self.call_mut(command.call).stored = true;
        }
    }

    /// Whether the recorded result is stored.
    pub(crate) fn is_stored(&self, config: &Config, recorded: Recorded) -> bool {
        let ends = |record: Record| record.done || record.marked || config.full;
        self.record
            .is_some_and(|record| record.call == recorded.call && ends(record))
    }

    /// Advances the clock of the store by a tick.
    pub(crate) fn store_ticks(&mut self, config: &Config) {
        for record in [&mut self.record, &mut self.replica] {
            *record = record.and_then(|record| match record.remaining {
                FOR_EVER => Some(record),
                remaining => (remaining > 1).then(|| Record {
                    remaining: remaining - 1,
                    ..record
                }),
            });
        }
        if let Some(mut recorded) = self.memory.recorded {
            recorded.remaining -= 1;
            self.memory.recorded = (recorded.remaining > 0).then_some(recorded);
            if recorded.remaining > 0 && !self.is_stored(config, recorded) {
                self.report_broken(Rule::ResultStaysStored);
            }
        }
    }
}
