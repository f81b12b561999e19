//! What a run does, as `protocol::step` does it.

use super::config::{Config, Variant};
use super::rules::{Event, Rule};
use super::state::{Holder, Phase, Record, State, Stored};

impl Config {
    /// Returns whether the key was free.
    pub(super) fn claim(&self, state: &mut State, id: u8) -> bool {
        if state.key.is_some() {
            return false;
        }
        let took_over = state
            .ids()
            .any(|other| other < id && state.run(other).is_alive());
        if took_over {
            state.note(Event::TookOver);
        }
        state.key = Some(Holder {
            by: Some(id),
            remaining: self.lease + 1,
        });
        let (began, known) = (state.successes, state.known);
        if began > 0 {
            state.note(Event::BeganAgain);
        }
        let run = state.run_mut(id);
        (run.phase, run.lease) = (Phase::Reading, self.lease);
        (run.began, run.known) = (began, known);
        true
    }

    pub(super) fn go(&self, state: &mut State, id: u8) {
        match state.run(id).phase {
            Phase::Reading => self.read(state, id),
            Phase::Between => Self::begin_step(state, id),
            Phase::Running => self.end_step(state, id),
            Phase::Checking => self.check(state, id),
            Phase::TakingBack => {
                let own = state.run_mut(id).last.take();
                if state.record.map(|stored| stored.record) == own {
                    state.record = None;
                    // A run that was lost for longer than its ttl may take back what it has recorded since.
                    if state.run(id).lost_for >= self.ttl {
                        state.forget_known();
                    }
                }
                state.note(Event::TakenBack);
                let run = state.run_mut(id);
                (run.is_unchecked, run.phase) = (false, Phase::Failing);
            }
            Phase::Succeeding => self.end_with_success(state, id),
            Phase::Failing => {
                if state.has_key(id) {
                    state.key = None;
                }
                state.run_mut(id).phase = Phase::Removing;
                if !self.is(Variant::RemovesAfterError) {
                    state.end(id);
                }
            }
            Phase::Removing => self.remove(state, id),
            Phase::NotStarted | Phase::Recording | Phase::Ended => {}
        }
    }

    fn read(&self, state: &mut State, id: u8) {
        state.run_mut(id).phase = Phase::Between;
        if self.is(Variant::NeverReads) {
            return;
        }
        let Some(Stored { record, .. }) = state.record else {
            return;
        };
        let is_excused = state.run(record.by).is_unchecked;
        let began = state.run(id).began;
        let is_old = |era: &Option<u8>| era.is_some_and(|era| era < began);
        if record.done.iter().any(is_old) {
            state.report_broken(Rule::NoneSkippedInTheWindow);
            if !is_excused {
                state.report_broken(Rule::NoneSkipped);
            }
        }
        let run = state.run_mut(id);
        run.last = Some(record);
        run.done = record.done.map(|era| era.map(|_| began));
    }

    fn begin_step(state: &mut State, id: u8) {
        let run = state.run(id);
        let step = usize::from(run.step);
        if run.done[step].is_some() {
            state.run_mut(id).step += 1;
            return state.note(Event::Skipped);
        }
        if run.known[step] && state.known[step] {
            state.report_broken(Rule::NoneTwice);
        }
        state.run_mut(id).phase = Phase::Running;
    }

    fn end_step(&self, state: &mut State, id: u8) {
        let run = state.run_mut(id);
        run.is_first = run.last.is_none();
        let is_too_late = self.is_too_late(state, id);
        state.run_mut(id).phase = if is_too_late {
            state.note(Event::Overtaken);
            Phase::Failing
        } else {
            Phase::Recording
        };
    }

    /// Whether another run may have succeeded since the lease was lost.
    fn is_too_late(&self, state: &State, id: u8) -> bool {
        let run = state.run(id);
        if !run.is_lost() || self.is(Variant::RecordsUnchecked) {
            return false;
        }
        let is_old = run.lost_for >= self.ttl && !self.is(Variant::TrustsOldRuns);
        match state.key {
            Some(Holder { by: None, .. }) => true,
            None => run.is_first || is_old,
            Some(Holder { by: Some(by), .. }) => by != id && is_old,
        }
    }

    /// The store gets the record of a step.
    pub(super) fn record(&self, state: &mut State, id: u8) {
        let run = state.run(id);
        let record = run.next_record(id);
        let stored = state.record.map(|stored| stored.record);
        if stored == run.last || stored == Some(record) {
            self.store(state, record);
            return Self::recorded(state, id, record);
        }
        match stored {
            Some(found) if state.run(id).unanswered.contains(&found) && !self.forgets() => {
                let run = state.run_mut(id);
                (run.last, run.done) = (Some(found), found.done);
                run.unanswered.clear();
                state.note(Event::Adopted);
            }
            Some(_) if self.is(Variant::ReplacesOthers) => {
                self.store(state, record);
                Self::recorded(state, id, record);
            }
            Some(_) if self.is(Variant::BelievesRefused) => {
                check_recorder(state, id);
                Self::finish(state, id);
            }
            None if state.has_key(id) => state.run_mut(id).last = None,
            _ => {
                if stored.is_some_and(|found| found.by == id) {
                    state.report_broken(Rule::NotRefusedForItself);
                }
                state.note(Event::Overtaken);
                state.run_mut(id).phase = Phase::Failing;
            }
        }
    }

    fn forgets(&self) -> bool {
        self.is(Variant::ForgetsUnanswered)
    }

    pub(super) fn lose_reply(&self, state: &mut State, id: u8) {
        state.faults.replies -= 1;
        let run = state.run(id);
        let record = run.next_record(id);
        let (is_first, is_lost) = (run.last.is_none(), run.is_lost());
        let stored = state.record.map(|stored| stored.record);
        if stored == run.last || stored == Some(record) {
            self.store(state, record);
            state.run_mut(id).is_unchecked |= is_lost;
        }
        let run = state.run_mut(id);
        run.unanswered.push(record);
        run.may_come_late |= is_first;
    }

    pub(super) fn store(&self, state: &mut State, record: Record) {
        let longer = if self.is(Variant::LivesLonger) { 2 } else { 0 };
        state.record = Some(Stored {
            record,
            remaining: self.ttl + longer,
        });
    }

    fn recorded(state: &mut State, id: u8, record: Record) {
        check_recorder(state, id);
        let run = state.run_mut(id);
        run.unanswered.clear();
        (run.last, run.done) = (Some(record), record.done);
        if !run.is_lost() {
            return Self::finish(state, id);
        }
        run.is_unchecked = true;
        run.phase = Phase::Checking;
    }

    fn check(&self, state: &mut State, id: u8) {
        let is_too_late = self.is_too_late(state, id) && !self.is(Variant::ChecksOnlyBefore);
        if is_too_late {
            state.run_mut(id).phase = Phase::TakingBack;
        } else {
            state.run_mut(id).is_unchecked = false;
            Self::finish(state, id);
        }
    }

    /// A run learns that its step is recorded.
    fn finish(state: &mut State, id: u8) {
        let step = usize::from(state.run(id).step);
        let began = state.run(id).began;
        // The record may have expired since it was stored.
        let is_stored = |stored: Stored| stored.record.done[step].is_some();
        state.known[step] = began == state.successes && state.record.is_some_and(is_stored);
        let run = state.run_mut(id);
        (run.phase, run.step) = (Phase::Between, run.step + 1);
    }

    pub(super) fn succeed(&self, state: &mut State, id: u8) {
        state.run_mut(id).phase = if self.is(Variant::RemovesBeforeSuccess) {
            Phase::Removing
        } else {
            Phase::Succeeding
        };
    }

    fn end_with_success(&self, state: &mut State, id: u8) {
        // A success is also stored when the claim has expired.
        if state.key.is_some() && !state.has_key(id) {
            return state.end(id);
        }
        state.key = Some(Holder {
            by: None,
            remaining: self.ttl,
        });
        state.successes += 1;
        if !self.comes_after_success {
            state.late.retain(|(record, _)| record.by == id);
        }
        state.forget_known();
        state.run_mut(id).phase = Phase::Removing;
        if self.is(Variant::RemovesBeforeSuccess) {
            state.end(id);
        }
    }

    fn remove(&self, state: &mut State, id: u8) {
        let run = state.run(id);
        let keeps = run.may_come_late && !self.is(Variant::RemovesBeforeLate);
        let removes = |record| Some(record) == run.last || run.unanswered.contains(&record);
        if !keeps && state.record.is_some_and(|stored| removes(stored.record)) {
            state.record = None;
        }
        if self.is(Variant::RemovesBeforeSuccess) {
            state.run_mut(id).phase = Phase::Succeeding;
        } else {
            state.end(id);
        }
    }
}

/// No other run knows that it has recorded the step of this run.
fn check_recorder(state: &mut State, id: u8) {
    let step = usize::from(state.run(id).step);
    if state.known[step] {
        state.report_broken(Rule::OneRecorder);
    }
}
