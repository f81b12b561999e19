//! The record of a key, the record of its number, and the commands that change them.

use super::call::Body;
use super::config::{Config, Store, Variant};
use super::rules::Rule;
use super::state::{State, Write};

/// The record under the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) call: u8,
    /// How many claims were stored before it, and this claim.
    pub(crate) order: u8,
    pub(crate) done: bool,
    pub(crate) remaining: u8,
}

/// The record of the last number (`record::fence`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Line {
    pub(crate) number: u8,
    pub(crate) attempt: u8,
    pub(crate) state: LineState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LineState {
    Open(u8),
    /// Without a call if the claim was withdrawn.
    Takeover(Option<u8>),
    Ended,
}

/// A command in flight to the store, or a write in flight to the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command {
    pub(crate) call: u8,
    pub(crate) operation: Operation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    /// `claim_fenced`, or the first of its steps.
    Claim,
    /// `claim` or `replace` of the line.
    Draw { expected: Option<Line>, next: Line },
    /// `get` of the key.
    Confirm,
    /// `get` of the line.
    ReadLine,
    /// `replace` of the line.
    EndLine { expected: Line, next: Line },
    /// `remove` of the claim.
    Remove,
    /// `replace` of the claim by the done record, which is stored if nothing is.
    Complete,
    /// No command to the store.
    Write(Write),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// The claim is stored: its order, and its line if the store draws in one step.
    Claimed(u8, Option<Line>),
    Taken,
    /// Whether the line was replaced, and the line that is stored.
    Line(bool, Option<Line>),
    /// The order of the own claim, which is stored.
    Stored(u8),
    Absent,
    Removed(bool),
    Completed,
}

impl Line {
    /// The line of the next claim (`FenceLine::next`).
    pub(crate) fn next(config: &Config, last: Option<Self>, call: u8, clock: u8) -> Self {
        let (number, attempt) = last.map_or((0, 0), |last| (last.number, last.attempt));
        let time = clock * NUMBERS_PER_TICK;
        Self {
            number: match config.variant {
                Variant::ClockAlone => time,
                Variant::NoClock => number + 1,
                _ => time.max(number + 1),
            },
            attempt: attempt + 1,
            state: match last {
                Some(last) if last.state != LineState::Ended => LineState::Takeover(Some(call)),
                _ => LineState::Open(call),
            },
        }
    }

    pub(crate) fn is_open_for(self, call: u8) -> bool {
        self.state == LineState::Open(call) || self.state == LineState::Takeover(Some(call))
    }

    pub(crate) fn took_over(self) -> bool {
        matches!(self.state, LineState::Takeover(_))
    }
}

impl State {
    /// Executes a command atomically and returns the answer.
    pub(crate) fn execute(&mut self, config: &Config, command: Command) -> Option<Answer> {
        let id = command.call;
        let own = self.record.filter(|it| it.call == id && !it.done);
        Some(match command.operation {
            Operation::Claim => self.execute_claim(config, id),
            Operation::Draw { expected, next } => {
                let is_drawn = self.line == expected;
                if is_drawn {
                    self.note_draw(id, next);
                    self.put_line(config, next);
                }
                Answer::Line(is_drawn, self.line)
            }
            Operation::Confirm => match (own, self.record) {
                (Some(own), _) => Answer::Stored(own.order),
                (None, Some(_)) => Answer::Taken,
                (None, None) => Answer::Absent,
            },
            Operation::ReadLine => Answer::Line(false, self.line),
            Operation::EndLine { expected, next } => {
                let is_own = self.line == Some(expected);
                if self.line.is_some() && (is_own || config.is(Variant::UnownedEnd)) {
                    self.put_line(config, next);
                    self.call_mut(id).has_ended_line = true;
                    if config.is(Variant::EndRemovesLine) {
                        self.line = None;
                    }
                }
                Answer::Line(is_own, self.line)
            }
            Operation::Remove => {
                if own.is_some() {
                    self.record = None;
                }
                Answer::Removed(own.is_some())
            }
            Operation::Complete => {
                if self.record.is_none() || own.is_some() {
                    let order = own.map_or(self.memory.claims, |own| own.order);
                    self.record = Some(Record {
                        call: id,
                        order,
                        done: true,
                        remaining: config.lease + config.grace,
                    });
                }
                self.call_mut(id).is_settled = true;
                Answer::Completed
            }
            Operation::Write(write) => {
                if write.number < self.resource.number {
                    self.memory.refused_write = true;
                    return None;
                }
                if write.order < self.resource.order {
                    self.report_broken(Rule::LateWriteRefused);
                }
                self.resource = write;
                return None;
            }
        })
    }

    fn execute_claim(&mut self, config: &Config, id: u8) -> Answer {
        let order = match self.record {
            Some(record) if record.call == id && !record.done => record.order,
            Some(_) => {
                if config.is(Variant::RefusedDraws) {
                    self.draw(config, id);
                }
                return Answer::Taken;
            }
            None => {
                self.memory.claims += 1;
                let order = self.memory.claims;
                self.record = Some(Record {
                    call: id,
                    order,
                    done: false,
                    remaining: config.lease + config.grace,
                });
                order
            }
        };
        let draws = config.store == Store::OneStep;
        Answer::Claimed(order, draws.then(|| self.draw(config, id)))
    }

    /// Draws a number in the step of the claim.
    fn draw(&mut self, config: &Config, id: u8) -> Line {
        let own = self.line.filter(|line| line.is_open_for(id));
        if let Some(own) = own.filter(|_| !config.is(Variant::NewForRepeat)) {
            return own;
        }
        let next = Line::next(config, self.line, id, self.clock);
        self.note_draw(id, next);
        self.put_line(config, next);
        next
    }

    /// Checks a number that is drawn now.
    fn note_draw(&mut self, id: u8, next: Line) {
        let order = self.record.filter(|it| it.call == id).map(|it| it.order);
        let drawn = order.map(|order| (order, next.number));
        let before = self.call(id).drawn;
        // A late copy of a claim may draw again after the claim has ended.
        let is_repeat = order.is_some() && before.map(|before| before.0) == order;
        if is_repeat && before != drawn && !self.call(id).has_ended_line {
            self.report_broken(Rule::SameAgain);
        }
        let last = self.last_body_before(u8::MAX);
        let died = last.is_some_and(|last| !self.has_ended(last));
        let is_exact = next.took_over() == died && next.attempt == self.attempts(u8::MAX);
        if !is_exact && !self.memory.line_lost {
            self.report_broken(Rule::NoFalseAlarm);
        }
        let call = self.call_mut(id);
        call.drawn = drawn;
        call.has_ended_line = false;
    }

    fn put_line(&mut self, config: &Config, line: Line) {
        self.line = Some(line);
        self.life = config.life;
    }

    /// The last body of the claims before this one.
    pub(crate) fn last_body_before(&self, order: u8) -> Option<u8> {
        let ran = |id: &u8| self.call(*id).body != Body::NotStarted;
        let before = self.ids().filter(|id| self.call(*id).order < order);
        before.filter(ran).max_by_key(|id| self.call(*id).order)
    }

    /// Whether the body of this call has ended, and the record of its success is not missing.
    pub(crate) fn has_ended(&self, id: u8) -> bool {
        let call = self.call(id);
        match call.body {
            Body::Err => true,
            Body::Ok => call.is_settled,
            Body::NotStarted | Body::Running | Body::Stopped => false,
        }
    }

    /// The number of bodies since the last success before this order, and one more.
    pub(crate) fn attempts(&self, order: u8) -> u8 {
        let before = |id: &u8| self.call(*id).order < order;
        let succeeded = |id: &u8| self.call(*id).body == Body::Ok && self.has_ended(*id);
        let orders = self.ids().filter(before).filter(succeeded);
        let last = orders.map(|id| self.call(id).order).max().unwrap_or(0);
        let ran = |id: &u8| self.call(*id).body != Body::NotStarted && self.call(*id).order > last;
        let runs = self.ids().filter(before).filter(ran).count();
        u8::try_from(runs).expect("calls are few") + 1
    }

    /// Advances all clocks by a tick.
    pub(crate) fn tick(&mut self) {
        self.ticks -= 1;
        self.clock += 1;
        self.record = self.record.and_then(|record| {
            (record.remaining > 1).then(|| Record {
                remaining: record.remaining - 1,
                ..record
            })
        });
        if self.line.is_some() && self.life != u8::MAX {
            self.life -= 1;
            if self.life == 0 {
                self.line = None;
                self.memory.line_lost = true;
            }
        }
        for call in &mut self.calls {
            call.lease = call.lease.saturating_sub(1);
        }
    }
}

/// The clock advances faster than claims can raise the number.
const NUMBERS_PER_TICK: u8 = 8;
