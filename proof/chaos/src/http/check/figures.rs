//! The figures of storms.

use std::fmt;

use super::{Answer, Attempts, Received, Started, Traces};
use crate::history::{HistoryEvent, Key, Line};

/// The figures of one storm, or the sum of several storms.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Clients.
    pub clients: usize,
    /// Keys.
    pub keys: usize,
    /// Keys with several bodies that are not judged, because the store or a process was silent.
    pub not_judged: usize,
    /// Requests sent.
    pub requests: usize,
    /// Requests whose client disconnected in the middle.
    pub disconnected: usize,
    /// Requests whose connection was lost.
    pub lost: usize,
    /// Requests refused with 409.
    pub in_progress: usize,
    /// Requests refused with 503, or whose lease was lost.
    pub unavailable: usize,
    /// Replayed responses.
    pub replays: usize,
    /// Bodies that started.
    pub bodies: usize,
    /// Bodies that had their effect.
    pub effects: usize,
    /// Bodies that were killed before their effect.
    pub killed_bodies: usize,
    /// Services killed.
    pub kills: usize,
    /// Restarts of the store.
    pub restarts: usize,
}

impl Figures {
    /// The figures of a storm.
    pub(super) fn of(lines: &[Line], received: &Received, traces: &Traces) -> Self {
        let answers = received.storm.iter().chain(&received.afterwards);
        let is_replay =
            |answer: &Answer| matches!(answer, Answer::Success(success) if success.is_replay);
        let bodies = traces.bodies.iter();
        let bodies = bodies.flat_map(|(key, bodies)| bodies.iter().map(move |body| (*key, body)));
        let is_killed = |(key, body): &(Key, &Started)| {
            traces.killed.contains_key(&body.call.process)
                && !traces.effects.contains(&(*key, body.call))
        };
        let attempts = |of: fn(&Attempts) -> usize| received.attempts.iter().map(of).sum();
        let restarts = lines
            .iter()
            .filter(|line| line.event == HistoryEvent::ServerUp);
        Self {
            clients: received.attempts.len(),
            keys: traces.bodies.len(),
            not_judged: traces.not_judged.len(),
            requests: attempts(|attempts| attempts.sent),
            disconnected: attempts(|attempts| attempts.disconnected),
            lost: attempts(|attempts| attempts.lost),
            in_progress: attempts(|attempts| attempts.in_progress),
            unavailable: attempts(|attempts| attempts.unavailable),
            replays: answers.filter(|(_, answer)| is_replay(answer)).count(),
            bodies: bodies.clone().count(),
            effects: traces.effects.len(),
            killed_bodies: bodies.filter(is_killed).count(),
            kills: traces.killed.len(),
            restarts: restarts.count(),
        }
    }

    /// Adds the figures of another storm.
    pub fn add(&mut self, other: &Self) {
        for ((_, sum), (_, value)) in self.fields_mut().into_iter().zip(other.fields()) {
            *sum += value;
        }
    }

    /// The names of the figures that are smaller than `minimums`.
    pub fn below(&self, minimums: &Self) -> Vec<&'static str> {
        let fields = self.fields().into_iter().zip(minimums.fields());
        fields
            .filter(|((_, value), (_, minimum))| value < minimum)
            .map(|((name, _), _)| name)
            .collect()
    }

    fn fields(mut self) -> [(&'static str, usize); 14] {
        self.fields_mut().map(|(name, value)| (name, *value))
    }

    fn fields_mut(&mut self) -> [(&'static str, &mut usize); 14] {
        [
            ("clients", &mut self.clients),
            ("keys", &mut self.keys),
            ("keys not judged after a silence", &mut self.not_judged),
            ("requests", &mut self.requests),
            (
                "clients that disconnected in the middle",
                &mut self.disconnected,
            ),
            ("connections lost", &mut self.lost),
            ("409, in flight", &mut self.in_progress),
            ("503 or lost lease", &mut self.unavailable),
            ("replays", &mut self.replays),
            ("bodies started", &mut self.bodies),
            ("effects", &mut self.effects),
            ("bodies killed before their effect", &mut self.killed_bodies),
            ("services killed", &mut self.kills),
            ("restarts of Redis", &mut self.restarts),
        ]
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.fields() {
            writeln!(f, "| {name} | {value} |")?;
        }
        Ok(())
    }
}
