//! The figures of a run, and whether they are large enough to prove anything.

use std::collections::BTreeMap;
use std::fmt;

pub use super::timeline::Recovery;
use super::timeline::Timeline;
use crate::history::{Answer, Batches, HistoryEvent, Line, Micros};

/// The figures of one run, or the sum of several runs.
#[derive(Debug, Default, Clone)]
pub struct Figures {
    /// Calls made.
    pub calls: usize,
    /// Keys called.
    pub keys: usize,
    /// Bodies that started.
    pub bodies: usize,
    /// Bodies that had their effect.
    pub effects: usize,
    /// Successes that were certainly in the store when the caller got them.
    pub certain: usize,
    /// Successes that may not have been in the store when the caller got them.
    pub uncertain: usize,
    /// Replayed results.
    pub replays: usize,
    /// Calls refused as duplicates.
    pub duplicates: usize,
    /// Bodies stopped because the lease was lost.
    pub lost_leases: usize,
    /// Calls refused because the store was unavailable.
    pub unavailable: usize,
    /// Calls dropped by their callers.
    pub dropped_calls: usize,
    /// Workers killed.
    pub kills: usize,
    /// Workers paused.
    pub stops: usize,
    /// Pauses caused by the busy machine.
    pub starved: usize,
    /// Kills and pauses of the server.
    pub server_down: usize,
    /// The batches of all workers.
    pub batches: Batches,
    /// Dropped replies.
    pub dropped_replies: usize,
    /// How often connections were cut: in the middle of a reply or a request, or by the server.
    pub cuts: usize,
    /// Delayed requests.
    pub delayed_requests: usize,
    /// Flushes of the scripts of the server.
    pub flushes: usize,
    /// Bodies that were killed.
    pub killed_bodies: usize,
    /// How long each key of a killed body was blocked until another call took over.
    pub takeovers: Vec<Micros>,
    /// Overlaps of bodies because a process was paused.
    pub overlaps_after_pauses: usize,
    /// Second effects of a key, because a process was killed before it could record the first effect, or
    /// was paused, or was cut off for its whole lease.
    pub second_effects: usize,
    /// How long each fail-over took.
    pub failovers: Vec<Micros>,
    /// The recovery of each worker that survived a fail-over.
    pub recoveries: Vec<Recovery>,
    /// Broken rules that a fail-over excuses.
    pub lost_in_failovers: usize,
}

/// The minimum figures of a run that counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Minimums {
    /// [`Figures::calls`]
    pub calls: usize,
    /// [`Figures::keys`]
    pub keys: usize,
    /// [`Figures::certain`]
    pub certain: usize,
    /// [`Figures::kills`]
    pub kills: usize,
    /// [`Figures::stops`]
    pub stops: usize,
    /// [`Figures::server_down`]
    pub server_down: usize,
    /// [`Batches::sent`]
    pub batches: usize,
    /// [`Batches::broken`]
    pub broken_batches: usize,
    /// [`Figures::dropped_replies`]
    pub dropped_replies: usize,
    /// [`Figures::cuts`]
    pub cuts: usize,
    /// [`Figures::delayed_requests`]
    pub delayed_requests: usize,
    /// [`Figures::takeovers`]
    pub takeovers: usize,
    /// [`Figures::failovers`]
    pub failovers: usize,
    /// [`Figures::recoveries`]
    pub recoveries: usize,
}

impl Figures {
    pub(super) fn of(timeline: &Timeline, lines: &[Line]) -> Self {
        let count =
            |is: fn(&HistoryEvent) -> bool| lines.iter().filter(|line| is(&line.event)).count();
        let takeovers = timeline.takeovers();
        let mut figures = Self {
            keys: timeline.keys().count(),
            kills: count(|event| matches!(event, HistoryEvent::Killed(_))),
            stops: count(|event| matches!(event, HistoryEvent::Stopped(_))),
            starved: count(|event| matches!(event, HistoryEvent::Starved(..))),
            server_down: count(|event| matches!(event, HistoryEvent::ServerDown)),
            batches: batches(lines),
            dropped_replies: count(|event| matches!(event, HistoryEvent::ReplyDropped)),
            cuts: count(|event| {
                matches!(
                    event,
                    HistoryEvent::ReplyCut | HistoryEvent::RequestCut | HistoryEvent::ClientsCut
                )
            }),
            delayed_requests: count(|event| matches!(event, HistoryEvent::Delayed(..))),
            flushes: count(|event| matches!(event, HistoryEvent::ScriptsFlushed)),
            killed_bodies: takeovers.len(),
            takeovers: takeovers.into_iter().flatten().collect(),
            failovers: timeline
                .failovers
                .iter()
                .map(|(from, to)| to - from)
                .collect(),
            recoveries: timeline.recoveries(),
            ..Self::default()
        };
        for trace in timeline.keys().flatten() {
            figures.calls += 1;
            figures.bodies += usize::from(trace.started.is_some());
            figures.effects += usize::from(trace.effect().is_some());
            let Some((_, answer)) = trace.answer else {
                continue;
            };
            *match answer {
                Answer::Success if timeline.is_settled(trace) => &mut figures.certain,
                Answer::Success => &mut figures.uncertain,
                Answer::Replay(_) => &mut figures.replays,
                Answer::InProgress | Answer::Done => &mut figures.duplicates,
                Answer::LeaseLost => &mut figures.lost_leases,
                Answer::Unavailable => &mut figures.unavailable,
                Answer::GaveUp => &mut figures.dropped_calls,
                Answer::Failed | Answer::Unexpected => continue,
            } += 1;
        }
        figures
    }

    /// Adds the figures of another run.
    pub fn add(&mut self, mut other: Self) {
        self.calls += other.calls;
        self.keys += other.keys;
        self.bodies += other.bodies;
        self.effects += other.effects;
        self.certain += other.certain;
        self.uncertain += other.uncertain;
        self.replays += other.replays;
        self.duplicates += other.duplicates;
        self.lost_leases += other.lost_leases;
        self.unavailable += other.unavailable;
        self.dropped_calls += other.dropped_calls;
        self.kills += other.kills;
        self.stops += other.stops;
        self.starved += other.starved;
        self.server_down += other.server_down;
        self.batches.add(other.batches);
        self.dropped_replies += other.dropped_replies;
        self.cuts += other.cuts;
        self.delayed_requests += other.delayed_requests;
        self.flushes += other.flushes;
        self.killed_bodies += other.killed_bodies;
        self.takeovers.append(&mut other.takeovers);
        self.overlaps_after_pauses += other.overlaps_after_pauses;
        self.second_effects += other.second_effects;
        self.failovers.append(&mut other.failovers);
        self.recoveries.append(&mut other.recoveries);
        self.lost_in_failovers += other.lost_in_failovers;
    }

    /// The figures below their minimum, and the overlaps after pauses if they are too many: also a mistake that blocks its process pauses
    /// it.
    pub fn below(&self, minimums: &Minimums) -> Vec<String> {
        let (overlaps, bodies) = (self.overlaps_after_pauses, self.bodies);
        let too_many = (overlaps * 10 > bodies)
            .then(|| format!("{overlaps} overlaps after pauses of {bodies} bodies, but at most a tenth proves anything"));
        [
            ("calls", self.calls, minimums.calls),
            ("keys", self.keys, minimums.keys),
            ("certain successes", self.certain, minimums.certain),
            ("kills", self.kills, minimums.kills),
            ("stops", self.stops, minimums.stops),
            (
                "kills and pauses of the server",
                self.server_down,
                minimums.server_down,
            ),
            ("batches", self.batches.sent, minimums.batches),
            (
                "broken batches",
                self.batches.broken,
                minimums.broken_batches,
            ),
            (
                "dropped replies",
                self.dropped_replies,
                minimums.dropped_replies,
            ),
            ("cuts", self.cuts, minimums.cuts),
            (
                "delayed requests",
                self.delayed_requests,
                minimums.delayed_requests,
            ),
            ("takeovers", self.takeovers.len(), minimums.takeovers),
            ("fail-overs", self.failovers.len(), minimums.failovers),
            (
                "recoveries after one without a restart",
                self.recoveries.len(),
                minimums.recoveries,
            ),
        ]
        .into_iter()
        .filter(|(_, had, minimum)| had < minimum)
        .map(|(what, had, minimum)| format!("{had} {what}, but at least {minimum} are needed"))
        .chain(too_many)
        .collect()
    }
}

/// The batches of all processes. The last line of a process is their sum.
fn batches(lines: &[Line]) -> Batches {
    let mut last = BTreeMap::new();
    let mut sorted: Vec<_> = lines.iter().collect();
    sorted.sort_by_key(|line| line.at);
    for line in sorted {
        if let HistoryEvent::Batches(process, batches) = line.event {
            last.insert(process, batches);
        }
    }
    let mut sum = Batches::default();
    for batches in last.into_values() {
        sum.add(batches);
    }
    sum
}

impl Batches {
    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.operations += other.operations;
        self.broken += other.broken;
    }
}

impl fmt::Display for Figures {
    /// Rows of a table, in Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = |times: &[Micros]| {
            let mut times = times.to_vec();
            times.sort_unstable();
            let of = |at: usize| times.get(at).map_or(0, |micros| micros / 1000);
            format!(
                "{} / {} ms",
                of(times.len() / 2),
                of(times.len().saturating_sub(1))
            )
        };
        let gaps: Vec<_> = self.recoveries.iter().map(|seen| seen.gap).collect();
        let refused: Vec<_> = self.recoveries.iter().map(|seen| seen.refused).collect();
        for (event, figure) in [
            ("calls", self.calls.to_string()),
            ("keys", self.keys.to_string()),
            ("bodies started", self.bodies.to_string()),
            ("effects", self.effects.to_string()),
            ("success, certainly recorded", self.certain.to_string()),
            ("success, possibly not recorded", self.uncertain.to_string()),
            ("replays", self.replays.to_string()),
            ("refused as duplicates", self.duplicates.to_string()),
            ("leases lost", self.lost_leases.to_string()),
            ("refused, store unavailable", self.unavailable.to_string()),
            ("dropped by the caller", self.dropped_calls.to_string()),
            ("workers killed", self.kills.to_string()),
            ("workers paused", self.stops.to_string()),
            ("pauses caused by the machine", self.starved.to_string()),
            ("server killed or paused", self.server_down.to_string()),
            ("batches", self.batches.sent.to_string()),
            ("operations in batches", self.batches.operations.to_string()),
            ("batches broken", self.batches.broken.to_string()),
            ("replies dropped", self.dropped_replies.to_string()),
            ("connections cut", self.cuts.to_string()),
            ("requests delayed", self.delayed_requests.to_string()),
            ("scripts flushed", self.flushes.to_string()),
            ("bodies killed", self.killed_bodies.to_string()),
            (
                "keys taken over after that",
                self.takeovers.len().to_string(),
            ),
            (
                "blocked until then, median / longest",
                median(&self.takeovers),
            ),
            (
                "overlaps after a pause",
                self.overlaps_after_pauses.to_string(),
            ),
            (
                "second effects, after a kill, a pause or a cut",
                self.second_effects.to_string(),
            ),
            ("fail-overs", self.failovers.len().to_string()),
            ("fail-over took, median / longest", median(&self.failovers)),
            ("survived by workers", self.recoveries.len().to_string()),
            ("no success for, median / longest", median(&gaps)),
            (
                "last call refused after, median / longest",
                median(&refused),
            ),
            ("lost in a fail-over", self.lost_in_failovers.to_string()),
        ] {
            writeln!(f, "| {event} | {figure} |")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_which_pauses_excused_too_much_does_not_count() {
        let below = |overlaps_after_pauses| {
            let figures = Figures {
                bodies: 40,
                overlaps_after_pauses,
                ..Figures::default()
            };
            figures.below(&Minimums::default()).len()
        };
        assert_eq!((below(4), below(5)), (0, 1));
    }
}
