//! The store's four operations (`store`), and what the naive make of them.

use std::fmt;

use crate::config::{Config, Variant};
use crate::rules::Rule;
use crate::state::{Recorded, State};

/// What stands under the key (`record`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// Whose it is, whatever its owner says.
    pub(crate) call: u8,
    pub(crate) owner: u8,
    pub(crate) done: bool,
    /// How long it stands, or [`FOR_EVER`].
    pub(crate) left: u8,
}

pub(crate) const FOR_EVER: u8 = u8::MAX;

/// One command on its way to the store, or to where the effect is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command {
    pub(crate) what: What,
    pub(crate) call: u8,
    pub(crate) owner: u8,
    /// The time to live that it carries, where that is not always the same.
    pub(crate) left: u8,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of call {}", self.what, self.call)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum What {
    /// `claim` with the running record.
    Claim,
    /// The second command of [`Variant::ExpiryApart`].
    Expire,
    /// `replace` of the claim by itself.
    Renew,
    /// `replace` of the claim by the done record.
    Complete,
    /// `claim` with the done record, where the claim is gone.
    PutDone,
    /// `remove` of the claim.
    Remove,
    /// `replace` of the claim by itself, to stand as long as it says.
    Hold,
    /// No command to the store: the effect of the body, where that is elsewhere. `left` is how long it may take.
    Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Claimed,
    Taken(Record),
    Done,
    Absent,
    Other,
    Full,
}

impl State {
    /// Executes a command, atomically, and answers.
    pub(crate) fn execute(&mut self, config: &Config, command: Command) -> Answer {
        let before = self.record;
        let own = before.is_some_and(|record| record.owner == command.owner);
        let exact = own && before.is_some_and(|record| !record.done);
        let put = |done, left| {
            Some(Record {
                call: command.call,
                owner: command.owner,
                done,
                left,
            })
        };
        let answer = match (command.what, before) {
            (What::Claim, None) => {
                let apart = config.is(Variant::ExpiryApart);
                self.record = put(false, if apart { FOR_EVER } else { config.expiry() });
                Answer::Claimed
            }
            (What::Claim, Some(_)) if exact && !config.is(Variant::OwnRecordUnknown) => {
                Answer::Claimed
            }
            (What::PutDone, None) => {
                self.record = put(true, config.ttl);
                Answer::Claimed
            }
            (What::PutDone, Some(record)) if own && record.done => Answer::Claimed,
            (What::Claim | What::PutDone, Some(record)) => Answer::Taken(record),
            (What::Complete, _) if config.full => Answer::Full,
            (What::Complete, Some(record)) if own && record.done => Answer::Done,
            (What::Complete, _) if exact || config.is(Variant::UnownedComplete) => {
                self.record = put(true, config.ttl);
                Answer::Done
            }
            (What::Remove, Some(_))
                if exact
                    || config.is(Variant::UnownedRemove)
                    || own && config.is(Variant::TimeoutRemovesByOwner) =>
            {
                self.record = None;
                Answer::Done
            }
            (What::Renew, Some(record)) if exact || config.is(Variant::UnownedRenewal) => {
                let left = config.expiry();
                self.record = Some(Record { left, ..record });
                Answer::Done
            }
            (What::Hold | What::Expire, Some(record)) if exact => {
                let left = command.left;
                self.record = (left > 0).then_some(Record { left, ..record });
                Answer::Done
            }
            (_, None) => Answer::Absent,
            (_, Some(_)) => Answer::Other,
        };
        let held = config.full && command.what == What::Hold && answer == Answer::Done;
        if before != self.record || held {
            self.remember(config, command, before, held);
        }
        answer
    }

    /// What the rules remember of a change.
    fn remember(&mut self, config: &Config, command: Command, before: Option<Record>, held: bool) {
        if before.is_some_and(|record| record.call != command.call) {
            self.broke(Rule::LoserChangesNothing);
        }
        if let Some(recorded) = self.memory.recorded
            && !self.stands(config, recorded)
        {
            self.broke(Rule::ResultStands);
        }
        if before.is_none() {
            // Whoever is told of it from now on is told the truth.
            for call in &mut self.calls {
                call.gone_before &= !(1 << command.call);
            }
        }
        let done = self.record.is_some_and(|record| record.done);
        let again = (self.memory.recorded).is_some_and(|recorded| recorded.call == command.call);
        if (done || held) && self.record.is_some() && !again {
            self.memory.recorded = Some(Recorded {
                call: command.call,
                left: config.ttl,
                acknowledged: false,
            });
            self.call_mut(command.call).stored = true;
        }
    }

    /// Whether what must stand under the key does.
    pub(crate) fn stands(&self, config: &Config, recorded: Recorded) -> bool {
        self.record
            .is_some_and(|record| record.call == recorded.call && record.done != config.full)
    }

    /// One tick of the store's clock.
    pub(crate) fn store_ticks(&mut self, config: &Config) {
        for record in [&mut self.record, &mut self.replica] {
            *record = record.and_then(|record| match record.left {
                FOR_EVER => Some(record),
                left => (left > 1).then(|| Record {
                    left: left - 1,
                    ..record
                }),
            });
        }
        if let Some(mut recorded) = self.memory.recorded {
            recorded.left -= 1;
            self.memory.recorded = (recorded.left > 0).then_some(recorded);
            if recorded.left > 0 && !self.stands(config, recorded) {
                self.broke(Rule::ResultStands);
            }
        }
    }
}
