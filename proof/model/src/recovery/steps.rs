//! The possible steps in a state.

use super::config::Config;
use super::rules::{Event, Rule};
use super::state::{Phase, STEPS, State};
use crate::search::{Steps, of_module};

/// One step. Runs are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A run claims the key.
    Claim(u8),
    /// A run goes on: it reads the record, begins or ends a step, looks at the key, takes its record back, or ends.
    Go(u8),
    /// A run records its step, and is answered.
    Record(u8),
    /// The record is stored, and the answer is lost.
    LoseReply(u8),
    /// The record gets no answer, and is on its way.
    SendLate(u8),
    /// A record that is on its way is stored, if there is none.
    Arrive(usize),
    /// A run that has lost its lease no longer waits for an answer.
    GiveUp(u8),
    /// A body drops the step whose record is sent, and goes on.
    DropStep(u8),
    /// A body succeeds.
    Succeed(u8),
    /// A body fails.
    Fail(u8),
    /// A process dies, or a call is dropped.
    Crash(u8),
    /// All clocks advance by a tick. The leases are renewed, except the lease of this run.
    Tick {
        /// The run whose renewal is late.
        late: Option<u8>,
    },
}

impl Steps for Config {
    of_module!();

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let faults = state.faults;
        for id in state.ids() {
            let run = state.run(id);
            match run.phase {
                // Runs are equal, so they begin in their order.
                Phase::NotStarted => {
                    if id == 0 || state.run(id - 1).phase != Phase::NotStarted {
                        actions.push(Action::Claim(id));
                    }
                    continue;
                }
                Phase::Ended => continue,
                Phase::Between => {
                    let is_last = usize::from(run.step) == STEPS;
                    if is_last || faults.short > 0 {
                        actions.push(Action::Succeed(id));
                    }
                    if faults.failures > 0 {
                        actions.push(Action::Fail(id));
                    }
                    if !is_last {
                        actions.push(Action::Go(id));
                    }
                }
                Phase::Recording => {
                    actions.push(Action::Record(id));
                    if faults.replies > 0 {
                        actions.push(Action::LoseReply(id));
                    }
                    if faults.late > 0 && run.last.is_none() && !run.is_lost() {
                        actions.push(Action::SendLate(id));
                    }
                    if !run.unanswered.is_empty() && run.is_lost() {
                        actions.push(Action::GiveUp(id));
                    }
                    if !run.unanswered.is_empty() && faults.drops > 0 {
                        actions.push(Action::DropStep(id));
                    }
                }
                _ => actions.push(Action::Go(id)),
            }
            if faults.crashes > 0 {
                actions.push(Action::Crash(id));
            }
            if faults.pauses > 0 && state.has_key(id) && !run.is_lost() {
                actions.push(Action::Tick { late: Some(id) });
            }
        }
        actions.extend((0..state.late.len()).map(Action::Arrive));
        actions.push(Action::Tick { late: None });
    }

    fn step(&self, state: &mut State, action: Action) -> bool {
        match action {
            Action::Claim(id) => return self.claim(state, id),
            Action::Go(id) => self.go(state, id),
            Action::Record(id) => self.record(state, id),
            Action::LoseReply(id) => self.lose_reply(state, id),
            Action::SendLate(id) => {
                state.faults.late -= 1;
                let run = state.run_mut(id);
                let record = run.next_record(id);
                run.unanswered.push(record);
                run.may_come_late = true;
                state.late.push((record, self.lease));
            }
            Action::Arrive(at) => {
                let (record, _) = state.late.remove(at);
                if state.record.is_none() {
                    self.store(state, record);
                    state.note(Event::CameLate);
                }
            }
            Action::GiveUp(id) => state.run_mut(id).phase = Phase::Failing,
            Action::DropStep(id) => {
                state.faults.drops -= 1;
                let run = state.run_mut(id);
                (run.phase, run.step) = (Phase::Between, run.step + 1);
            }
            Action::Succeed(id) => {
                let run = state.run_mut(id);
                if usize::from(run.step) < STEPS {
                    state.faults.short -= 1;
                }
                self.succeed(state, id);
            }
            Action::Fail(id) => {
                state.faults.failures -= 1;
                state.run_mut(id).phase = Phase::Failing;
            }
            Action::Crash(id) => {
                state.faults.crashes -= 1;
                state.end(id);
            }
            Action::Tick { late } => self.tick(state, late),
        }
        true
    }
}

impl Config {
    fn tick(&self, state: &mut State, late: Option<u8>) {
        if late.is_some() {
            state.faults.pauses -= 1;
        }
        for id in state.ids() {
            let holds = state.has_key(id);
            let run = state.run_mut(id);
            if !run.is_alive() {
                continue;
            }
            let is_renewed = holds && late != Some(id) && !run.is_lost();
            if is_renewed {
                run.lease = self.lease;
            } else if run.is_lost() {
                run.lost_for = self.ttl.min(run.lost_for + 1);
            } else {
                run.lease = run.lease.saturating_sub(1);
            }
            if is_renewed && let Some(key) = &mut state.key {
                key.remaining = self.lease + 2;
            }
        }
        if let Some(key) = &mut state.key {
            key.remaining -= 1;
        }
        state.key = state.key.filter(|key| key.remaining > 0);
        if let Some(stored) = &mut state.record {
            stored.remaining -= 1;
        }
        let before = state.record;
        state.record = state.record.filter(|stored| stored.remaining > 0);
        if before.is_some() && state.record.is_none() {
            state.forget_known();
        }
        // A request comes within a lease.
        for (_, remaining) in &mut state.late {
            *remaining -= 1;
        }
        state.late.retain(|(_, remaining)| *remaining > 0);
    }
}
