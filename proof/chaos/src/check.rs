//! Checks the history of a run against the rules.
//!
//! Kills, cuts and slowness are no excuse. A pause of a process is an excuse if its body overlapped with another body, because
//! no lock can stop a paused body. A fail-over is an excuse for records that were lost with the old leader; these losses are
//! counted.

mod figures;
#[cfg(test)]
mod tests;
mod timeline;

use std::fmt;

use self::timeline::{Timeline, Trace};
use crate::history::{Answer, Endpoint, Line, Micros};
use crate::servers::Topology;
use crate::stored::Stored;
use crate::worker::{DEADLINE, GRACE, LEASE};

pub use self::figures::{Figures, Minimums, Recovery};

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// The calls that broke it.
    pub message: String,
}

/// A rule that every history must follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// Two bodies of a key never run at the same time.
    NoOverlap,
    /// No body starts after a caller learned that the call is done.
    NoSecondRun,
    /// With `release = false` no second body starts.
    AtMostOnce,
    /// A success that a caller got is in the store.
    NothingLost,
    /// A replayed result comes from a call of the same key that had its effect.
    RealReplay,
    /// No call is refused as a duplicate without another call: not for itself, and not for a dead call for
    /// longer than its lease, its grace and a second.
    RealDuplicate,
    /// Every key expires.
    Expires,
    /// Nothing panics, every call gets an answer, and every answer is expected.
    Sound,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The broken rules.
    pub violations: Vec<Violation>,
    /// The figures of the run.
    pub figures: Figures,
}

/// Checks the history of all processes of a run, and the store after it.
pub fn check(lines: &[Line], stored: &Stored, topology: Topology) -> Verdict {
    let timeline = Timeline::of(lines);
    let mut checking = Checking {
        verdict: Verdict {
            violations: Vec::new(),
            figures: Figures::of(&timeline, lines),
        },
        timeline: &timeline,
        topology,
    };
    for traces in timeline.keys() {
        checking.overlaps(traces);
        checking.second_runs(traces);
        checking.duplicates(traces);
        for trace in traces {
            checking.answer(trace, stored);
        }
    }
    checking.soundness(stored);
    checking.verdict
}

/// A success is certainly in the store if its caller got it within this time after the effect. The crate
/// also returns a success that it could not record within the deadline, and the pauses between its
/// attempts can make it give up after a bit more than a third of the deadline.
const RECORDED_WITHIN: Micros = DEADLINE / 3;
/// How long the record of a dead call may remain stored.
const HELD: Micros = LEASE + GRACE;
/// The additional time that a busy machine may need.
const SLACK: Micros = 1_000_000;
/// How long a process may need to stop its bodies after a pause.
const STOPS_WITHIN: Micros = 300_000;
/// How far a replica may lag behind its leader.
const LAG: Micros = 1_000_000;

struct Checking<'a> {
    timeline: &'a Timeline,
    topology: Topology,
    verdict: Verdict,
}

impl Checking<'_> {
    fn overlaps(&mut self, traces: &[Trace]) {
        let mut earlier: Vec<&Trace> = Vec::new();
        for trace in traces {
            let Some(started) = trace.started else {
                continue;
            };
            earlier.retain(|other| other.body_ended() > started);
            for other in &earlier {
                let end = other.body_ended().min(trace.body_ended());
                if self.timeline.excused(other, end) || self.timeline.excused(trace, end) {
                    self.verdict.figures.overlaps_after_pauses += 1;
                } else {
                    let message = format!("{trace} started while {other} ran");
                    self.broken(Rule::NoOverlap, trace, message);
                }
            }
            earlier.push(trace);
        }
    }

    fn second_runs(&mut self, traces: &[Trace]) {
        let key = traces[0].key;
        let bodies = || traces.iter().filter(|trace| trace.started.is_some());
        if key.endpoint == Endpoint::Coupon
            && let Some(second) = bodies().nth(1)
        {
            let message = format!("{second} started after an earlier body");
            self.broken(Rule::AtMostOnce, second, message);
        }
        if !key.endpoint.stores_result() {
            return;
        }
        let known = traces.iter().filter(|trace| self.is_certain(trace));
        let Some(known) = known.min_by_key(|trace| trace.answered()) else {
            return;
        };
        for trace in bodies().filter(|trace| trace.started > known.answered()) {
            if self.timeline.excused(trace, trace.body_ended()) {
                self.verdict.figures.overlaps_after_pauses += 1;
            } else {
                let message = format!("{trace} started after {known} got its answer");
                self.broken(Rule::NoSecondRun, trace, message);
            }
        }
        for first in bodies().filter(|trace| trace.effect().is_some()) {
            let second = bodies().find(|trace| trace.started > first.effect());
            let Some((second, at)) = second.and_then(|trace| Some((trace, trace.started?))) else {
                continue;
            };
            let excused = self.timeline.was_interrupted(first, at)
                || self.timeline.may_be_delayed(first, at)
                || self.timeline.ended_in_silence(first)
                || store_was_silent_for_the_lease(first, at);
            if excused {
                self.verdict.figures.second_effects += usize::from(second.effect().is_some());
            } else {
                let message =
                    format!("{second} started after the effect of {first} without an excuse");
                self.broken(Rule::NoSecondRun, second, message);
            }
        }
    }

    fn duplicates(&mut self, traces: &[Trace]) {
        let holds = traces.iter().map(|trace| (trace, self.holds_until(trace)));
        let holds: Vec<_> = holds.filter(|(_, until)| *until > 0).collect();
        for trace in traces {
            let Some((answered, answer @ (Answer::InProgress | Answer::Done))) = trace.answer
            else {
                continue;
            };
            let real = holds.iter().any(|(other, until)| {
                let there = match answer {
                    Answer::Done => trace.key.endpoint == Endpoint::Coupon,
                    _ => *until >= trace.called,
                };
                there && other.call != trace.call && other.called <= answered
            });
            if !real {
                let message = format!("{trace} was refused as a duplicate without another call");
                self.push(Rule::RealDuplicate, message);
            }
        }
    }

    /// Until when the record of the call may refuse other calls; 0 if it never had a record.
    fn holds_until(&self, trace: &Trace) -> Micros {
        let (end, answer) = match trace.answer {
            Some((at, answer)) => (at, Some(answer)),
            None => (trace.died, None),
        };
        // A request in flight at the end of the call may arrive when the connection works again.
        let arrives = self
            .timeline
            .delayed_until(trace)
            .map_or(end, |at| at.max(end));
        match answer {
            Some(Answer::Success | Answer::Failed) if self.timeline.is_settled(trace) => {
                end + SLACK
            }
            // The renewal may continue as long as there is no answer.
            Some(Answer::Success | Answer::Failed) => Micros::MAX,
            Some(Answer::InProgress | Answer::Done | Answer::Replay(_))
                if !self.timeline.may_be_delayed(trace, end) =>
            {
                0
            }
            _ => arrives.saturating_add(HELD + SLACK),
        }
    }

    fn answer(&mut self, trace: &Trace, stored: &Stored) {
        match trace.answer {
            Some((_, Answer::Success))
                if trace.key.endpoint.stores_result()
                    && self.is_certain(trace)
                    && !stored.results.contains(&trace.call) =>
            {
                let message = format!("{trace} is not in the store");
                self.broken(Rule::NothingLost, trace, message);
            }
            Some((answered, Answer::Replay(of))) => {
                let real = self.timeline.trace(of).is_some_and(|first| {
                    first.key == trace.key && first.effect().is_some_and(|at| at <= answered)
                });
                if !real {
                    let message =
                        format!("{trace} got the result of {of}, which had no such effect");
                    self.push(Rule::RealReplay, message);
                }
            }
            Some((_, Answer::Unexpected)) => {
                self.push(Rule::Sound, format!("{trace} got an unexpected answer"));
            }
            None if trace.died == Micros::MAX => {
                self.push(Rule::Sound, format!("{trace} got no answer"));
            }
            _ => {}
        }
    }

    fn soundness(&mut self, stored: &Stored) {
        for key in &stored.without_expiry {
            self.push(Rule::Expires, format!("{key} never expires"));
        }
        for message in self.timeline.bad_ends() {
            self.push(Rule::Sound, message);
        }
    }

    /// Whether the answer proves that a success is in the store.
    fn is_certain(&self, trace: &Trace) -> bool {
        match trace.answer {
            Some((_, Answer::Success)) => self.timeline.is_settled(trace),
            // A process replays its own success also if the store does not have it yet.
            Some((_, Answer::Replay(of))) if of.process == trace.call.process => {
                self.timeline.trace(of).is_some_and(|first| {
                    matches!(first.answer, Some((_, Answer::Success)))
                        && self.timeline.is_settled(first)
                })
            }
            Some((_, Answer::Replay(_))) => true,
            _ => false,
        }
    }

    /// Reports a broken rule, unless a fail-over may have lost the latest records of the key.
    fn broken(&mut self, rule: Rule, trace: &Trace, message: String) {
        if self.topology.loses_writes() && self.timeline.spans_a_failover(trace.key, LAG) {
            self.verdict.figures.lost_in_failovers += 1;
        } else {
            self.push(rule, message);
        }
    }

    fn push(&mut self, rule: Rule, message: String) {
        self.verdict.violations.push(Violation { rule, message });
    }
}

/// Whether the store did not answer from the effect of `first` until the end of its lease, at the latest at
/// `at`. A server may freeze without a planned fault.
fn store_was_silent_for_the_lease(first: &Trace, at: Micros) -> bool {
    let silent_from = first.effect().filter(|effect| at - effect >= LEASE);
    let waited = first.answered().zip(silent_from);
    waited.is_some_and(|(answered, effect)| answered - effect >= LEASE)
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.message)
    }
}
