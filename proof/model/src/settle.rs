//! From the body to its record (`settle`).

use crate::call::{Body, Phase};
use crate::config::{Config, OnCancel, Release, Variant};
use crate::state::State;
use crate::store::{Answer, What};
use crate::wait::Found;

impl State {
    /// The body has ended, polled a last time (`Lease::begin_settling`).
    pub(crate) fn body_ended(&mut self, config: &Config, id: u8, ok: bool) {
        self.polled(config, id);
        if ok && !config.wire {
            self.effect(config, id);
        }
        let call = self.call_mut(id);
        call.body = if ok { Body::Ok } else { Body::Err };
        let ending = match config.release {
            Release::OnError if ok => Some(What::Complete),
            Release::Always | Release::OnError => Some(What::Remove),
            Release::Never if call.taken <= config.grace => Some(What::Remove),
            Release::Never => self.as_long_as_ttl(config, id),
        };
        match ending {
            Some(ending) => {
                let left = self.call(id).taken;
                let call = self.call_mut(id);
                call.phase = Phase::Settling(ending);

                self.ask(id, ending, left);
            }
            None => self.settled(id, Found::Nothing),
        }
    }

    /// The caller drops the future of its call (`Drop` of `Waiter`, `ClaimGuard`, `Held`, `BackgroundSettle`, `Finish`).
    pub(crate) fn cancel(&mut self, config: &Config, id: u8) {
        let call = self.call_mut(id);
        match call.phase {
            Phase::Claiming => self.withdraw(config, id),
            Phase::Settling(ending) => call.phase = Phase::Unattended(ending),
            Phase::Held => match config.on_cancel {
                OnCancel::Finish => call.caller_gone = true,
                OnCancel::Release => {
                    self.abandon(id);
                    self.withdraw(config, id);
                }
                OnCancel::Keep => {
                    self.abandon(id);
                    match self.as_long_as_ttl(config, id) {
                        Some(hold) => {
                            let call = self.call_mut(id);
                            call.phase = Phase::Unattended(hold);

                            let left = call.taken;
                            self.ask(id, hold, left);
                        }
                        None => self.settled(id, Found::Nothing),
                    }
                }
            },
            _ => self.settled(id, Found::Nothing),
        }
    }

    /// With `release = false`, a renewed claim is taken back to ttl after the claim.
    fn as_long_as_ttl(&mut self, config: &Config, id: u8) -> Option<What> {
        let call = self.call_mut(id);
        let renewed = config.release == Release::Never && call.renewals < config.renewals;
        renewed.then(|| {
            call.hold = Some(call.taken);
            What::Hold
        })
    }

    /// The store answered to what the end has sent.
    pub(crate) fn end_answered(&mut self, config: &Config, id: u8, sent: What, answer: Answer) {
        let attended = matches!(self.call(id).phase, Phase::Settling(_));
        let phase = |what| {
            if attended {
                Phase::Settling(what)
            } else {
                Phase::Unattended(what)
            }
        };
        let call = self.call_mut(id);
        call.answer = None;
        match (sent, answer) {
            (What::Complete, Answer::Absent) => {
                call.phase = phase(What::PutDone);
                self.ask(id, What::PutDone, 0);
            }
            (What::Complete, Answer::Full) => {
                call.hold = Some(config.ttl);
                call.phase = phase(What::Hold);

                self.ask(id, What::Hold, config.ttl);
            }
            (What::Complete, Answer::Done) | (What::PutDone, Answer::Claimed) => {
                let found = self
                    .record
                    .filter(|record| record.call == id && record.done);
                self.acknowledge(config, id);
                self.settled(id, found.map_or(Found::Nothing, Found::Record));
            }
            _ => {
                self.acknowledge(config, id);
                self.settled(id, Found::Nothing);
            }
        }
    }

    /// There was no answer to it in time.
    pub(crate) fn end_unanswered(&mut self, config: &Config, id: u8, sent: What) -> bool {
        let again = match sent {
            What::PutDone => What::Complete,
            sent => sent,
        };
        let attended = matches!(self.call(id).phase, Phase::Settling(_));
        let removes = [Variant::TimeoutRemoves, Variant::TimeoutRemovesByOwner];
        if sent == What::Complete && removes.contains(&config.variant) {
            self.call_mut(id).phase = Phase::Settling(What::Remove);
            self.ask(id, What::Remove, 0);
        } else if self.faults.resends > 0 {
            self.faults.resends -= 1;
            let call = self.call_mut(id);
            call.phase = if attended {
                Phase::Settling(again)
            } else {
                Phase::Unattended(again)
            };
            let left = call.hold.unwrap_or_default();
            if !attended {
                self.leave(id, Found::Nothing);
            }
            self.ask(id, again, left);
        } else if attended {
            let call = self.call_mut(id);
            call.answer = None;
            call.phase = Phase::Unattended(sent);
            self.leave(id, Found::Nothing);
        } else if self.call(id).lease == 0 {
            self.settled(id, Found::Nothing);
        } else {
            return false;
        }
        true
    }

    /// Its caller may rely on it: what a failover must not take.
    fn acknowledge(&mut self, config: &Config, id: u8) {
        if let Some(recorded) = &mut self.memory.recorded
            && recorded.call == id
            && config.faults.failovers > 0
        {
            recorded.acknowledged = true;
        }
    }

    fn settled(&mut self, id: u8, found: Found) {
        self.leave(id, found);
        let body = self.call(id).body;
        self.call_mut(id).over(body);
    }
}
