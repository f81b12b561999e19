//! The end of a call, from its body to its record (`settle`).

use crate::call::{Body, Phase};
use crate::config::{Config, OnCancel, Release, Variant};
use crate::state::State;
use crate::store::{Answer, Operation, Record};
use crate::wait::LastSeen;

impl State {
    /// Handles the end of the body after its last poll (`Lease::begin_settling`).
    pub(crate) fn body_ended(&mut self, config: &Config, id: u8, ok: bool) {
        self.polled(config, id);
        if ok && !config.wire {
            self.effect(config, id);
        }
        let call = self.call_mut(id);
        call.body = if ok { Body::Ok } else { Body::Err };
        let ending = match config.release {
            Release::OnError if ok => Some(Operation::Complete),
            Release::Always | Release::OnError => Some(Operation::Remove),
            Release::Never if call.taken <= config.grace => Some(Operation::Remove),
            Release::Never => self.hold_to_ttl(config, id),
        };
        match ending {
            Some(ending) => {
                let remaining = self.call(id).taken;
                self.settle(config, id, ending, remaining);
            }
            None => self.settled(id, LastSeen::Nothing),
        }
    }

    /// Sends the end of the call, while the caller waits or in the background (`settle::settle`).
    fn settle(&mut self, config: &Config, id: u8, ending: Operation, remaining: u8) {
        self.call_mut(id).phase = if config.background {
            Phase::Background(ending)
        } else {
            Phase::Settling(ending)
        };
        self.send_request(id, ending, remaining);
    }

    /// Drops the future of the call (`Drop` of `Waiter`, `ClaimGuard`, `Held`, `Unsettled`, `Finish`).
    pub(crate) fn cancel(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        match call.phase {
            Phase::Claiming => self.withdraw(config, id),
            Phase::Settling(ending) => call.phase = Phase::Background(ending),
            Phase::Held => match config.on_cancel {
                OnCancel::Finish => call.caller_dropped = true,
                OnCancel::Release => {
                    self.abandon(id);
                    self.withdraw(config, id);
                }
                OnCancel::Keep => {
                    self.abandon(id);
                    self.keep(config, id);
                }
            },
            _ => self.settled(id, LastSeen::Nothing),
        }
    }

    /// Ends a body whose outcome is unknown (`Held::hold`): the key stays taken until the lease of its call ends. The claim is
    /// marked (`mark`), if `release` is `"on_error"`.
    pub(crate) fn hold_key(&mut self, config: &Config, id: u8) {
        self.polled(config, id);
        if !config.wire {
            self.effect(config, id);
        }
        self.end_unrecorded(id, Body::Unknown);
        let call = self.call_mut(id);
        if config.release == Release::OnError {
            call.taken = call.lease + config.grace;
        }
        let remaining = call.taken;
        match config.variant {
            Variant::HoldFreesKey => self.withdraw(config, id),
            Variant::HoldIsSuccess => self.end_in_background(id, Operation::Complete, 0),
            Variant::HoldIsShort => self.end_in_background(id, Operation::Mark, 1),
            _ if config.release == Release::OnError => {
                self.end_in_background(id, Operation::Mark, remaining);
            }
            _ => self.keep(config, id),
        }
    }

    /// Ends a body whose error says that its outcome is unknown (`Lease::unknown`): its record has the key for the `ttl`.
    pub(crate) fn outcome_unknown(&mut self, config: &Config, id: u8) {
        self.polled(config, id);
        if !config.wire {
            self.effect(config, id);
        }
        let ending = match config.variant {
            Variant::UnknownFreesKey => Operation::Remove,
            _ => Operation::Unknown,
        };
        self.call_mut(id).body = Body::Unknown;
        self.settle(config, id, ending, 0);
    }

    /// Leaves the claim as it is stored; with `release = false`, until ttl after the claim.
    fn keep(&mut self, config: &Config, id: u8) {
        match self.hold_to_ttl(config, id) {
            Some(hold) => {
                let remaining = self.call(id).taken;
                self.end_in_background(id, hold, remaining);
            }
            None => self.settled(id, LastSeen::Nothing),
        }
    }

    fn end_in_background(&mut self, id: u8, ending: Operation, remaining: u8) {
        self.call_mut(id).phase = Phase::Background(ending);
        self.send_request(id, ending, remaining);
    }

    /// With `release = false`, shortens a renewed claim so that it expires ttl after the claim.
    fn hold_to_ttl(&mut self, config: &Config, id: u8) -> Option<Operation> {
        let call = self.call_mut(id);
        let renewed = config.release == Release::Never && call.renewals < config.renewals;
        renewed.then(|| {
            call.hold = Some(call.taken);
            Operation::Hold
        })
    }

    /// Handles the answer to the command that ends the call.
    pub(crate) fn end_answered(
        &mut self,
        config: &Config,
        id: u8,
        sent: Operation,
        answer: Answer,
    ) {
        let caller_waits = matches!(self.call(id).phase, Phase::Settling(_));
        let phase = |operation| {
            if caller_waits {
                Phase::Settling(operation)
            } else {
                Phase::Background(operation)
            }
        };
        let call = self.call_mut(id);
        call.answer = None;
        match (sent, answer) {
            (Operation::Complete, Answer::Absent) => {
                call.phase = phase(Operation::PutDone);
                self.send_request(id, Operation::PutDone, 0);
            }
            (Operation::Unknown, Answer::Absent) => {
                call.phase = phase(Operation::PutUnknown);
                self.send_request(id, Operation::PutUnknown, 0);
            }
            (Operation::Complete, Answer::Full) => {
                call.hold = Some(config.ttl);
                call.phase = phase(Operation::Hold);

                self.send_request(id, Operation::Hold, config.ttl);
            }
            // The claim stays for the whole ttl. The caller has its answer, and the background tells the store what it has room for.
            (Operation::Hold, Answer::Done)
                if config.full && config.release == Release::OnError =>
            {
                call.phase = Phase::Background(Operation::Tombstone);
                self.leave(id, LastSeen::Nothing);
                self.send_request(id, Operation::Tombstone, 0);
            }
            (Operation::Complete | Operation::Unknown, Answer::Done)
            | (Operation::PutDone | Operation::PutUnknown, Answer::Claimed) => {
                let last_seen = self
                    .record
                    .filter(|record| record.call == id && (record.done || record.marked));
                self.acknowledge(config, id);
                self.settled(id, last_seen.map_or(LastSeen::Nothing, LastSeen::Record));
            }
            // The other call may fail. The caller gets its answer, and the background sends the outcome again (`unrecorded::may_follow`).
            (outcome, Answer::OtherClaim | Answer::Taken(Record { done: false, .. }))
                if outcome.records_outcome() && self.faults.resends > 0 =>
            {
                self.faults.resends -= 1;
                let again = outcome.sent_again();
                self.call_mut(id).phase = Phase::Background(again);
                if caller_waits {
                    self.moved(id);
                }
                self.send_request(id, again, 0);
            }
            _ => {
                self.acknowledge(config, id);
                self.settled(id, LastSeen::Nothing);
            }
        }
    }

    /// Handles a missing answer to the command that ends the call.
    pub(crate) fn end_unanswered(&mut self, config: &Config, id: u8, sent: Operation) -> bool {
        let again = sent.sent_again();
        let caller_waits = matches!(self.call(id).phase, Phase::Settling(_));
        let removes = [Variant::TimeoutRemoves, Variant::TimeoutRemovesByOwner];
        if sent == Operation::Complete && removes.contains(&config.variant) {
            self.call_mut(id).phase = Phase::Settling(Operation::Remove);
            self.send_request(id, Operation::Remove, 0);
        } else if sent == Operation::Mark {
            // The mark is sent once.
            self.settled(id, LastSeen::Nothing);
        } else if self.faults.resends > 0 {
            self.faults.resends -= 1;
            let call = self.call_mut(id);
            call.phase = if caller_waits {
                Phase::Settling(again)
            } else {
                Phase::Background(again)
            };
            let remaining = call.hold.unwrap_or_default();
            if !caller_waits && !again.records_outcome() {
                self.leave(id, LastSeen::Nothing);
            }
            self.send_request(id, again, remaining);
        } else if caller_waits {
            let call = self.call_mut(id);
            call.answer = None;
            call.phase = Phase::Background(sent);
            if sent.records_outcome() {
                self.moved(id);
            } else {
                self.leave(id, LastSeen::Nothing);
            }
        } else if self.call(id).lease == 0 {
            self.settled(id, LastSeen::Nothing);
        } else {
            return false;
        }
        true
    }

    /// Marks the result as acknowledged: a failover must not lose it.
    fn acknowledge(&mut self, config: &Config, id: u8) {
        if let Some(recorded) = &mut self.memory.recorded
            && recorded.call == id
            && config.faults.failovers > 0
        {
            recorded.acknowledged = true;
        }
    }

    fn settled(&mut self, id: u8, last_seen: LastSeen) {
        self.leave(id, last_seen);
        let body = self.call(id).body;
        self.call_mut(id).end(body);
    }
}
