//! How much happened, and whether that is enough to prove anything.

use std::fmt;

use super::is_certain;
pub use super::story::Recovery;
use super::story::Story;
use crate::history::{Line, Micros, Told, What};

/// How much happened in a run, or in several together.
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
    /// Callers told of a success that stood in the store by then.
    pub certain: usize,
    /// Callers told of a success that may not have stood in the store yet.
    pub uncertain: usize,
    /// Callers given another call's result.
    pub replays: usize,
    /// Callers told of another call.
    pub duplicates: usize,
    /// Bodies stopped because the lease was lost.
    pub lost_leases: usize,
    /// Calls refused because the store was away.
    pub unavailable: usize,
    /// Calls dropped by their callers.
    pub dropped_calls: usize,
    /// Workers killed.
    pub kills: usize,
    /// Workers stopped in their tracks.
    pub stops: usize,
    /// Pauses that the machine made.
    pub starved: usize,
    /// Times the server was killed or stopped.
    pub server_away: usize,
    /// Replies thrown away.
    pub dropped_replies: usize,
    /// Requests held back.
    pub delayed_requests: usize,
    /// Times the server forgot its scripts.
    pub flushes: usize,
    /// Bodies that were killed.
    pub killed_bodies: usize,
    /// How long each key of those was blocked that another call took over.
    pub takeovers: Vec<Micros>,
    /// Bodies that met another because a process did not run.
    pub overlaps_of_the_paused: usize,
    /// Effects beside another of a key whose success is kept, because a process was killed before it
    /// could record the first one, or did not run, or was cut off for as long as its lease.
    pub second_effects: usize,
    /// How long each fail-over took.
    pub failovers: Vec<Micros>,
    /// What each worker saw of a fail-over that lived through it.
    pub recoveries: Vec<Recovery>,
    /// What fail-overs lost.
    pub lost_at_failovers: usize,
}

/// What a run must have had at least to count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Floors {
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
    /// [`Figures::server_away`]
    pub server_away: usize,
    /// [`Figures::dropped_replies`]
    pub dropped_replies: usize,
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
    pub(super) fn of(story: &Story, lines: &[Line]) -> Self {
        let count = |is: fn(&What) -> bool| lines.iter().filter(|line| is(&line.what)).count();
        let takeovers = story.takeovers();
        let mut figures = Self {
            keys: story.keys().count(),
            kills: count(|what| matches!(what, What::Killed(_))),
            stops: count(|what| matches!(what, What::Stopped(_))),
            starved: count(|what| matches!(what, What::Starved(..))),
            server_away: count(|what| matches!(what, What::ServerAway)),
            dropped_replies: count(|what| matches!(what, What::ReplyDropped)),
            delayed_requests: count(|what| matches!(what, What::Delayed(..))),
            flushes: count(|what| matches!(what, What::ScriptsFlushed)),
            killed_bodies: takeovers.len(),
            takeovers: takeovers.into_iter().flatten().collect(),
            failovers: story.failovers.iter().map(|(from, to)| to - from).collect(),
            recoveries: story.recoveries(),
            ..Self::default()
        };
        for deed in story.keys().flatten() {
            figures.calls += 1;
            figures.bodies += usize::from(deed.started.is_some());
            figures.effects += usize::from(deed.effect().is_some());
            let Some((_, told)) = deed.told else {
                continue;
            };
            *match told {
                Told::Success if is_certain(deed) => &mut figures.certain,
                Told::Success => &mut figures.uncertain,
                Told::Replay(_) => &mut figures.replays,
                Told::InProgress | Told::Done => &mut figures.duplicates,
                Told::Lost => &mut figures.lost_leases,
                Told::Unavailable => &mut figures.unavailable,
                Told::GaveUp => &mut figures.dropped_calls,
                Told::Failed | Told::Trouble => continue,
            } += 1;
        }
        figures
    }

    /// Adds those of another run.
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
        self.server_away += other.server_away;
        self.dropped_replies += other.dropped_replies;
        self.delayed_requests += other.delayed_requests;
        self.flushes += other.flushes;
        self.killed_bodies += other.killed_bodies;
        self.takeovers.append(&mut other.takeovers);
        self.overlaps_of_the_paused += other.overlaps_of_the_paused;
        self.second_effects += other.second_effects;
        self.failovers.append(&mut other.failovers);
        self.recoveries.append(&mut other.recoveries);
        self.lost_at_failovers += other.lost_at_failovers;
    }

    /// What there was too little of.
    pub fn below(&self, floors: &Floors) -> Vec<String> {
        [
            ("calls", self.calls, floors.calls),
            ("keys", self.keys, floors.keys),
            ("certain successes", self.certain, floors.certain),
            ("kills", self.kills, floors.kills),
            ("stops", self.stops, floors.stops),
            (
                "absences of the server",
                self.server_away,
                floors.server_away,
            ),
            (
                "dropped replies",
                self.dropped_replies,
                floors.dropped_replies,
            ),
            (
                "delayed requests",
                self.delayed_requests,
                floors.delayed_requests,
            ),
            ("takeovers", self.takeovers.len(), floors.takeovers),
            ("fail-overs", self.failovers.len(), floors.failovers),
            (
                "recoveries after one without a restart",
                self.recoveries.len(),
                floors.recoveries,
            ),
        ]
        .into_iter()
        .filter(|(_, had, floor)| had < floor)
        .map(|(what, had, floor)| format!("{had} {what}, of at least {floor}"))
        .collect()
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
        for (what, figure) in [
            ("calls", self.calls.to_string()),
            ("keys", self.keys.to_string()),
            ("bodies started", self.bodies.to_string()),
            ("effects", self.effects.to_string()),
            ("told success, certainly recorded", self.certain.to_string()),
            (
                "told success, perhaps not recorded",
                self.uncertain.to_string(),
            ),
            ("replays", self.replays.to_string()),
            ("told of another call", self.duplicates.to_string()),
            ("leases lost", self.lost_leases.to_string()),
            ("refused, store away", self.unavailable.to_string()),
            ("dropped by the caller", self.dropped_calls.to_string()),
            ("workers killed", self.kills.to_string()),
            ("workers stopped", self.stops.to_string()),
            ("pauses made by the machine", self.starved.to_string()),
            ("server killed or stopped", self.server_away.to_string()),
            ("replies dropped", self.dropped_replies.to_string()),
            ("requests delayed", self.delayed_requests.to_string()),
            ("scripts flushed", self.flushes.to_string()),
            ("bodies killed", self.killed_bodies.to_string()),
            (
                "keys taken over after that",
                self.takeovers.len().to_string(),
            ),
            (
                "blocked till then, median / longest",
                median(&self.takeovers),
            ),
            (
                "bodies that met another in a pause",
                self.overlaps_of_the_paused.to_string(),
            ),
            (
                "second effects, after a kill, a pause or a cut",
                self.second_effects.to_string(),
            ),
            ("fail-overs", self.failovers.len().to_string()),
            ("fail-over took, median / longest", median(&self.failovers)),
            (
                "lived through by workers",
                self.recoveries.len().to_string(),
            ),
            ("no success for, median / longest", median(&gaps)),
            (
                "last call refused after, median / longest",
                median(&refused),
            ),
            ("broken by a fail-over", self.lost_at_failovers.to_string()),
        ] {
            writeln!(f, "| {what} | {figure} |")?;
        }
        Ok(())
    }
}
