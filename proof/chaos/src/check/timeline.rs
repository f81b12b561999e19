//! The timeline of a run: calls by key, pauses by process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{RECORDED_WITHIN, STOPS_WITHIN};
use crate::history::{Answer, Call, HistoryEvent, Key, Line, Micros, NOTED};
use crate::probe::STORE;
use crate::stalls;
use crate::worker::{DEADLINE, LEASE, settles_in_background};

/// Everything that happened in a run.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// In the order in which their bodies started; calls without a body come first.
    keys: BTreeMap<Key, Vec<Trace>>,
    slots: HashMap<Call, (Key, usize)>,
    pub(super) processes: BTreeMap<u32, Process>,
    delays: Vec<Delay>,
    pub(super) failovers: Vec<(Micros, Micros)>,
}

/// A time in which requests did not arrive: the server was down or did not run, or the proxy delayed them.
#[derive(Debug)]
struct Delay {
    /// The process of the requests; `None` for all processes.
    process: Option<u32>,
    from: Micros,
    to: Micros,
}

/// The trace of one call, from its start to its end.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    pub(super) call: Call,
    pub(super) key: Key,
    pub(super) called: Micros,
    pub(super) started: Option<Micros>,
    ended: Option<Micros>,
    effect: bool,
    unrecorded: bool,
    pub(super) answer: Option<(Micros, Answer)>,
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
    /// When the process last noted that it runs.
    awake: Option<Micros>,
    pauses: Vec<(Micros, Micros)>,
    /// When calls were refused because the store had not answered for the deadline.
    silences: Vec<Micros>,
}

impl Timeline {
    pub(super) fn of(lines: &[Line]) -> Self {
        let mut timeline = Self::default();
        let mut traces: HashMap<Call, Trace> = HashMap::new();
        let mut down = None;
        let mut leaderless = None;
        let mut stalls = Vec::new();
        let mut lines = lines.to_vec();
        lines.sort_by_key(|line| line.at);
        for Line { at, event } in lines {
            match event {
                HistoryEvent::Called(call, key) => {
                    traces.insert(call, Trace::new(call, key, at));
                    timeline.process(call.process);
                }
                HistoryEvent::Started(call, key) => {
                    trace(&mut traces, call, key, at).started = Some(at);
                }
                HistoryEvent::Effect(call, key) => {
                    let trace = trace(&mut traces, call, key, at);
                    trace.effect = true;
                    trace.ended = Some(at);
                }
                HistoryEvent::Ended(call, key) => {
                    trace(&mut traces, call, key, at).ended = Some(at);
                }
                HistoryEvent::Answered(call, key, answer) => {
                    if answer == Answer::Unavailable {
                        timeline.process(call.process).silences.push(at);
                    }
                    trace(&mut traces, call, key, at).answer = Some((at, answer));
                }
                HistoryEvent::Unrecorded(call) => {
                    if let Some(trace) = traces.get_mut(&call) {
                        trace.unrecorded = true;
                    }
                }
                HistoryEvent::Awake(process) => timeline.process(process).awake = Some(at),
                HistoryEvent::Starved(STORE, lasted) => {
                    stalls.push((at.saturating_sub(lasted), at));
                }
                HistoryEvent::Starved(process, lasted) => {
                    let pause = (at.saturating_sub(lasted), at);
                    timeline.process(process).pauses.push(pause);
                }
                HistoryEvent::Stopped(process) => timeline.process(process).stopped = Some(at),
                HistoryEvent::Continued(process) => timeline.process(process).resume(at),
                HistoryEvent::Killed(process) => {
                    timeline.process(process).kill(at);
                }
                HistoryEvent::Panicked(process) => timeline.process(process).panicked = true,
                HistoryEvent::Finished(process) => timeline.process(process).finished = true,
                HistoryEvent::ServerDown => down = Some(at),
                HistoryEvent::ServerUp => timeline.delay(None, down.take(), at),
                HistoryEvent::Delayed(process, micros) => {
                    timeline.delay(Some(process), Some(at.saturating_sub(micros)), at);
                }
                HistoryEvent::LeaderKilled => leaderless = Some(at),
                HistoryEvent::LeaderReplaced => {
                    let from = leaderless.take();
                    timeline.failovers.extend(from.map(|from| (from, at)));
                    timeline.delay(None, from, at);
                }
                HistoryEvent::Killing(_)
                | HistoryEvent::ReplyDropped
                | HistoryEvent::ReplyCut
                | HistoryEvent::RequestCut
                | HistoryEvent::ClientsCut
                | HistoryEvent::ScriptsFlushed
                | HistoryEvent::Batches(..) => {}
            }
        }
        // Shorter stalls cannot end a lease, which is renewed long before its end and has a grace.
        for (from, to) in stalls::long(stalls, LEASE / 2, LEASE) {
            timeline.delay(None, Some(from), to);
        }
        for (call, mut trace) in traces {
            let killed = timeline.process(call.process).killed;
            trace.died = killed.unwrap_or(Micros::MAX);
            timeline.keys.entry(trace.key).or_default().push(trace);
        }
        for (key, traces) in &mut timeline.keys {
            traces.sort_by_key(|trace| (trace.started, trace.called, trace.call));
            for (place, trace) in traces.iter().enumerate() {
                timeline.slots.insert(trace.call, (*key, place));
            }
        }
        timeline
    }

    /// The calls, key by key.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[Trace]> {
        self.keys.values().map(|traces| &**traces)
    }

    pub(super) fn trace(&self, call: Call) -> Option<&Trace> {
        let (key, place) = self.slots.get(&call)?;
        self.keys.get(key)?.get(*place)
    }

    fn process(&mut self, process: u32) -> &mut Process {
        self.processes.entry(process).or_default()
    }

    /// Whether the process of the call was paused after the call started, and its body ended soon after the
    /// pause.
    pub(super) fn excused(&self, trace: &Trace, end: Micros) -> bool {
        let mut pauses = self.pauses(trace, trace.called, end);
        pauses.any(|to| end <= to + STOPS_WITHIN)
    }

    /// Whether the process was killed or paused between the start of the call and `until`.
    pub(super) fn was_interrupted(&self, trace: &Trace, until: Micros) -> bool {
        trace.died <= until || self.pauses(trace, trace.called, until).next().is_some()
    }

    /// The ends of the pauses of the process in this time.
    fn pauses(&self, trace: &Trace, from: Micros, to: Micros) -> impl Iterator<Item = Micros> {
        let process = self.processes.get(&trace.call.process);
        let pauses = process.into_iter().flat_map(|process| &process.pauses);
        let met = pauses
            .filter(move |pause| pause.1 - pause.0 >= NOTED && pause.0 <= to && pause.1 >= from);
        met.map(|pause| pause.1)
    }

    fn delay(&mut self, process: Option<u32>, from: Option<Micros>, to: Micros) {
        // The history notes a delay a moment after its start.
        let from = from.map(|from| from.saturating_sub(50_000));
        let delay = from.map(|from| Delay { process, from, to });
        self.delays.extend(delay);
    }

    /// When the last request of a delayed call could arrive; `None` if it was not delayed.
    pub(super) fn delayed_until(&self, trace: &Trace) -> Option<Micros> {
        let sent = trace.answered().unwrap_or(trace.died);
        self.delays_of(trace, sent, sent)
            .map(|delay| delay.to)
            .max()
    }

    /// Whether a request of the call may have been delayed until then.
    pub(super) fn may_be_delayed(&self, trace: &Trace, until: Micros) -> bool {
        // A paused call may have claimed before the pause and be refused after it.
        self.delays_of(trace, trace.called, until).next().is_some()
            || self.pauses(trace, trace.called, until).next().is_some()
    }

    /// Whether the end of the body was certainly in the store when the caller got the answer; of a call that settles in the background,
    /// within the deadline after the answer.
    pub(super) fn is_settled(&self, trace: &Trace) -> bool {
        let Some((answered, ended)) = trace.answered().zip(trace.ended) else {
            return false;
        };
        let until = answered + DEADLINE;
        let may_be_lost = || {
            self.was_interrupted(trace, until)
                || self.delays_of(trace, ended, until).next().is_some()
                || self.ended_in_silence(trace)
        };
        let in_background = settles_in_background(trace.call.process);
        !trace.unrecorded && answered - ended < RECORDED_WITHIN && !(in_background && may_be_lost())
    }

    /// Whether the end of the call was sent in the background while the store did not answer its process: another call of the process
    /// was refused. Then the lease may have ended before the store had the end. A busy server is silent without a planned fault.
    pub(super) fn ended_in_silence(&self, trace: &Trace) -> bool {
        let process = self.processes.get(&trace.call.process);
        let silences = process.map_or(&[][..], |process| &process.silences);
        settles_in_background(trace.call.process)
            && trace.answered().is_some_and(|answered| {
                silences
                    .iter()
                    .any(|at| (answered..answered + 2 * DEADLINE).contains(at))
            })
    }

    fn delays_of(&self, trace: &Trace, from: Micros, to: Micros) -> impl Iterator<Item = &Delay> {
        let process = trace.call.process;
        self.delays.iter().filter(move |delay| {
            let its = delay
                .process
                .is_none_or(|delayed_until| delayed_until == process);
            its && delay.from <= to && delay.to >= from
        })
    }

    /// Whether the key was called around a fail-over.
    pub(super) fn spans_a_failover(&self, key: Key, lag: Micros) -> bool {
        let traces = self.keys.get(&key).map_or(&[][..], |traces| traces);
        traces.iter().any(|trace| {
            let end = trace.answered().unwrap_or(trace.died);
            let mut failovers = self.failovers.iter();
            failovers.any(|(from, to)| trace.called <= to + lag && end >= from.saturating_sub(lag))
        })
    }

    pub(super) fn bad_ends(&self) -> impl Iterator<Item = String> {
        self.processes.iter().filter_map(|(number, process)| {
            if process.panicked {
                Some(format!("process {number} panicked"))
            } else if process.killed.is_none() && !process.finished {
                Some(format!(
                    "process {number} ended without a kill and without its last line"
                ))
            } else {
                None
            }
        })
    }

    /// For each killed body: how long it took until another body of the key started, if one did.
    pub(super) fn takeovers(&self) -> Vec<Option<Micros>> {
        let mut takeovers = Vec::new();
        for traces in self.keys() {
            let bodies = traces.iter().filter(|trace| trace.started.is_some());
            let killed = bodies.clone().filter(|trace| trace.ended.is_none());
            for dead in killed.filter(|trace| trace.died != Micros::MAX) {
                let next = bodies.clone().filter_map(|trace| trace.started);
                let next = next.filter(|started| *started >= dead.died).min();
                takeovers.push(next.map(|next| next - dead.died));
            }
        }
        takeovers
    }

    /// The recovery of each process that survived a fail-over.
    pub(super) fn recoveries(&self) -> Vec<Recovery> {
        let mut answers: HashMap<u32, Vec<(Micros, Answer)>> = HashMap::new();
        for trace in self.keys().flatten() {
            answers
                .entry(trace.call.process)
                .or_default()
                .extend(trace.answer);
        }
        let mut recoveries = Vec::new();
        for answers in answers.values() {
            let successes = answers
                .iter()
                .filter(|(_, answer)| *answer == Answer::Success);
            let mut successes: Vec<Micros> = successes.map(|(at, _)| *at).collect();
            successes.sort_unstable();
            for (from, to) in &self.failovers {
                let gaps = successes.windows(2).map(|gap| (gap[0], gap[1]));
                let gaps = gaps.filter(|gap| gap.0 <= *to && gap.1 >= *from);
                let lived = successes.first() < Some(from) && successes.last() > Some(to);
                let refused = answers.iter().filter(|(at, answer)| {
                    *answer == Answer::Unavailable && (*from..to + RECOVERY).contains(at)
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

/// A refusal later than this after a fail-over has another cause.
const RECOVERY: Micros = 3_000_000;

/// The recovery of a process from a fail-over.
#[derive(Debug, Clone, Copy)]
pub struct Recovery {
    /// The longest time between two successes.
    pub gap: Micros,
    /// The time from the kill to the last refused call.
    pub refused: Micros,
}

fn trace(traces: &mut HashMap<Call, Trace>, call: Call, key: Key, at: Micros) -> &mut Trace {
    // Lines of the same microsecond may be in any order, so the trace may not exist yet.
    traces
        .entry(call)
        .or_insert_with(|| Trace::new(call, key, at))
}

impl Process {
    fn resume(&mut self, at: Micros) {
        self.pauses
            .extend(self.stopped.take().map(|from| (from, at)));
    }

    fn kill(&mut self, at: Micros) {
        self.resume(at);
        self.pauses.extend(self.awake.map(|awake| (awake, at)));
        self.killed = Some(at);
    }
}

impl Trace {
    fn new(call: Call, key: Key, called: Micros) -> Self {
        Self {
            call,
            key,
            called,
            started: None,
            ended: None,
            effect: false,
            unrecorded: false,
            answer: None,
            died: Micros::MAX,
        }
    }

    /// When the body ended, by itself or with its process.
    pub(super) fn body_ended(&self) -> Micros {
        self.ended.unwrap_or(self.died)
    }

    pub(super) fn effect(&self) -> Option<Micros> {
        self.ended.filter(|_| self.effect)
    }

    pub(super) fn answered(&self) -> Option<Micros> {
        self.answer.map(|(at, _)| at)
    }
}

impl fmt::Display for Trace {
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
        match self.answer {
            Some((at, answer)) => write!(f, ", answered {answer} {at})"),
            None if self.died != Micros::MAX => write!(f, ", killed {})", self.died),
            None => f.write_str(", not answered)"),
        }
    }
}
