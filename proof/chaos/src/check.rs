//! Whether what happened may happen.
//!
//! Nothing is excused because something was killed, cut off or slow. A pause of a process excuses
//! that its body met another, because no lock can stop a body that does not run; a fail-over excuses
//! what was lost with the old leader, and that is counted.

mod figures;
mod story;
#[cfg(test)]
mod tests;

use std::fmt;

use self::story::{Deed, Story};
use crate::history::{Endpoint, Line, Micros, Told};
use crate::standing::Standing;
use crate::worker::{DEADLINE, GRACE, LEASE};

pub use self::figures::{Figures, Floors, Recovery};

/// What must not happen, and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which rule was broken.
    pub rule: Rule,
    /// By which calls.
    pub what: String,
}

/// What a history has to keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// Two bodies of a key do not run at once.
    NoOverlap,
    /// No body starts after a caller was told that it is done.
    NoSecondRun,
    /// With `release = false` a second body does not start at all.
    AtMostOnce,
    /// A success that was told stands in the store.
    NothingLost,
    /// A replayed result is that of a call of the key which had its effect.
    RealReplay,
    /// Nobody is told of another call where there can be none: not of himself, and not of a dead one
    /// for longer than its lease, its grace and a second.
    RealDuplicate,
    /// Every key of ours expires.
    Expires,
    /// Nothing panics, every call has an answer, and every answer is one that was expected.
    Sound,
}

/// What came of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What was broken.
    pub violations: Vec<Violation>,
    /// What was done.
    pub figures: Figures,
}

/// Checks the history of one run, of all processes together, and what stands in the store after it.
pub fn check(lines: &[Line], standing: &Standing) -> Verdict {
    let story = Story::of(lines);
    let mut checking = Checking {
        verdict: Verdict {
            violations: Vec::new(),
            figures: Figures::of(&story, lines),
        },
        story: &story,
    };
    for deeds in story.keys() {
        checking.overlaps(deeds);
        checking.second_runs(deeds);
        checking.duplicates(deeds);
        for deed in deeds {
            checking.answer(deed, standing);
        }
    }
    checking.soundness(standing);
    checking.verdict
}

/// How long after its effect a success may be told and be in the store for certain. The crate gives
/// the value to its caller also when it could not be recorded within the handle's deadline, and the
/// pauses between its tries can make it give up after a bit more than a third of that.
const RECORDED_WITHIN: Micros = DEADLINE / 3;
/// How long a record of one who died may stand.
const HELD: Micros = LEASE + GRACE;
/// What a machine that is busy may add to that.
const SLACK: Micros = 1_000_000;
/// How long a process that goes on after a pause may need to stop its bodies.
const STOPS_WITHIN: Micros = 300_000;
/// How far behind its leader a replica may be.
const LAG: Micros = 1_000_000;

struct Checking<'a> {
    story: &'a Story,
    verdict: Verdict,
}

impl Checking<'_> {
    fn overlaps(&mut self, deeds: &[Deed]) {
        let mut earlier: Vec<&Deed> = Vec::new();
        for deed in deeds {
            let Some(started) = deed.started else {
                continue;
            };
            earlier.retain(|other| other.body_ended() > started);
            for other in &earlier {
                let end = other.body_ended().min(deed.body_ended());
                if self.story.excused(other, end) || self.story.excused(deed, end) {
                    self.verdict.figures.overlaps_of_the_paused += 1;
                } else {
                    let what = format!("{deed} started while {other} ran");
                    self.broken(Rule::NoOverlap, deed, what);
                }
            }
            earlier.push(deed);
        }
    }

    fn second_runs(&mut self, deeds: &[Deed]) {
        let key = deeds[0].key;
        let bodies = || deeds.iter().filter(|deed| deed.started.is_some());
        if key.endpoint == Endpoint::Coupon
            && let Some(second) = bodies().nth(1)
        {
            let what = format!("{second} started although another had");
            self.broken(Rule::AtMostOnce, second, what);
        }
        if !key.endpoint.is_kept() {
            return;
        }
        let known = deeds.iter().filter(|deed| is_certain(deed));
        let Some(known) = known.min_by_key(|deed| deed.answered()) else {
            return;
        };
        for deed in bodies().filter(|deed| deed.started > known.answered()) {
            if self.story.excused(deed, deed.body_ended()) {
                self.verdict.figures.overlaps_of_the_paused += 1;
            } else {
                let what = format!("{deed} started after {known} had its answer");
                self.broken(Rule::NoSecondRun, deed, what);
            }
        }
        for first in bodies().filter(|deed| deed.effect().is_some()) {
            let second = bodies().find(|deed| deed.started > first.effect());
            let Some((second, at)) = second.and_then(|deed| Some((deed, deed.started?))) else {
                continue;
            };
            let excused = self.story.suffered(first, at)
                || self.story.is_troubled(first, at)
                || outlasted_by_silence(first, at);
            if excused {
                self.verdict.figures.second_effects += usize::from(second.effect().is_some());
            } else {
                let what = format!("{second} started after the effect of {first}, for no reason");
                self.broken(Rule::NoSecondRun, second, what);
            }
        }
    }

    fn duplicates(&mut self, deeds: &[Deed]) {
        let holds = deeds.iter().map(|deed| (deed, self.holds_until(deed)));
        let holds: Vec<_> = holds.filter(|(_, until)| *until > 0).collect();
        for deed in deeds {
            let Some((answered, told @ (Told::InProgress | Told::Done))) = deed.told else {
                continue;
            };
            let real = holds.iter().any(|(other, until)| {
                let there = match told {
                    Told::Done => deed.key.endpoint == Endpoint::Coupon,
                    _ => *until >= deed.called,
                };
                there && other.call != deed.call && other.called <= answered
            });
            if !real {
                let what = format!("{deed} was told of another call, and there was none");
                self.push(Rule::RealDuplicate, what);
            }
        }
    }

    /// Until when a record of the call may stand in the way of others; 0 if it never had one.
    fn holds_until(&self, deed: &Deed) -> Micros {
        let (end, told) = match deed.told {
            Some((at, told)) => (at, Some(told)),
            None => (deed.died, None),
        };
        // What was on its way when the call ended may arrive when the way is free again.
        let arrives = self.story.held_up(deed).map_or(end, |at| at.max(end));
        match told {
            Some(Told::Success | Told::Failed) if deed.is_settled() => end + SLACK,
            // Its keeper may go on for as long as there is no answer.
            Some(Told::Success | Told::Failed) => Micros::MAX,
            Some(Told::InProgress | Told::Done | Told::Replay(_))
                if !self.story.is_troubled(deed, end) =>
            {
                0
            }
            _ => arrives.saturating_add(HELD + SLACK),
        }
    }

    fn answer(&mut self, deed: &Deed, standing: &Standing) {
        match deed.told {
            Some((_, Told::Success))
                if deed.key.endpoint.is_kept()
                    && is_certain(deed)
                    && !standing.results.contains(&deed.call) =>
            {
                let what = format!("{deed} is not in the store");
                self.broken(Rule::NothingLost, deed, what);
            }
            Some((answered, Told::Replay(of))) => {
                let real = self.story.deed(of).is_some_and(|first| {
                    first.key == deed.key && first.effect().is_some_and(|at| at <= answered)
                });
                if !real {
                    let what = format!("{deed} got the result of {of}, which has none for it");
                    self.push(Rule::RealReplay, what);
                }
            }
            Some((_, Told::Trouble)) => {
                self.push(
                    Rule::Sound,
                    format!("{deed} has an answer of no known kind"),
                );
            }
            None if deed.died == Micros::MAX => {
                self.push(Rule::Sound, format!("{deed} has no answer"));
            }
            _ => {}
        }
    }

    fn soundness(&mut self, standing: &Standing) {
        for key in &standing.endless {
            self.push(Rule::Expires, format!("{key} never expires"));
        }
        for what in self.story.ended_badly() {
            self.push(Rule::Sound, what);
        }
    }

    /// A rule that needs a store which keeps its records: a fail-over may lose the latest.
    fn broken(&mut self, rule: Rule, deed: &Deed, what: String) {
        if self.story.alive_at_a_failover(deed.key, LAG) {
            self.verdict.figures.lost_at_failovers += 1;
        } else {
            self.push(rule, what);
        }
    }

    fn push(&mut self, rule: Rule, what: String) {
        self.verdict.violations.push(Violation { rule, what });
    }
}

/// Whether the store was silent from the effect of `first` until its lease was over, at the latest at
/// `at`: a server may stand still although nobody has stopped it.
fn outlasted_by_silence(first: &Deed, at: Micros) -> bool {
    let silent_from = first.effect().filter(|effect| at - effect >= LEASE);
    let waited = first.answered().zip(silent_from);
    waited.is_some_and(|(answered, effect)| answered - effect >= LEASE)
}

/// Whether the answer says for certain that a success stands in the store.
fn is_certain(deed: &Deed) -> bool {
    match deed.told {
        Some((_, Told::Success)) => deed.is_settled(),
        Some((_, Told::Replay(_))) => true,
        _ => false,
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}
