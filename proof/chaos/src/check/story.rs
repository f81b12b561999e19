//! A history put in order: calls by key, pauses by process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{RECORDED_WITHIN, STOPS_WITHIN};
use crate::history::{Call, Key, Line, Micros, NOTED, Told, What};

/// All that happened.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// In the order in which their bodies started; those without a body come first.
    keys: BTreeMap<Key, Vec<Deed>>,
    places: HashMap<Call, (Key, usize)>,
    pub(super) processes: BTreeMap<u32, Process>,
    hold_ups: Vec<HoldUp>,
    pub(super) failovers: Vec<(Micros, Micros)>,
}

/// A time when what was sent did not arrive: the server was away, or the proxy held it back.
#[derive(Debug)]
struct HoldUp {
    /// Whose requests; `None` for everybody's.
    process: Option<u32>,
    from: Micros,
    to: Micros,
}

/// One call, from beginning to end.
#[derive(Debug, Clone)]
pub(super) struct Deed {
    pub(super) call: Call,
    pub(super) key: Key,
    pub(super) called: Micros,
    pub(super) started: Option<Micros>,
    ended: Option<Micros>,
    effect: bool,
    unrecorded: bool,
    pub(super) told: Option<(Micros, Told)>,
    /// When its process was killed.
    pub(super) died: Micros,
}

/// One process.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) killed: Option<Micros>,
    finished: bool,
    panicked: bool,
    stopped: Option<Micros>,
    pauses: Vec<(Micros, Micros)>,
}

impl Story {
    pub(super) fn of(lines: &[Line]) -> Self {
        let mut story = Self::default();
        let mut deeds: HashMap<Call, Deed> = HashMap::new();
        let mut away = None;
        let mut leaderless = None;
        let mut lines = lines.to_vec();
        lines.sort_by_key(|line| line.at);
        for Line { at, what } in lines {
            match what {
                What::Called(call, key) => {
                    deeds.insert(call, Deed::new(call, key, at));
                    story.process(call.process);
                }
                What::Started(call, key) => deed(&mut deeds, call, key, at).started = Some(at),
                What::Effect(call, key) => {
                    let deed = deed(&mut deeds, call, key, at);
                    deed.effect = true;
                    deed.ended = Some(at);
                }
                What::Ended(call, key) => deed(&mut deeds, call, key, at).ended = Some(at),
                What::Told(call, key, told) => {
                    deed(&mut deeds, call, key, at).told = Some((at, told));
                }
                What::Unrecorded(call) => {
                    if let Some(deed) = deeds.get_mut(&call) {
                        deed.unrecorded = true;
                    }
                }
                What::Starved(process, lasted) => {
                    let pause = (at.saturating_sub(lasted), at);
                    story.process(process).pauses.push(pause);
                }
                What::Stopped(process) => story.process(process).stopped = Some(at),
                What::Continued(process) => story.process(process).goes_on(at),
                What::Killed(process) => {
                    story.process(process).goes_on(at);
                    story.process(process).killed = Some(at);
                }
                What::Panicked(process) => story.process(process).panicked = true,
                What::Finished(process) => story.process(process).finished = true,
                What::ServerAway => away = Some(at),
                What::ServerBack => story.hold_up(None, away.take(), at),
                What::Delayed(process, micros) => {
                    story.hold_up(Some(process), Some(at.saturating_sub(micros)), at);
                }
                What::LeaderKilled => leaderless = Some(at),
                What::LeaderBack => {
                    let from = leaderless.take();
                    story.failovers.extend(from.map(|from| (from, at)));
                    story.hold_up(None, from, at);
                }
                What::ReplyDropped | What::ScriptsFlushed => {}
            }
        }
        for (call, mut deed) in deeds {
            let killed = story.process(call.process).killed;
            deed.died = killed.unwrap_or(Micros::MAX);
            story.keys.entry(deed.key).or_default().push(deed);
        }
        for (key, deeds) in &mut story.keys {
            deeds.sort_by_key(|deed| (deed.started, deed.called, deed.call));
            for (place, deed) in deeds.iter().enumerate() {
                story.places.insert(deed.call, (*key, place));
            }
        }
        story
    }

    /// The calls, key by key.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[Deed]> {
        self.keys.values().map(|deeds| &**deeds)
    }

    pub(super) fn deed(&self, call: Call) -> Option<&Deed> {
        let (key, place) = self.places.get(&call)?;
        self.keys.get(key)?.get(*place)
    }

    fn process(&mut self, process: u32) -> &mut Process {
        self.processes.entry(process).or_default()
    }

    /// Whether the call's process did not run for a while after the call was made, and no body of the
    /// call ran on for long after that, up to the end.
    pub(super) fn excused(&self, deed: &Deed, end: Micros) -> bool {
        let mut pauses = self.pauses(deed, deed.called, end);
        pauses.any(|to| end <= to + STOPS_WITHIN)
    }

    /// Whether the process was killed by then, or did not run for a while since the call was made.
    pub(super) fn suffered(&self, deed: &Deed, until: Micros) -> bool {
        deed.died <= until || self.pauses(deed, deed.called, until).next().is_some()
    }

    /// When the pauses of the call's process ended that it met in this time.
    fn pauses(&self, deed: &Deed, from: Micros, to: Micros) -> impl Iterator<Item = Micros> {
        let process = self.processes.get(&deed.call.process);
        let pauses = process.into_iter().flat_map(|process| &process.pauses);
        let met = pauses
            .filter(move |pause| pause.1 - pause.0 >= NOTED && pause.0 <= to && pause.1 >= from);
        met.map(|pause| pause.1)
    }

    fn hold_up(&mut self, process: Option<u32>, from: Option<Micros>, to: Micros) {
        // Each is noted a moment after it began.
        let from = from.map(|from| from.saturating_sub(50_000));
        let hold_up = from.map(|from| HoldUp { process, from, to });
        self.hold_ups.extend(hold_up);
    }

    /// When what the call sent last could be read by the server, if it had to wait.
    pub(super) fn held_up(&self, deed: &Deed) -> Option<Micros> {
        let sent = deed.answered().unwrap_or(deed.died);
        self.hold_ups_of(deed, sent, sent)
            .map(|hold_up| hold_up.to)
            .max()
    }

    /// Whether anything of the call may have been held up until then.
    pub(super) fn is_troubled(&self, deed: &Deed, until: Micros) -> bool {
        // One that was stopped may have claimed before, and be told of another after.
        self.hold_ups_of(deed, deed.called, until).next().is_some()
            || self.pauses(deed, deed.called, until).next().is_some()
    }

    fn hold_ups_of(&self, deed: &Deed, from: Micros, to: Micros) -> impl Iterator<Item = &HoldUp> {
        let process = deed.call.process;
        self.hold_ups.iter().filter(move |hold_up| {
            let its = hold_up.process.is_none_or(|held_up| held_up == process);
            its && hold_up.from <= to && hold_up.to >= from
        })
    }

    /// Whether the key was called around a fail-over.
    pub(super) fn alive_at_a_failover(&self, key: Key, lag: Micros) -> bool {
        let deeds = self.keys.get(&key).map_or(&[][..], |deeds| deeds);
        deeds.iter().any(|deed| {
            let end = deed.answered().unwrap_or(deed.died);
            let mut failovers = self.failovers.iter();
            failovers.any(|(from, to)| deed.called <= to + lag && end >= from.saturating_sub(lag))
        })
    }

    pub(super) fn ended_badly(&self) -> impl Iterator<Item = String> {
        self.processes.iter().filter_map(|(number, process)| {
            if process.panicked {
                Some(format!("process {number} panicked"))
            } else if process.killed.is_none() && !process.finished {
                Some(format!("process {number} ended, and nobody had killed it"))
            } else {
                None
            }
        })
    }

    /// Bodies that were killed, with how long it took until the next one started, if one did.
    pub(super) fn takeovers(&self) -> Vec<Option<Micros>> {
        let mut takeovers = Vec::new();
        for deeds in self.keys() {
            let bodies = deeds.iter().filter(|deed| deed.started.is_some());
            let killed = bodies.clone().filter(|deed| deed.ended.is_none());
            for dead in killed.filter(|deed| deed.died != Micros::MAX) {
                let next = bodies.clone().filter_map(|deed| deed.started);
                let next = next.filter(|started| *started >= dead.died).min();
                takeovers.push(next.map(|next| next - dead.died));
            }
        }
        takeovers
    }

    /// What each process that lived through a fail-over saw of it.
    pub(super) fn recoveries(&self) -> Vec<Recovery> {
        let mut answers: HashMap<u32, Vec<(Micros, Told)>> = HashMap::new();
        for deed in self.keys().flatten() {
            answers
                .entry(deed.call.process)
                .or_default()
                .extend(deed.told);
        }
        let mut recoveries = Vec::new();
        for answers in answers.values() {
            let successes = answers.iter().filter(|(_, told)| *told == Told::Success);
            let mut successes: Vec<Micros> = successes.map(|(at, _)| *at).collect();
            successes.sort_unstable();
            for (from, to) in &self.failovers {
                let gaps = successes.windows(2).map(|gap| (gap[0], gap[1]));
                let gaps = gaps.filter(|gap| gap.0 <= *to && gap.1 >= *from);
                let lived = successes.first() < Some(from) && successes.last() > Some(to);
                let refused = answers.iter().filter(|(at, told)| {
                    *told == Told::Unavailable && (*from..to + AFTERWARDS).contains(at)
                });
                let recovery = Recovery {
                    gap: gaps.map(|gap| gap.1 - gap.0).max().unwrap_or_default(),
                    refused: refused.map(|(at, _)| at - from).max().unwrap_or_default(),
                };
                recoveries.extend(lived.then_some(recovery));
            }
        }
        recoveries
    }
}

/// A refusal that comes so long after a fail-over has another cause.
const AFTERWARDS: Micros = 3_000_000;

/// What a process saw of a fail-over.
#[derive(Debug, Clone, Copy)]
pub struct Recovery {
    /// The longest time between two successes.
    pub gap: Micros,
    /// How long after the kill a call was refused for the last time.
    pub refused: Micros,
}

fn deed(deeds: &mut HashMap<Call, Deed>, call: Call, key: Key, at: Micros) -> &mut Deed {
    // Lines of the same microsecond may be in any order.
    deeds
        .entry(call)
        .or_insert_with(|| Deed::new(call, key, at))
}

impl Process {
    fn goes_on(&mut self, at: Micros) {
        self.pauses
            .extend(self.stopped.take().map(|from| (from, at)));
    }
}

impl Deed {
    fn new(call: Call, key: Key, called: Micros) -> Self {
        Self {
            call,
            key,
            called,
            started: None,
            ended: None,
            effect: false,
            unrecorded: false,
            told: None,
            died: Micros::MAX,
        }
    }

    /// When its body ended, by itself or with its process.
    pub(super) fn body_ended(&self) -> Micros {
        self.ended.unwrap_or(self.died)
    }

    pub(super) fn effect(&self) -> Option<Micros> {
        self.ended.filter(|_| self.effect)
    }

    pub(super) fn answered(&self) -> Option<Micros> {
        self.told.map(|(at, _)| at)
    }

    /// Whether the end of its body was in the store for certain when its caller had the answer.
    pub(super) fn is_settled(&self) -> bool {
        let waited = self.answered().zip(self.ended);
        !self.unrecorded && waited.is_some_and(|(told, ended)| told - ended < RECORDED_WITHIN)
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} (called {}", self.call, self.key, self.called)?;
        if let Some(started) = self.started {
            write!(f, ", started {started}")?;
        }
        match self.ended {
            Some(ended) if self.effect => write!(f, ", effect {ended}")?,
            Some(ended) => write!(f, ", ended {ended}")?,
            None => {}
        }
        match self.told {
            Some((at, told)) => write!(f, ", told {told} {at})"),
            None if self.died != Micros::MAX => write!(f, ", killed {})", self.died),
            None => f.write_str(", not told)"),
        }
    }
}
