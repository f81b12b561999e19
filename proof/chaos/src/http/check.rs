//! Checks a storm: what the services did, and what the clients received.
//!
//! A killed process is an excuse for a second body, because nobody knows how far the first body came. The second body must then
//! start before a client got a success. A body that ended without its effect, because it lost its lease, is another excuse: a second
//! body may start after the lease. If the store or a process was silent for a second, the lease or the response of a body
//! may be lost: such keys are counted, and not judged. A busy machine is silent again and again for shorter times, so a 503 is
//! judged by their sum.

mod figures;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use self::figures::Figures;
use super::service::{DEADLINE, GRACE, LEASE};
use crate::history::{Call, HistoryEvent, Key, Line, Micros};
use crate::probe::STORE;
use crate::stalls::{Stall, time_within};

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// How it was broken.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.message)
    }
}

/// A rule that every storm must follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The body of a key runs once. It runs again only if the process of each earlier body was killed before, or if the earlier body
    /// lost its lease and ended without its effect.
    OneBody,
    /// No body starts after a client got a success.
    NoSecondRun,
    /// All successes of a key are equal byte for byte, except for `date` and the marker of a replay.
    EqualBytes,
    /// Of the successes of a key at most one is not marked as a replay.
    OneOriginal,
    /// A success comes from a body of the same key that had its effect.
    RealReplay,
    /// A retry after the storm gets the stored response, from every service.
    Stored,
    /// Every client gets a success in the end, no other answer than the refusals 409 and 503 and a lost lease comes before it,
    /// and nothing panics.
    Sound,
    /// A 503, or the 500 of a lost lease, comes only while the store, or a process, is silent for a second in all.
    TrueRefusal,
}

/// What a client received in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A response with a status from 200 to 299.
    Success(Success),
    /// A response that no retry follows.
    Unexpected(String),
    /// The client gave up.
    None,
}

/// A response with a status from 200 to 299.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Success {
    /// When the client had read it.
    pub at: Micros,
    /// The call that made it. `None` if the body of the response does not name a call.
    pub call: Option<Call>,
    /// Whether it is marked as a replay.
    pub is_replay: bool,
    /// The response without `date` and the marker.
    pub bytes: Vec<u8>,
}

/// How often a client sent its request, and why it repeated it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempts {
    /// Requests sent.
    pub sent: usize,
    /// Requests whose client disconnected before it had a response.
    pub disconnected: usize,
    /// Requests whose connection was lost.
    pub lost: usize,
    /// Requests refused with 409, because another request was running.
    pub in_progress: usize,
    /// Requests refused with 503, or whose lease was lost.
    pub unavailable: usize,
    /// When the last of them was refused.
    pub last_unavailable: Option<Micros>,
}

/// What the clients received.
#[derive(Debug, Default)]
pub struct Received {
    /// The last answer of each client.
    pub storm: Vec<(Key, Answer)>,
    /// The answers after the storm: each key, from each service.
    pub afterwards: Vec<(Key, Answer)>,
    /// The attempts of each client.
    pub attempts: Vec<Attempts>,
    /// When clients were refused with 503, or their lease was lost.
    pub unavailable: Vec<(Key, Micros)>,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The broken rules.
    pub violations: Vec<Violation>,
    /// The figures of the storm.
    pub figures: Figures,
}

/// Checks the histories of all processes of a storm, and what its clients received.
pub fn check(lines: &[Line], received: &Received) -> Verdict {
    let traces = Traces::of(lines);
    let mut checking = Checking {
        traces: &traces,
        violations: Vec::new(),
    };
    let answers = received.storm.iter().chain(&received.afterwards);
    let mut successes: BTreeMap<Key, Vec<&Success>> = BTreeMap::new();
    for (key, answer) in answers {
        match answer {
            Answer::Success(success) => successes.entry(*key).or_default().push(success),
            other => checking.broken(Rule::Sound, *key, &format!("a client got {other:?}")),
        }
    }
    for (key, bodies) in &traces.bodies {
        checking.one_body(*key, bodies);
        checking.second_runs(*key, bodies, successes.get(key).map_or(&[], Vec::as_slice));
    }
    for (key, successes) in &successes {
        checking.successes(*key, successes);
    }
    for (key, answer) in &received.afterwards {
        if !matches!(answer, Answer::Success(success) if success.is_replay) {
            checking.broken(Rule::Stored, *key, "a retry afterwards got no replay");
        }
    }
    for (key, at) in &received.unavailable {
        if !traces.was_silent_before(*at) {
            let message = format!("a 503 or a lost lease at {at} µs, although nothing was silent");
            checking.broken(Rule::TrueRefusal, *key, &message);
        }
    }
    for line in lines {
        if let HistoryEvent::Panicked(process) = line.event {
            let message = format!("process {process} panicked");
            checking.violations.push(Violation {
                rule: Rule::Sound,
                message,
            });
        }
    }
    Verdict {
        violations: checking.violations,
        figures: Figures::of(lines, received, &traces),
    }
}

/// If the store or a process is silent for this time, a lease may end, or a response may not be stored.
const LONG_PAUSE: Micros = 1_000_000;
/// A body starts at most this long after the answer of the store to its claim, besides the time that its process stands still. A body that
/// runs without a claim starts later: after the deadline.
const START_DELAY: Micros = 500_000;
/// A 503 comes at most this long after the silence: the deadline of a service and a second.
const REFUSAL_DELAY: Micros = DEADLINE + 1_000_000;

/// A body that started.
#[derive(Debug)]
struct Started {
    call: Call,
    at: Micros,
}

/// What the services did.
#[derive(Debug, Default)]
struct Traces {
    bodies: BTreeMap<Key, Vec<Started>>,
    effects: BTreeSet<(Key, Call)>,
    /// When the requests of bodies reached their service.
    called: BTreeMap<(Key, Call), Micros>,
    /// When bodies ended without their effect.
    ended: BTreeMap<(Key, Call), Micros>,
    /// Before each process was killed.
    killing: BTreeMap<u32, Micros>,
    /// When each process was certainly dead.
    killed: BTreeMap<u32, Micros>,
    /// When a process, or the store, was silent for a long time: from and to.
    silent: BTreeMap<u32, Vec<Stall>>,
    /// The same, for every noted time, in the order of the starts.
    starved: BTreeMap<u32, Vec<Stall>>,
    /// The keys that are not judged.
    not_judged: BTreeSet<Key>,
}

impl Traces {
    fn of(lines: &[Line]) -> Self {
        let mut traces = Self::default();
        for line in lines {
            let at = line.at;
            match line.event {
                HistoryEvent::Called(call, key) => {
                    traces.called.insert((key, call), at);
                }
                HistoryEvent::Started(call, key) => {
                    traces
                        .bodies
                        .entry(key)
                        .or_default()
                        .push(Started { call, at });
                }
                HistoryEvent::Effect(call, key) => {
                    traces.effects.insert((key, call));
                }
                HistoryEvent::Ended(call, key) => {
                    traces.ended.insert((key, call), at);
                }
                HistoryEvent::Killing(process) => {
                    traces.killing.insert(process, at);
                }
                HistoryEvent::Killed(process) => {
                    traces.killed.insert(process, at);
                }
                HistoryEvent::Starved(process, paused) => {
                    let silence = (at.saturating_sub(paused), at);
                    traces.starved.entry(process).or_default().push(silence);
                    if paused >= LONG_PAUSE {
                        traces.silent.entry(process).or_default().push(silence);
                    }
                }
                _ => {}
            }
        }
        for bodies in traces.bodies.values_mut() {
            bodies.sort_by_key(|body| body.at);
        }
        traces
            .starved
            .values_mut()
            .for_each(|starved| starved.sort_unstable());
        let not_judged = traces.bodies.iter();
        let not_judged = not_judged.filter(|(_, bodies)| traces.saw_silence(bodies));
        traces.not_judged = not_judged.map(|(key, _)| *key).collect();
        traces
    }

    /// Whether anything was silent while a request that was refused at this time waited: at once, or in several parts.
    fn was_silent_before(&self, at: Micros) -> bool {
        let mut silences = self.silent.values().flatten();
        let is_silence = silences.any(|(start, end)| *start < at && at < end + REFUSAL_DELAY);
        let waited = (at.saturating_sub(REFUSAL_DELAY), at);
        let mut starved = self.starved.values();
        is_silence || starved.any(|starved| time_within(starved, waited) >= LONG_PAUSE)
    }

    /// Whether the store, or the process of a body, became silent between the starts of this body and the next one, or was silent in several
    /// parts of the body's lease. A silence that began before the body is no excuse: a claim needs the store.
    fn saw_silence(&self, bodies: &[Started]) -> bool {
        let is_silent = |process: u32, body: &Started, to: Micros| {
            let mut silent = self.silent.get(&process).into_iter().flatten();
            silent.any(|(start, end)| {
                let stood_still = self.starved_within(body.call.process, (*start, body.at));
                let is_after = body.at < start + START_DELAY + stood_still;
                is_after && *start < to && body.at < *end
            })
        };
        let is_starved = |process: u32, from: Micros, to: Micros| {
            let starved = self.starved.get(&process).into_iter().flatten();
            let later: Vec<_> = starved
                .filter(|(start, _)| *start >= from)
                .copied()
                .collect();
            time_within(&later, (from, to.min(from + LEASE))) >= LONG_PAUSE
        };
        bodies.windows(2).any(|two| {
            let (from, to) = (two[0].at, two[1].at);
            [STORE, two[0].call.process]
                .into_iter()
                .any(|process| is_silent(process, &two[0], to) || is_starved(process, from, to))
        })
    }

    /// Whether `body` ended without its effect before `at`, and its lease may have ended as well.
    fn lost_its_lease(&self, key: Key, body: &Started, at: Micros) -> bool {
        let ended = self.ended.get(&(key, body.call));
        ended.is_some_and(|ended| *ended < at) && self.may_be_free(key, body, at)
    }

    /// Whether the key may be free at `at`, if nothing renewed the claim of `body`. The claim was sent after the request came, and less than
    /// a lease before the body, because no body starts after its lease, unless its process stood still.
    fn may_be_free(&self, key: Key, body: &Started, at: Micros) -> bool {
        let called = *self.called.get(&(key, body.call)).unwrap_or(&body.at);
        let stood_still = self.starved_within(body.call.process, (called, body.at));
        let claimed = called.max(body.at.saturating_sub(LEASE + stood_still));
        claimed + LEASE + GRACE <= at
    }

    /// How much of this time the process stood still.
    fn starved_within(&self, process: u32, within: Stall) -> Micros {
        let starved = self.starved.get(&process);
        starved.map_or(0, |starved| time_within(starved, within))
    }

    /// Whether the process of `body` was killed before `at`. While it may be dead or not, another body needs the end of its lease as well.
    fn was_killed(&self, key: Key, body: &Started, at: Micros) -> bool {
        let is_before = |kills: &BTreeMap<u32, Micros>| {
            let kill = kills.get(&body.call.process);
            kill.is_some_and(|kill| *kill < at)
        };
        is_before(&self.killed) || is_before(&self.killing) && self.may_be_free(key, body, at)
    }
}

struct Checking<'a> {
    traces: &'a Traces,
    violations: Vec<Violation>,
}

impl Checking<'_> {
    fn one_body(&mut self, key: Key, bodies: &[Started]) {
        for (index, body) in bodies.iter().enumerate() {
            let mut earlier = bodies[..index].iter();
            let is_excused = |other: &&Started| {
                self.traces.was_killed(key, other, body.at)
                    || self.traces.lost_its_lease(key, other, body.at)
            };
            if let Some(other) = earlier.find(|other| !is_excused(other)) {
                let message = format!("body {} started after body {}", body.call, other.call);
                self.broken(Rule::OneBody, key, &message);
            }
        }
    }

    fn second_runs(&mut self, key: Key, bodies: &[Started], successes: &[&Success]) {
        let Some(first) = successes.iter().map(|success| success.at).min() else {
            return;
        };
        for body in bodies.iter().filter(|body| body.at > first) {
            let after = (body.at - first) / 1000;
            let message = format!("body {} started {after} ms after a success", body.call);
            self.broken(Rule::NoSecondRun, key, &message);
        }
    }

    fn successes(&mut self, key: Key, successes: &[&Success]) {
        let different: BTreeSet<&[u8]> = successes.iter().map(|success| &*success.bytes).collect();
        if different.len() > 1 {
            let text = |bytes: &&[u8]| {
                String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
            };
            let texts: Vec<String> = different.iter().take(2).map(text).collect();
            let message = format!("{} different responses: {texts:?}", different.len());
            self.broken(Rule::EqualBytes, key, &message);
        }
        let originals = successes.iter().filter(|success| !success.is_replay);
        let originals = originals.count();
        if originals > 1 {
            let message = format!("{originals} responses are not marked as replays");
            self.broken(Rule::OneOriginal, key, &message);
        }
        for success in successes {
            let call = success.call;
            if !call.is_some_and(|call| self.traces.effects.contains(&(key, call))) {
                let message = format!("a response of {call:?}, which had no effect for this key");
                self.broken(Rule::RealReplay, key, &message);
            }
        }
    }

    fn broken(&mut self, rule: Rule, key: Key, message: &str) {
        if rule != Rule::Sound && self.traces.not_judged.contains(&key) {
            return;
        }
        let message = format!("{key}: {message}");
        self.violations.push(Violation { rule, message });
    }
}
