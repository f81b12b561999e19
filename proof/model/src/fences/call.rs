//! One call, from its claim to the end of its fence.

use super::config::{Config, Variant};
use super::rules::Rule;
use super::state::{State, Write};
use super::store::{Answer, Command, Line, LineState, Operation};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub(crate) struct Call {
    pub(crate) phase: Phase,
    pub(crate) body: Body,
    /// The remaining lease, counted from the first send.
    pub(crate) lease: u8,
    pub(crate) answer: Option<Answer>,
    /// The line of its claim, if it is known.
    pub(crate) line: Option<Line>,
    /// The order of its claim, if its body ran.
    pub(crate) order: u8,
    pub(crate) has_written: bool,
    /// The order of the last claim of this call that drew a number, and the number.
    pub(crate) drawn: Option<(u8, u8)>,
    pub(crate) has_ended_line: bool,
    /// The success needs no record, or the store has answered the record.
    pub(crate) is_settled: bool,
    /// The claim was not stored any more when its number was drawn.
    pub(crate) was_too_late: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    NotStarted,
    /// Its claim is in flight. With a line: the mistake that draws before.
    Claiming(Option<Line>),
    /// The draw of this line is in flight; the order of the claim.
    Drawing(Operation, u8),
    /// It asks whether its claim is still stored.
    Confirming(Line),
    Running,
    Ending(Step),
    Ended,
}

/// A step of the end. The next step follows after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// The line is not known, because the claim got no answer.
    ReadLine {
        is_removed: bool,
    },
    EndLine {
        operation: Operation,
        then: Then,
    },
    /// `is_ended`: the fence of the claim is ended, or stays open.
    Remove {
        is_ended: bool,
    },
    Complete,
}

/// What follows the end of the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Remove,
    Complete,
    Nothing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    #[default]
    NotStarted,
    Running,
    Ok,
    Err,
    /// Its caller dropped it, or its process died.
    Stopped,
}

impl State {
    fn request(&mut self, id: u8, phase: Phase, operation: Operation) {
        let call = self.call_mut(id);
        (call.phase, call.answer) = (phase, None);
        self.send(Command {
            call: id,
            operation,
        });
    }

    /// Sends the claim, or sends it again.
    pub(crate) fn claim(&mut self, config: &Config, id: u8) {
        if config.is(Variant::DrawnBeforeClaim) {
            return self.draw_after(config, id, None, 0);
        }
        self.request(id, Phase::Claiming(None), Operation::Claim);
    }

    /// Draws a number in a second step, after the line `last`.
    fn draw_after(&mut self, config: &Config, id: u8, last: Option<Line>, order: u8) {
        let clock = self.clock - config.behind[usize::from(id)];
        let next = Line::next(config, last, id, clock);
        let operation = Operation::Draw {
            expected: last,
            next,
        };
        self.request(id, Phase::Drawing(operation, order), operation);
    }

    fn drawn(&mut self, config: &Config, id: u8, line: Line, order: u8) {
        if config.is(Variant::DrawnBeforeClaim) {
            self.request(id, Phase::Claiming(Some(line)), Operation::Claim);
        } else if config.is(Variant::NotConfirmed) {
            self.start_body(config, id, line, order);
        } else {
            self.request(id, Phase::Confirming(line), Operation::Confirm);
        }
    }

    /// Handles an answer. Returns whether the call awaits it.
    pub(crate) fn answered(&mut self, config: &Config, id: u8) -> bool {
        let Some(answer) = self.call_mut(id).answer.take() else {
            return false;
        };
        match (self.call(id).phase, answer) {
            (Phase::Claiming(_), Answer::Taken) => self.call_mut(id).phase = Phase::Ended,
            (Phase::Claiming(drawn), Answer::Claimed(order, line)) => match line.or(drawn) {
                Some(line) => self.start_body(config, id, line, order),
                None => self.draw_after(config, id, None, order),
            },
            (Phase::Drawing(_, order), Answer::Line(is_drawn, stored)) => match stored {
                Some(line) if is_drawn || line.is_open_for(id) => {
                    self.drawn(config, id, line, order);
                }
                stored => self.draw_after(config, id, stored, order),
            },
            (Phase::Confirming(line), Answer::Stored(order)) => {
                self.start_body(config, id, line, order);
            }
            (Phase::Confirming(_), Answer::Taken) => {
                self.call_mut(id).was_too_late = true;
                self.call_mut(id).phase = Phase::Ended;
            }
            (Phase::Confirming(_), _) => {
                self.call_mut(id).was_too_late = true;
                self.send_end(config, id);
            }
            (Phase::Ending(step), answer) => self.step_answered(config, id, step, answer),
            _ => return false,
        }
        true
    }

    /// The call may run its body, unless its lease has expired.
    fn start_body(&mut self, config: &Config, id: u8, line: Line, order: u8) {
        self.call_mut(id).line = Some(line);
        if self.call(id).lease == 0 {
            return self.send_end(config, id);
        }
        for other in self.ids().filter(|other| *other != id) {
            let other = self.call(other);
            let Some(before) = other.line.filter(|_| other.body != Body::NotStarted) else {
                continue;
            };
            let is_earlier = other.order < order;
            let is_smaller = before.number < line.number;
            if is_earlier != is_smaller || before.number == line.number {
                self.report_broken(Rule::Increasing);
            }
        }
        if !self.memory.line_lost {
            let last = self.last_body_before(order);
            if last.is_some_and(|last| !self.has_ended(last)) && !line.took_over() {
                self.report_broken(Rule::DeadIsSeen);
            }
            if line.attempt < self.attempts(order) {
                self.report_broken(Rule::AttemptsCount);
            }
        }
        let call = self.call_mut(id);
        (call.phase, call.body, call.order) = (Phase::Running, Body::Running, order);
    }

    /// The body writes to the resource. The write may arrive much later.
    pub(crate) fn write(&mut self, id: u8) {
        let call = self.call_mut(id);
        call.has_written = true;
        let number = call.line.map_or(0, |line| line.number);
        let order = call.order;
        self.send(Command {
            call: id,
            operation: Operation::Write(Write { number, order }),
        });
    }

    pub(crate) fn body_ended(&mut self, config: &Config, id: u8, is_ok: bool) {
        let call = self.call_mut(id);
        call.body = if is_ok { Body::Ok } else { Body::Err };
        call.is_settled = is_ok && !config.records;
        let is_lost = call.lease == 0;
        if is_lost && !(is_ok && config.records) {
            call.phase = Phase::Ended;
            return;
        }
        self.send_end(config, id);
    }

    /// Sends the end of the call from its first step (`settle`). Withdraws the claim if the body never ran.
    pub(crate) fn send_end(&mut self, config: &Config, id: u8) {
        let call = self.call(id);
        match (call.body, call.line) {
            (Body::Ok, Some(_)) if config.records => {
                if config.is(Variant::EndedBeforeRecorded) {
                    self.end_line(config, id, Then::Complete);
                } else {
                    let phase = Phase::Ending(Step::Complete);
                    self.request(id, phase, Operation::Complete);
                }
            }
            // A dropped body leaves its fence open.
            (Body::Stopped, _) if !config.is(Variant::DroppedIsEnded) => self.remove(id, true),
            (Body::NotStarted, None) => self.read_line(id, false),
            _ if config.is(Variant::KeyFreedFirst) => self.remove(id, false),
            _ => self.end_line(config, id, Then::Remove),
        }
    }

    fn read_line(&mut self, id: u8, is_removed: bool) {
        let phase = Phase::Ending(Step::ReadLine { is_removed });
        self.request(id, phase, Operation::ReadLine);
    }

    fn remove(&mut self, id: u8, is_ended: bool) {
        let phase = Phase::Ending(Step::Remove { is_ended });
        self.request(id, phase, Operation::Remove);
    }

    fn end_line(&mut self, config: &Config, id: u8, then: Then) {
        let Some(expected) = self.call(id).line else {
            self.call_mut(id).phase = Phase::Ended;
            return;
        };
        let next = self.ended(config, id, expected);
        let operation = Operation::EndLine { expected, next };
        self.request(
            id,
            Phase::Ending(Step::EndLine { operation, then }),
            operation,
        );
    }

    /// The line after the end of the claim (`protocol::fence`).
    fn ended(&self, config: &Config, id: u8, line: Line) -> Line {
        let never_ran = self.call(id).body == Body::NotStarted;
        let counts = config.is(Variant::WithdrawalCounts);
        let hides = config.is(Variant::WithdrawalHidesDead);
        Line {
            number: line.number,
            attempt: match self.call(id).body {
                Body::Ok => 0,
                Body::NotStarted if !counts => line.attempt - 1,
                _ => line.attempt,
            },
            state: if never_ran && line.took_over() && !hides {
                LineState::Takeover(None)
            } else {
                LineState::Ended
            },
        }
    }

    fn step_answered(&mut self, config: &Config, id: u8, step: Step, answer: Answer) {
        match (step, answer) {
            (Step::ReadLine { is_removed }, Answer::Line(_, line)) => {
                let own = line.filter(|line| line.is_open_for(id));
                let then = if is_removed {
                    Then::Nothing
                } else {
                    Then::Remove
                };
                match own {
                    Some(_) => {
                        self.call_mut(id).line = own;
                        self.end_line(config, id, then);
                    }
                    None if is_removed => self.call_mut(id).phase = Phase::Ended,
                    None => self.remove(id, false),
                }
            }
            (Step::EndLine { then, .. }, _) => match then {
                Then::Remove => self.remove(id, true),
                Then::Complete => {
                    self.request(id, Phase::Ending(Step::Complete), Operation::Complete);
                }
                Then::Nothing => self.call_mut(id).phase = Phase::Ended,
            },
            (Step::Remove { is_ended: false }, Answer::Removed(was_stored)) => {
                if self.call(id).line.is_some() {
                    self.end_line(config, id, Then::Nothing);
                } else if was_stored {
                    // The claim arrived after the line was read.
                    self.read_line(id, true);
                } else {
                    self.call_mut(id).phase = Phase::Ended;
                }
            }
            (Step::Complete, _) if !config.is(Variant::EndedBeforeRecorded) => {
                self.end_line(config, id, Then::Nothing);
            }
            _ => self.call_mut(id).phase = Phase::Ended,
        }
    }
}
