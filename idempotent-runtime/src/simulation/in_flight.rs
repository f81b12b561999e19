//! One message on its way to the store and back.

use super::history::{Kind, Sends};
use super::incidents::Outage;
use super::knobs::MessageFaults;
use super::message::{Message, Reply};
use super::net::{Inside, Next};
use super::server::Request;
use crate::store::StoreErrorKind;

impl Inside {
    pub(super) fn delay(&mut self) -> u64 {
        let MessageFaults {
            slowest,
            straggles,
            longest,
            ..
        } = self.message_faults;
        let most = if self.dice.chance(straggles) {
            longest
        } else {
            slowest
        };
        self.dice.within(0, most)
    }

    pub(super) fn dispatch(&mut self, now: u64, mut message: Message) {
        let key = Some(message.key);
        if self.dice.chance(self.message_faults.repeats) {
            message.repeated = true;
            let again = Message {
                op: message.op.clone(),
                answer: None,
                given_up: None,
                ..message
            };
            let at = now + self.delay() + self.delay();
            self.plan(at, Next::Arrive(again));
        }
        if self.dice.chance(self.message_faults.loses_requests) {
            let number = message.number;
            self.note(
                now,
                key,
                Kind::Lost {
                    message: number,
                    reply: false,
                },
            );
            return;
        }
        match self.delay() {
            0 => self.arrive(now, message),
            delay => self.plan(now + delay, Next::Arrive(message)),
        }
    }

    pub(super) fn arrive(&mut self, now: u64, message: Message) {
        let (key, number) = (Some(message.key), message.number);
        match self.outage {
            Some((_, Outage::Loses)) => {
                self.note(
                    now,
                    key,
                    Kind::Lost {
                        message: number,
                        reply: false,
                    },
                );
                return;
            }
            Some((_, Outage::Refuses)) => {
                return self.refuse(now, message, StoreErrorKind::NotApplied);
            }
            Some((until, Outage::Delays)) => {
                let delay = self.delay();
                return self.plan(until + delay, Next::Arrive(message));
            }
            None => {}
        }
        let reply = self.apply(now, &message);
        self.reply(now, message, reply);
    }

    /// What the store does with a message.
    pub(super) fn apply(&mut self, now: u64, message: &Message) -> Reply {
        let (key, number) = (Some(message.key), message.number);
        let MessageFaults {
            refuses,
            refuses_completions,
            is_full,
            ..
        } = self.message_faults;
        let completes = message.sends == Sends::Completion;
        if self.dice.chance(refuses) || completes && self.dice.chance(refuses_completions) {
            return self.note_refused(now, message, StoreErrorKind::NotApplied);
        }
        let grows = matches!(
            message.sends,
            Sends::Claim | Sends::Completion | Sends::Exchange | Sends::Fence
        );
        if grows && self.dice.chance(is_full) {
            return self.note_refused(now, message, StoreErrorKind::Full);
        }
        let given_up = message.is_given_up();
        self.note(
            now,
            key,
            Kind::Arrived {
                message: number,
                given_up,
            },
        );
        let Message {
            sent,
            key,
            ref op,
            call,
            ..
        } = *message;
        let request = Request {
            now,
            sent,
            key,
            op,
            call,
        };
        let answer = self.server.execute(&request, &mut self.log);
        self.note_log();
        let Some(answer) = answer else {
            return self.note_refused(now, message, StoreErrorKind::Full);
        };
        if let (true, Some(hints)) = (message.notifies, self.message_faults.hints)
            && !self.dice.chance(hints)
        {
            let at = now + self.delay();
            self.plan(at, Next::Hint(message.key));
        }
        if self.dice.chance(self.message_faults.breaks) {
            return Err(StoreErrorKind::Unknown);
        }
        Ok(answer)
    }

    fn refuse(&mut self, now: u64, message: Message, kind: StoreErrorKind) {
        let reply = self.note_refused(now, &message, kind);
        self.reply(now, message, reply);
    }

    pub(super) fn note_refused(
        &mut self,
        now: u64,
        message: &Message,
        kind: StoreErrorKind,
    ) -> Reply {
        let (number, full) = (message.number, kind == StoreErrorKind::Full);
        self.note(
            now,
            Some(message.key),
            Kind::Refused {
                message: number,
                full,
            },
        );
        // A message that arrives twice may still be applied, so it is not reported as refused.
        Err(if message.repeated {
            StoreErrorKind::Unknown
        } else {
            kind
        })
    }

    pub(super) fn reply(&mut self, now: u64, message: Message, reply: Reply) {
        if message.answer.is_none() {
            return;
        }
        if self.dice.chance(self.message_faults.loses_replies) {
            let number = message.number;
            self.note(
                now,
                Some(message.key),
                Kind::Lost {
                    message: number,
                    reply: true,
                },
            );
            return;
        }
        match self.delay() {
            0 => self.answer(now, message, reply),
            delay => self.plan(now + delay, Next::Reply(message, reply)),
        }
    }

    pub(super) fn answer(&mut self, now: u64, mut message: Message, reply: Reply) {
        let process = &mut self.processes[message.process];
        if process.crashed {
            return;
        }
        if process.paused {
            return process.held_up.push(Next::Reply(message, reply));
        }
        if let Some(answer) = message.answer.take().filter(|answer| !answer.is_closed()) {
            let (number, fine) = (message.number, reply.is_ok());
            self.note(
                now,
                Some(message.key),
                Kind::Answered {
                    message: number,
                    fine,
                },
            );
            let _ = answer.send(reply);
        }
    }
}
