//! The possible steps in a state, and the states after them.

use super::config::{Config, Variant};
use super::redeemer::{End, Phase};
use super::rules::{Event, Rule};
use super::state::{Command, State};
use crate::search::{Steps, distinct, of_module};

/// One step. Redeemers are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A redeemer starts.
    Start(u8),
    /// A command is executed, and its answer is sent.
    Execute(Command),
    /// A redeemer receives the answer to its command.
    ReceiveAnswer(u8),
    /// A redeemer stops waiting for an answer that was lost or is late.
    TimeOut(u8),
    /// The body ends.
    End {
        /// The redeemer.
        id: u8,
        /// Whether the body succeeded.
        ok: bool,
    },
    /// The body is no longer polled, because its lease has expired.
    Stop(u8),
    /// All clocks advance by a tick.
    Tick,
    /// A process dies.
    Crash(u8),
    /// A caller drops its future.
    Cancel(u8),
    /// A command is delivered a second time.
    Repeat(Command),
}

impl Steps for Config {
    of_module!();

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for command in distinct(&state.bag) {
            actions.push(Action::Execute(*command));
            if state.faults.repeats > 0 {
                actions.push(Action::Repeat(*command));
            }
        }
        for id in state.ids() {
            self.actions_of(state, id, actions);
        }
        actions.push(Action::Tick);
    }

    fn step(&self, state: &mut State, action: Action) -> bool {
        self.make(state, action);
        state.drop_inert_commands(self);
        true
    }
}

impl Config {
    fn actions_of(&self, state: &State, id: u8, actions: &mut Vec<Action>) {
        let redeemer = state.redeemer(id);
        let is_call = self.redeemers[usize::from(id)].key.is_some();
        if redeemer.answer.is_some() {
            actions.push(Action::ReceiveAnswer(id));
        }
        match redeemer.phase {
            // Interchangeable redeemers start in order: any other order is the same run with other numbers.
            Phase::NotStarted => {
                let before = usize::from(id).checked_sub(1);
                let waits = |before: usize| {
                    state.redeemers[before].phase == Phase::NotStarted
                        && self.are_interchangeable(before, usize::from(id))
                };
                if !before.is_some_and(waits) {
                    actions.push(Action::Start(id));
                }
            }
            Phase::Held if is_call && redeemer.lease == 0 => actions.push(Action::Stop(id)),
            Phase::Held => actions.extend([true, false].map(|ok| Action::End { id, ok })),
            Phase::Ended => {}
            _ => actions.push(Action::TimeOut(id)),
        }
        let is_idle = matches!(redeemer.phase, Phase::NotStarted | Phase::Ended);
        if !is_idle && state.faults.crashes > 0 {
            actions.push(Action::Crash(self.redeemers[usize::from(id)].process));
        }
        if redeemer.end == End::Open && !is_idle && state.faults.cancels > 0 {
            actions.push(Action::Cancel(id));
        }
    }

    fn make(&self, state: &mut State, action: Action) {
        let config = self;
        match action {
            Action::Start(id) => state.start(config, id),
            Action::Execute(command) => {
                let place = state.bag.iter().position(|other| *other == command);
                state.bag.remove(place.expect("the command is in the bag"));
                state.execute(config, command);
            }
            Action::ReceiveAnswer(id) => {
                if let Some(answer) = state.redeemer(id).answer {
                    state.answered(config, id, answer);
                }
            }
            Action::TimeOut(id) => self.time_out(state, id),
            Action::End { id, ok } => state.body_ended(config, id, ok),
            Action::Stop(id) => state.outcome_unknown(config, id),
            Action::Tick => tick(state),
            Action::Crash(process) => {
                state.faults.crashes -= 1;
                let here = |id: &u8| config.redeemers[usize::from(*id)].process == process;
                for id in state.ids().filter(here) {
                    let redeemer = state.redeemer_mut(id);
                    if !matches!(redeemer.phase, Phase::NotStarted | Phase::Ended) {
                        redeemer.end = End::Died;
                        redeemer.finish();
                    }
                }
            }
            Action::Cancel(id) => {
                state.faults.cancels -= 1;
                state.cancel(config, id);
            }
            Action::Repeat(command) => {
                state.faults.repeats -= 1;
                let place = state.bag.partition_point(|other| *other <= command);
                state.bag.insert(place, command);
            }
        }
    }

    fn time_out(&self, state: &mut State, id: u8) {
        let config = self;
        let redeemer = state.redeemer_mut(id);
        let (phase, lease) = (redeemer.phase, redeemer.lease);
        if state.faults.resends > 0 {
            state.faults.resends -= 1;
            if let Phase::Redeeming(expected) = phase
                && config.is(Variant::OwnerPerAttempt)
            {
                state.redeemer_mut(id).attempt += 1;
                return state.redeem(id, expected);
            }
            if let Some(sent) = state.redeemer(id).sent {
                state.send(id, sent);
            }
            return;
        }
        match phase {
            Phase::Claiming => state.give_up(config, id, None),
            Phase::Redeeming(_) if config.is(Variant::RunsWithoutAnswer) => {
                state.accept(config, id);
            }
            Phase::Redeeming(expected) => state.give_up(config, id, Some(expected)),
            // The job in the background gives up when the lease has ended: `not_withdrawn`.
            Phase::Returning { .. } | Phase::Removing if lease == 0 => {
                state.redeemer_mut(id).finish();
            }
            _ => {}
        }
    }
}

fn tick(state: &mut State) {
    let expired = |remaining: &mut u8| {
        *remaining -= 1;
        *remaining == 0
    };
    if let Some((_, remaining)) = &mut state.token
        && expired(remaining)
    {
        state.token = None;
        state.memory.token_expired = true;
    }
    for key in &mut state.keys {
        if key
            .as_mut()
            .is_some_and(|claim| expired(&mut claim.remaining))
        {
            *key = None;
        }
    }
    for redeemer in &mut state.redeemers {
        redeemer.lease = redeemer.lease.saturating_sub(1);
    }
}
