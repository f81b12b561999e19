//! Incidents: what happens to processes, to the store and to its clock, and not to a single message.

use std::task::Waker;

use super::dice::Dice;
use super::history::{Kind, RemovalCause};
use super::net::{Inside, KEYS, Net, Next};
use super::tokens::TOKENS;

/// A fault that affects more than one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Incident {
    /// The process dies, and another process replaces it.
    Crash {
        slot: usize,
        down_for: u64,
    },
    Pause {
        slot: usize,
        lasts: u64,
    },
    /// The store is unavailable: requests are lost, refused, or wait.
    Outage {
        lasts: u64,
        how: Outage,
    },
    Full {
        lasts: u64,
    },
    /// The store loses one record.
    Evict {
        key: usize,
    },
    ForgetAll,
    /// The store's clock jumps.
    Step {
        by: i64,
    },
    /// The runtime of the tasks that send batches ends. The calls go on.
    TasksEnd,
    /// An operator frees a key.
    Free {
        key: usize,
        slot: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    Loses,
    Refuses,
    Delays,
}

impl Incident {
    pub(super) fn drawn(
        dice: &mut Dice,
        undisturbed: bool,
        slots: usize,
        keys: usize,
        lasts: u64,
        lease: u64,
    ) -> Vec<(u64, Self)> {
        let mut incidents = Vec::new();
        let end = lasts + lease;
        let slot = |dice: &mut Dice| dice.pick(&[0, 1, 2]) % slots;
        let key = |dice: &mut Dice| dice.pick(&[0, 1]) % keys;
        if dice.chance(250) {
            for _ in 0..dice.within(1, 2) {
                let (slot, down_for) = (slot(dice), dice.within(0, lease));
                incidents.push((dice.within(0, end), Self::Crash { slot, down_for }));
            }
        }
        if dice.chance(100) {
            let (key, slot) = (key(dice), slot(dice));
            incidents.push((dice.within(0, end), Self::Free { key, slot }));
        }
        if undisturbed {
            return incidents;
        }
        if dice.chance(300) {
            let (slot, lasts) = (slot(dice), dice.within(1, 3 * lease));
            incidents.push((dice.within(0, end), Self::Pause { slot, lasts }));
        }
        if dice.chance(300) {
            let lasts = dice.within(1, 3 * lease);
            let how = dice.pick(&[Outage::Loses, Outage::Refuses, Outage::Delays]);
            incidents.push((dice.within(0, end), Self::Outage { lasts, how }));
        }
        if dice.chance(150) {
            let lasts = dice.within(1, 3 * lease);
            incidents.push((dice.within(0, end), Self::Full { lasts }));
        }
        if dice.chance(150) {
            incidents.push(match dice.within(0, 3) {
                0 => (dice.within(0, end), Self::ForgetAll),
                1 => {
                    let by = i64::try_from(dice.within(1, 3 * lease)).unwrap_or_default();
                    let by = if dice.chance(500) { by } else { -by };
                    (dice.within(0, end), Self::Step { by })
                }
                _ => (dice.within(0, end), Self::Evict { key: key(dice) }),
            });
        }
        incidents
    }
}

impl Inside {
    pub(super) fn apply_incident(&mut self, now: u64, incident: Incident) {
        match incident {
            // `run` does these, because it has the handles.
            Incident::Crash { .. }
            | Incident::Pause { .. }
            | Incident::Free { .. }
            | Incident::TasksEnd => {}
            Incident::Outage { lasts, how } => {
                self.note(now, None, Kind::StoreFault("the store is unavailable"));
                self.outage = Some((now + lasts, how));
                self.plan(now + lasts, Next::OutageEnds);
            }
            Incident::Full { lasts } => {
                self.note(now, None, Kind::StoreFault("the store is full"));
                self.server.full = true;
                self.plan(now + lasts, Next::HasRoom);
            }
            Incident::Evict { key } => {
                self.server
                    .lose(key, now, RemovalCause::Forgotten, &mut self.log);
            }
            Incident::ForgetAll => {
                for key in 0..KEYS + TOKENS {
                    self.server
                        .lose(key, now, RemovalCause::Forgotten, &mut self.log);
                }
            }
            Incident::Step { by } => {
                self.note(now, None, Kind::StoreFault("the store's clock jumps"));
                self.server.step(by, now, &mut self.log);
            }
        }
        self.note_log();
    }
}

/// Incidents of processes.
impl Net {
    /// Ends a process: its messages in flight still arrive, but no later message.
    pub(super) fn crash(&self, process: usize) {
        let mut inside = self.inside();
        inside.note(self.now(), None, Kind::Crashed { process });
        let crashed = &mut inside.processes[process];
        crashed.crashed = true;
        let (held_up, tasks) = (
            std::mem::take(&mut crashed.held_up),
            std::mem::take(&mut crashed.tasks),
        );
        drop(inside);
        drop(held_up);
        tasks.into_values().for_each(Waker::wake);
    }

    /// Stops polling the calls of a process for a while.
    pub(super) fn pause(&self, process: usize, lasts: u64) {
        let now = self.now();
        let mut inside = self.inside();
        if inside.processes[process].paused || inside.processes[process].crashed {
            return;
        }
        inside.note(now, None, Kind::Paused { process });
        inside.processes[process].paused = true;
        inside.plan(now + lasts, Next::Resume(process));
        drop(inside);
        self.changed.notify_one();
    }
}
