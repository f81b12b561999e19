//! One call: from its claim to its end.

use crate::config::{Config, Release, Variant};
use crate::rules::Rule;
use crate::state::State;
use crate::store::{Answer, Command, FOR_EVER, Record, What};
use crate::wait::Found;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) caller: u8,
    pub(crate) process: u8,
    pub(crate) phase: Phase,
    pub(crate) body: Body,
    pub(crate) told: Told,
    /// How many owners were made for it.
    pub(crate) claims: u8,
    pub(crate) owner: u8,
    /// Its claims that were told "taken", a bit for each: a copy may yet arrive (`wait`).
    pub(crate) ghosts: u8,
    /// How long the lease is good for, counted from the first send: `good_until` in `state`.
    pub(crate) lease: u8,
    /// With `release = false`: how long the key stays taken, counted from the first send.
    pub(crate) taken: u8,
    /// The answer that is on its way to it.
    pub(crate) answer: Option<Answer>,
    /// The lease that the renewal under way would give.
    pub(crate) renewing: Option<u8>,
    pub(crate) renewals: u8,
    /// How long the record of a call that is over is to stand: `hold_until` in `state`.
    pub(crate) hold: Option<u8>,
    pub(crate) waits: u8,
    /// The calls that were over when this one was made, a bit for each.
    pub(crate) gone_before: u8,
    /// The caller dropped its future, and the body runs on: `finish`.
    pub(crate) caller_gone: bool,
    pub(crate) frozen: bool,
    /// Of an effect that takes place elsewhere.
    pub(crate) effect: Effect,
    /// Its end stands, or stood, in the store.
    pub(crate) stored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    NotMade,
    /// Behind another call of its process, and how many of its moves were heard of (`follow`).
    Following {
        leader: u8,
        heard: u8,
    },
    /// The call that it followed is over.
    Landed {
        found: Found,
        heard: u8,
    },
    /// Its claim is on its way (`claim`).
    Claiming,
    /// It waits for the end of the call that has this record (`wait`).
    Waiting(Record),
    /// It has met an earlier claim of its own, and removes it (`wait`).
    Removing,
    /// Its body runs (`held`).
    Held,
    /// Its end is on its way, and its caller waits (`settle::settle`).
    Settling(What),
    /// Its end, or its withdrawal, is on its way, and nobody waits (`settle::settle_in_background`).
    Unattended(What),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    NotBegun,
    Running,
    Ok,
    Err,
    /// Never polled again: the lease was lost, the caller went away, the process died.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    NotSent,
    Sent,
    Arrived,
}

/// What its caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Nothing,
    /// That another has the key.
    Duplicate,
}

impl Call {
    pub(crate) fn new(caller: u8, process: u8) -> Self {
        Self {
            caller,
            process,
            phase: Phase::NotMade,
            body: Body::NotBegun,
            told: Told::Nothing,
            claims: 0,
            owner: 0,
            ghosts: 0,
            lease: 0,
            taken: 0,
            answer: None,
            renewing: None,
            renewals: 0,
            hold: None,
            waits: 0,
            gone_before: 0,
            caller_gone: false,
            frozen: false,
            effect: Effect::NotSent,
            stored: false,
        }
    }

    /// Whether its caller may make the next call.
    pub(crate) fn answered(&self) -> bool {
        self.caller_gone || matches!(self.phase, Phase::Unattended(_) | Phase::Over)
    }

    /// It ends; what is left of it is what the rules look at.
    pub(crate) fn over(&mut self, body: Body) {
        let kept = self.renewing.filter(|_| self.hold.is_some());
        *self = Self {
            phase: Phase::Over,
            body,
            told: self.told,
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
    /// Sends a command for a call that then waits for its answer.
    pub(crate) fn ask(&mut self, id: u8, what: What, left: u8) {
        let call = self.call_mut(id);
        call.answer = None;
        let owner = call.owner;
        self.send(Command {
            what,
            call: id,
            owner,
            left,
        });
    }

    /// The call is made (`call`): it enters the flights of its process, or follows the one that is there.
    pub(crate) fn make(&mut self, config: &Config, id: u8) {
        let over = |other: &u8| self.call(*other).phase == Phase::Over;
        let stands = |other: &u8| self.record.is_some_and(|record| record.call == *other);
        let gone = self.ids().filter(|other| over(other) && !stands(other));
        let gone_before = gone.fold(0, |gone, other| gone | 1 << other);
        let call = self.call_mut(id);
        // Who follows nobody is told only what was looked up for it.
        call.gone_before = if config.in_company(call.process) {
            gone_before
        } else {
            0
        };
        call.renewals = config.renewals;
        call.waits = config.waits;
        self.enter(config, id, None, 0);
    }

    /// Sends the first claim of an owner made anew.
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

        self.ask(id, What::Claim, 0);
    }

    /// Its claim was answered (`claim`).
    pub(crate) fn claim_answered(&mut self, config: &Config, id: u8, answer: Answer) {
        self.call_mut(id).answer = None;
        if let Answer::Taken(record) = answer {
            if self.meets_itself(config, id, record) {
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
            Variant::ExpiryApart => self.ask(id, What::Expire, config.expiry()),
            _ => {}
        }
        if self.call(id).lease > 0 {
            self.begin_body(config, id);
        } else {
            self.give_up(config, id);
        }
    }

    /// Its claim got no answer, or too late a one (`ClaimGuard::decide_without_store`): it is withdrawn.
    pub(crate) fn give_up(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        if config.is(Variant::FailOpen) {
            (call.lease, call.renewals) = (FOR_EVER, 0);
            return self.begin_body(config, id);
        }
        self.leave(id, Found::Trouble);
        self.withdraw(config, id);
    }

    /// Its record, which may stand or not, is removed without a caller: `Ending::Withdraw`, or `on_cancel`.
    pub(crate) fn withdraw(&mut self, config: &Config, id: u8) {
        self.ask(id, What::Remove, 0);
        let call = self.call_mut(id);
        call.phase = Phase::Unattended(What::Remove);

        if !self.flies_in_company(config, id) {
            // Nobody learns what comes of it, and once more changes no more than once later.
            let body = self.call(id).body;
            self.call_mut(id).over(body);
        }
    }

    /// The key is taken: tells why the body does not run.
    pub(crate) fn refuse(&mut self, config: &Config, id: u8, record: Record) {
        let replay = record.done && !differs(config, id, record);
        let holder = self.call(record.call).body;
        if record.call == id {
            self.broke(Rule::NoDuplicateOfOneself);
        }
        if replay && (holder != Body::Ok || config.payloads) {
            self.broke(Rule::ReplayIsTrue);
        }
        if !record.done && self.call(id).gone_before & (1 << record.call) != 0 {
            self.broke(Rule::RefusalIsNews);
        }
        self.call_mut(id).told = Told::Duplicate;
        self.leave(id, Found::Record(record));
        self.call_mut(id).over(Body::NotBegun);
    }

    fn begin_body(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        call.phase = Phase::Held;
        call.body = Body::Running;
        self.moved(id);
        self.polled(config, id);
        let recorded = self.memory.recorded.is_some();
        let within = |other: &Call| other.body != Body::NotBegun && other.taken > config.grace;
        let run = self
            .ids()
            .any(|other| other != id && within(self.call(other)));
        if (recorded || run) && !self.excused(config) {
            self.broke(Rule::OneRunPerTtl);
        }
    }

    /// The body is polled (`held`).
    pub(crate) fn polled(&mut self, config: &Config, id: u8) {
        let holds = |other: &Call| other.body == Body::Running && other.lease > 0;
        let beside = self
            .ids()
            .any(|other| other != id && holds(self.call(other)));
        if beside && !self.excused(config) {
            self.broke(Rule::OneBody);
        }
    }

    /// The lease is over, so the body is polled no more (`Held::stopped`, `Lease::lose`).
    pub(crate) fn stop(&mut self, id: u8) {
        self.leave(id, Found::Nothing);
        self.abandon(id);
        self.call_mut(id).over(Body::Stopped);
    }

    /// The body is dropped, whether its effect has taken place or not.
    pub(crate) fn abandon(&mut self, id: u8) {
        let call = self.call_mut(id);
        call.body = Body::Stopped;
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
            self.broke(Rule::EffectAlone);
        }
        if self.memory.effect > 0 {
            self.broke(Rule::EffectOnce);
            if !self.memory.effect_unrecorded && !self.excused(config) {
                self.broke(Rule::EffectOnceWhileHeld);
            }
        }
        if config.release == Release::OnError {
            self.memory.effect = config.ttl;
        }
        let call = self.call_mut(id);
        match call.phase {
            Phase::Held if call.lease > 0 => call.effect = Effect::Arrived,
            // Nobody is left who may record it.
            Phase::Held | Phase::Over | Phase::Unattended(_) if config.wire => {
                self.memory.effect_unrecorded = true;
            }
            _ => {}
        }
    }

    fn excused(&self, config: &Config) -> bool {
        self.memory.record_lost && !config.is(Variant::FailoverUnawaited)
    }

    /// The keeper sends a renewal (`renewal`).
    pub(crate) fn renew(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        call.renewals -= 1;
        call.renewing = Some(config.lease);
        let owner = call.owner;
        self.send(Command {
            what: What::Renew,
            call: id,
            owner,
            left: 0,
        });
    }

    /// Whether the keeper renews: until the end is recorded.
    pub(crate) fn is_kept(&self, config: &Config, id: u8) -> bool {
        let call = self.call(id);
        let after = !config.is(Variant::KeeperStopsWithBody) && call.hold.is_none();
        let ended = matches!(call.body, Body::Ok | Body::Err);
        let good = 0 < call.lease && call.lease < config.lease && call.renewals > 0;
        good && match call.phase {
            Phase::Held => true,
            Phase::Settling(_) | Phase::Unattended(_) => after && ended,
            _ => false,
        }
    }

    pub(crate) fn renewal_answered(&mut self, id: u8, answer: Answer) {
        let call = self.call_mut(id);
        let Some(lease) = call.renewing.take() else {
            return;
        };
        match (call.phase, answer) {
            (_, Answer::Done) if call.hold.is_some() => self.hold_again(id),
            (Phase::Over, _) => call.hold = None,
            (_, Answer::Done) => call.lease = call.lease.max(lease),
            (Phase::Held, _) => self.stop(id),
            _ => {}
        }
    }

    /// A renewal may have been executed after what the end of the call has sent.
    pub(crate) fn hold_again(&mut self, id: u8) {
        let call = self.call_mut(id);
        let left = call.hold.unwrap_or_default();
        call.phase = Phase::Unattended(What::Hold);

        self.ask(id, What::Hold, left);
    }
}

/// Made anew for each claim of a call.
pub(crate) fn owner(id: u8, claim: u8) -> u8 {
    id * 4 + claim
}

/// Whether the call that has this record was made with another payload.
pub(crate) fn differs(config: &Config, id: u8, record: Record) -> bool {
    config.payloads && record.call != id && !config.is(Variant::PayloadIgnored)
}
