//! One call, from its claim to its end.

use crate::config::{Config, Release, Variant};
use crate::rules::Rule;
use crate::state::State;
use crate::store::{Answer, Command, FOR_EVER, Operation, Record};
use crate::wait::LastSeen;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub(crate) struct Call {
    pub(crate) caller: u8,
    pub(crate) process: u8,
    pub(crate) phase: Phase,
    pub(crate) body: Body,
    /// The call was refused as a duplicate.
    pub(crate) is_refused: bool,
    /// How many claims the call has made, each with a new owner.
    pub(crate) claims: u8,
    pub(crate) owner: u8,
    /// A bit for each claim that was answered with "taken". A copy of such a claim may still arrive (`wait`).
    pub(crate) refused_claims: u8,
    /// The remaining lease, counted from the first send: `good_until` in `state`.
    pub(crate) lease: u8,
    /// With `release = false`, or after a hold: how long the key remains taken, counted from the first send.
    pub(crate) taken: u8,
    /// The answer that the call has not received yet.
    pub(crate) answer: Option<Answer>,
    /// The lease that the renewal in flight would give.
    pub(crate) renewing: Option<u8>,
    pub(crate) renewals: u8,
    /// How long the record must remain stored after the end of the call: `hold_until` in `state`.
    pub(crate) hold: Option<u8>,
    pub(crate) waits: u8,
    /// A bit for each call that had ended when this call started.
    pub(crate) ended_before: u8,
    /// The caller dropped its future, but the body continues: `finish`.
    pub(crate) caller_dropped: bool,
    pub(crate) frozen: bool,
    /// The effect, if it takes place in another system.
    pub(crate) effect: Effect,
    /// The store has, or had, the end of the call.
    pub(crate) stored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    NotStarted,
    /// Follows another call of its process. `moves` counts the changes of that call (`follow`).
    Following {
        leader: u8,
        moves: u8,
    },
    /// The call that it followed has ended.
    LeaderLeft {
        last_seen: LastSeen,
        moves: u8,
    },
    /// Its claim is in flight (`claim`).
    Claiming,
    /// It waits for the call with this record (`wait`).
    Waiting(Record),
    /// It removes an earlier stray claim, which arrived late (`wait`).
    RemovingStray,
    /// Its body runs (`held`).
    Held,
    /// Its end is in flight, and its caller waits (`settle::settle`).
    Settling(Operation),
    /// Its end or its withdrawal is in flight, and no caller waits (`settle::settle_in_background`).
    Background(Operation),
    Ended,
}

impl Phase {
    /// Whether the record of an unknown outcome is in flight.
    pub(crate) fn records_unknown(self) -> bool {
        let (Self::Settling(sent) | Self::Background(sent)) = self else {
            return false;
        };
        sent.records_unknown()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    NotStarted,
    Running,
    Ok,
    Err,
    /// It ended, and its outcome is unknown: `Decision::Hold`, or `hold_err`.
    Unknown,
    /// Never polled again: the lease was lost, the caller dropped the call, or the process died.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    NotSent,
    Sent,
    Arrived,
}

impl Call {
    pub(crate) fn new(caller: u8, process: u8) -> Self {
        Self {
            caller,
            process,
            phase: Phase::NotStarted,
            body: Body::NotStarted,
            is_refused: false,
            claims: 0,
            owner: 0,
            refused_claims: 0,
            lease: 0,
            taken: 0,
            answer: None,
            renewing: None,
            renewals: 0,
            hold: None,
            waits: 0,
            ended_before: 0,
            caller_dropped: false,
            frozen: false,
            effect: Effect::NotSent,
            stored: false,
        }
    }

    /// Whether the caller has its answer and may start the next call.
    pub(crate) fn is_answered(&self) -> bool {
        self.caller_dropped || matches!(self.phase, Phase::Background(_) | Phase::Ended)
    }

    /// The outcome that the process knows and the store may not have (`state::Phase::Unrecorded`).
    pub(crate) fn unrecorded(&self, id: u8) -> Option<Record> {
        let Phase::Background(sent) = self.phase else {
            return None;
        };
        let marked = sent.records_unknown();
        sent.records_outcome().then_some(Record {
            call: id,
            owner: self.owner,
            done: !marked,
            marked,
            remaining: 0,
        })
    }

    /// Ends the call. Keeps only what the rules need.
    pub(crate) fn end(&mut self, body: Body) {
        let kept = self.renewing.filter(|_| self.hold.is_some());
        *self = Self {
            phase: Phase::Ended,
            body,
            is_refused: self.is_refused,
            owner: kept.map_or(0, |_| self.owner),
            taken: self.taken,
            renewing: kept,
            hold: self.hold.filter(|_| kept.is_some()),
            frozen: self.frozen,
            ..Self::new(self.caller, self.process)
        };
    }
}

impl State {
    /// Sends a command. The call then waits for the answer.
    pub(crate) fn send_request(&mut self, id: u8, operation: Operation, remaining: u8) {
        let call = self.call_mut(id);
        call.answer = None;
        let owner = call.owner;
        self.send(Command {
            operation,
            call: id,
            owner,
            remaining,
        });
    }

    /// Starts the call (`call`): it enters the in-flight table of its process, or follows the call in it.
    pub(crate) fn start(&mut self, config: &Config, id: u8) {
        let has_ended = |other: &u8| self.call(*other).phase == Phase::Ended;
        let is_stored = |other: &u8| self.record.is_some_and(|record| record.call == *other);
        let ended = self
            .ids()
            .filter(|other| has_ended(other) && !is_stored(other));
        let ended_before = ended.fold(0, |ended, other| ended | 1 << other);
        let call = self.call_mut(id);
        // Without other calls in its process, a call only learns answers to its own claims.
        call.ended_before = if config.has_several_calls(call.process) {
            ended_before
        } else {
            0
        };
        call.renewals = config.renewals;
        call.waits = config.waits;
        self.enter(config, id, None, 0);
    }

    /// Sends a claim with a new owner.
    pub(crate) fn claim(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        call.claims += 1;
        call.owner = match config.variant {
            Variant::OwnerPerCaller => call.caller,
            _ => owner(id, call.claims),
        };
        call.phase = Phase::Claiming;
        call.lease = config.lease;
        if config.release == Release::Never {
            call.taken = config.expiry();
        }

        self.send_request(id, Operation::Claim, 0);
    }

    /// Handles the answer to the claim (`claim`).
    pub(crate) fn claim_answered(&mut self, config: &Config, id: u8, answer: Answer) {
        self.call_mut(id).answer = None;
        if let Answer::Taken(record) = answer {
            if self.removes_own_stray(config, id, record) {
                return;
            }
            let may_end = !record.done && !differs(config, id, record);
            if may_end && self.call(id).waits > 0 {
                self.wait_for(id, record);
            } else {
                self.refuse(config, id, record);
            }
            return;
        }
        let call = self.call_mut(id);
        match config.variant {
            Variant::LeaseFromReply => call.lease = config.lease,
            Variant::LeaseShorterThanBody => (call.lease, call.renewals) = (FOR_EVER, 0),
            Variant::ExpiryApart => self.send_request(id, Operation::Expire, config.expiry()),
            _ => {}
        }
        if self.call(id).lease > 0 {
            self.start_body(config, id);
        } else {
            self.give_up(config, id);
        }
    }

    /// Withdraws a claim that got no answer in time (`ClaimGuard::decide_without_store`).
    pub(crate) fn give_up(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        if config.is(Variant::FailOpen) {
            (call.lease, call.renewals) = (FOR_EVER, 0);
            return self.start_body(config, id);
        }
        self.leave(id, LastSeen::Trouble);
        self.withdraw(config, id);
    }

    /// Removes the record in the background, whether it is stored or not: `Ending::Withdraw`, or `on_cancel`.
    pub(crate) fn withdraw(&mut self, config: &Config, id: u8) {
        self.send_request(id, Operation::Remove, 0);
        let call = self.call_mut(id);
        call.phase = Phase::Background(Operation::Remove);

        if !self.may_have_followers(config, id) {
            // No call observes the answer, and a repeated removal changes nothing more than a late one.
            let body = self.call(id).body;
            self.call_mut(id).end(body);
        }
    }

    /// Refuses the call, because the key is taken.
    pub(crate) fn refuse(&mut self, config: &Config, id: u8, record: Record) {
        let replay = record.done && !differs(config, id, record);
        let holder = self.call(record.call).body;
        if record.call == id {
            self.report_broken(Rule::NotRefusedForItself);
        }
        if replay && (holder != Body::Ok || config.payloads) {
            self.report_broken(Rule::ReplayIsTrue);
        }
        if !record.done && self.call(id).ended_before & (1 << record.call) != 0 {
            self.report_broken(Rule::RefusalIsFresh);
        }
        self.call_mut(id).is_refused = true;
        self.leave(id, LastSeen::Record(record));
        self.call_mut(id).end(Body::NotStarted);
    }

    fn start_body(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        call.phase = Phase::Held;
        call.body = Body::Running;
        self.moved(id);
        self.polled(config, id);
        let recorded = self.memory.recorded.is_some();
        let within = |other: &Call| other.body != Body::NotStarted && other.taken > config.grace;
        let run = self
            .ids()
            .any(|other| other != id && within(self.call(other)));
        if (recorded || run) && !self.excused(config) {
            self.report_broken(Rule::OneRunPerTtl);
        }
    }

    /// Checks that no other body may run when this body is polled (`held`).
    pub(crate) fn polled(&mut self, config: &Config, id: u8) {
        let holds = |other: &Call| other.body == Body::Running && other.lease > 0;
        let another_runs = self
            .ids()
            .any(|other| other != id && holds(self.call(other)));
        if another_runs && !self.excused(config) {
            self.report_broken(Rule::OneBody);
        }
    }

    /// Stops polling the body, because the lease has expired (`Held::stop_if_lost`, `Lease::lose`).
    pub(crate) fn stop(&mut self, id: u8) {
        self.leave(id, LastSeen::Nothing);
        self.abandon(id);
        self.call_mut(id).end(Body::Stopped);
    }

    /// Drops the body before or after its effect.
    pub(crate) fn abandon(&mut self, id: u8) {
        self.end_unrecorded(id, Body::Stopped);
    }

    /// Ends the body, and records no effect.
    pub(crate) fn end_unrecorded(&mut self, id: u8, body: Body) {
        let call = self.call_mut(id);
        call.body = body;
        self.memory.effect_unrecorded |= call.effect == Effect::Arrived;
    }

    /// The effect of the body takes place.
    pub(crate) fn effect(&mut self, config: &Config, id: u8) {
        if config.row && std::mem::replace(&mut self.memory.row, true) {
            return;
        }
        let runs = |other: &Call| other.body == Body::Running && other.lease > 0;
        if self
            .ids()
            .any(|other| other != id && runs(self.call(other)))
            && !self.excused(config)
        {
            self.report_broken(Rule::EffectAlone);
        }
        if self.memory.effect > 0 {
            self.report_broken(Rule::EffectOnce);
            if !self.memory.effect_unrecorded && !self.excused(config) {
                self.report_broken(Rule::EffectOnceWhileHeld);
            }
        }
        if config.release == Release::OnError {
            self.memory.effect = config.ttl;
        }
        let call = self.call_mut(id);
        match call.phase {
            Phase::Held if call.lease > 0 => call.effect = Effect::Arrived,
            // No call can record this effect any more.
            Phase::Held | Phase::Ended | Phase::Settling(_) | Phase::Background(_)
                if config.wire =>
            {
                self.memory.effect_unrecorded = true;
            }
            _ => {}
        }
    }

    fn excused(&self, config: &Config) -> bool {
        self.memory.record_lost && !config.is(Variant::FailoverUnawaited)
    }
}

/// The owner of a claim. Each claim of each call has another owner.
pub(crate) fn owner(id: u8, claim: u8) -> u8 {
    id * 4 + claim
}

/// Whether the call with this record has another payload.
pub(crate) fn differs(config: &Config, id: u8, record: Record) -> bool {
    config.payloads && record.call != id && !config.is(Variant::PayloadIgnored)
}
