//! The states after each step.

use crate::actions::Action;
use crate::call::{Body, Effect, Phase};
use crate::config::{Config, Variant};
use crate::rules::{Event, Rule};
use crate::search::{Steps, distinct, of_module};
use crate::state::State;
use crate::store::{Command, FOR_EVER, Operation};
use crate::wait::LastSeen;

impl Steps for Config {
    of_module!();

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for command in distinct(&state.bag) {
            actions.push(Action::Execute(*command));
            if self.replicated {
                actions.push(Action::ExecuteUnanswered(*command));
            }
            if state.faults.repeats > 0 && command.operation != Operation::Effect {
                actions.push(Action::Repeat(*command));
            }
        }
        for id in state.ids() {
            self.actions_of(state, id, actions);
        }
        actions.push(Action::Tick);
        Self::faults(state, actions);
    }

    fn step(&self, state: &mut State, action: Action) -> bool {
        let was_possible = self.make(state, action);
        state.drop_inert_commands(self);
        was_possible
    }
}

impl Config {
    /// Makes a step. Returns whether it was possible.
    fn make(&self, state: &mut State, action: Action) -> bool {
        let config = self;
        match action {
            Action::Start(id) => state.start(config, id),
            Action::Execute(command) => self.execute(state, command, true),
            Action::ExecuteUnanswered(command) => self.execute(state, command, false),
            Action::ReceiveAnswer(id) => {
                let call = state.call(id);
                let Some(answer) = call.answer else {
                    return false;
                };
                match call.phase {
                    Phase::Claiming => state.claim_answered(config, id, answer),
                    Phase::RemovingStray => state.claim(config, id),
                    Phase::Settling(sent) | Phase::Background(sent) => {
                        state.end_answered(config, id, sent, answer);
                    }
                    _ => return false,
                }
            }
            Action::TimeOut(id) => return self.time_out(state, id),
            Action::End { call, ok } => state.body_ended(config, call, ok),
            Action::Hold(id) => state.hold_key(config, id),
            Action::Unknown(id) => state.outcome_unknown(config, id),
            Action::Stop(id) => state.stop(id),
            Action::SendEffect(id) => {
                state.polled(config, id);
                let call = state.call_mut(id);
                call.effect = Effect::Sent;
                let owner = call.owner;
                state.send(Command {
                    operation: Operation::Effect,
                    call: id,
                    owner,
                    remaining: config.grace + 1,
                });
            }
            Action::Renew(id) => state.renew(config, id),
            Action::RenewalTimesOut(id) => {
                let call = state.call_mut(id);
                call.renewing = None;
                if call.hold.is_some() {
                    state.repeat_hold(id);
                }
            }
            Action::ClaimAgain(id) => state.claim_again(config, id),
            Action::PollFollower(id) => return state.poll_follower(config, id),
            Action::GiveUpOnLeader(id) => return state.give_up_on_leader(config, id),
            Action::Tick => return self.tick(state),
            Action::Drift => {
                state.faults.drifts -= 1;
                state.store_ticks(config);
                state.memory.effect = state.memory.effect.saturating_sub(1);
            }
            Action::Crash { process } => crash(state, process),
            Action::Cancel(id) => {
                state.faults.cancels -= 1;
                state.cancel(config, id);
            }
            Action::Freeze(id) => {
                state.faults.freezes -= 1;
                state.call_mut(id).frozen = true;
            }
            Action::Repeat(command) => {
                state.faults.repeats -= 1;
                state.send(command);
            }
            Action::Forget => {
                state.faults.forgets -= 1;
                state.lose_record();
                for process in 0..state.in_flight.len() {
                    if let Some(id) = state.in_flight[process] {
                        state.leave(id, LastSeen::Nothing);
                    }
                }
            }
            Action::Lose => {
                state.faults.losses -= 1;
                state.lose_record();
            }
            Action::Replicate => state.replica = state.record,
            Action::FailOver => {
                state.faults.failovers -= 1;
                state.record = state.replica;
                if let Some(recorded) = state.memory.recorded.filter(|it| !it.acknowledged) {
                    let call = state.call_mut(recorded.call);
                    call.stored = false;
                    let unrecorded = call.lease == 0;
                    state.memory.effect_unrecorded |= unrecorded;
                    state.memory.recorded = None;
                }
            }
        }
        true
    }

    fn execute(&self, state: &mut State, command: Command, is_answered: bool) {
        let config = self;
        let place = state.bag.iter().position(|other| *other == command);
        state.bag.remove(place.expect("the command is in the bag"));
        if command.operation == Operation::Effect {
            return state.effect(config, command.call);
        }
        let answer = state.execute(config, command);
        if !is_answered {
            return;
        }
        if config.replicated {
            state.replica = state.record;
        }
        let call = state.call_mut(command.call);
        if call.owner != command.owner {
            return;
        }
        match (command.operation, call.phase) {
            (Operation::Renew, _) => state.renewal_answered(command.call, answer),
            (Operation::Claim, Phase::Claiming) | (Operation::Remove, Phase::RemovingStray) => {
                call.answer.get_or_insert(answer);
            }
            (operation, Phase::Settling(sent) | Phase::Background(sent)) if operation == sent => {
                call.answer.get_or_insert(answer);
            }
            _ => {}
        }
    }

    fn time_out(&self, state: &mut State, id: u8) -> bool {
        let config = self;
        match state.call(id).phase {
            Phase::Claiming if state.faults.resends > 0 => {
                state.faults.resends -= 1;
                if config.is(Variant::OwnerPerAttempt) {
                    state.claim(config, id);
                } else {
                    state.send_request(id, Operation::Claim, 0);
                }
                state.moved(id);
            }
            Phase::Claiming => {
                state.call_mut(id).answer = None;
                state.give_up(config, id);
            }
            // The call reports that the store is unavailable. It must not report "taken", because only its own claim
            // may be stored.
            Phase::RemovingStray => {
                state.leave(id, LastSeen::Trouble);
                state.call_mut(id).end(Body::NotStarted);
            }
            Phase::Settling(sent) | Phase::Background(sent) => {
                return state.end_unanswered(config, id, sent);
            }
            _ => return false,
        }
        true
    }

    fn tick(&self, state: &mut State) -> bool {
        let config = self;
        let renewal_is_due = |id: &u8| {
            let call = state.call(*id);
            call.lease == 1 && (call.renewing.is_some() || state.is_renewed(config, *id))
        };
        if config.punctual && state.ids().any(|id| renewal_is_due(&id)) {
            return false;
        }
        state.store_ticks(config);
        state.memory.effect = state.memory.effect.saturating_sub(1);
        for call in &mut state.calls {
            call.taken = call.taken.saturating_sub(1);
            for remaining in [&mut call.renewing, &mut call.hold].into_iter().flatten() {
                *remaining = remaining.saturating_sub(1);
            }
            if call.lease == FOR_EVER || call.lease == 0 {
                continue;
            }
            call.lease -= 1;
            let could_renew = config.punctual && call.renewals > 0;
            let done = call.body == Body::Ok || call.effect == Effect::Arrived;
            if call.lease == 0 && done && !call.stored && !could_renew {
                state.memory.effect_unrecorded = true;
            }
        }
        state.bag.retain_mut(|command| {
            if command.operation != Operation::Effect {
                return true;
            }
            command.remaining -= 1;
            command.remaining > 0
        });
        true
    }
}

fn crash(state: &mut State, process: u8) {
    state.faults.crashes -= 1;
    state.in_flight[usize::from(process)] = None;
    for call in state
        .calls
        .iter_mut()
        .filter(|call| call.process == process)
    {
        if matches!(call.phase, Phase::NotStarted | Phase::Ended) {
            continue;
        }
        let done = call.body == Body::Ok || call.effect == Effect::Arrived;
        if done && !call.stored {
            state.memory.effect_unrecorded = true;
        }
        let body = match call.body {
            Body::Running => Body::Stopped,
            body => body,
        };
        call.hold = None;
        call.end(body);
    }
}

impl State {
    /// Whether this is the next call of its caller.
    pub(crate) fn is_next(&self, config: &Config, id: u8) -> bool {
        let call = self.call(id);
        let Some(before) = id.checked_sub(1).map(|id| self.call(id)) else {
            return call.phase == Phase::NotStarted;
        };
        let may = match before.caller == call.caller {
            true => before.is_answered(),
            // Interchangeable callers start in order: any other order is the same run with other numbers.
            false if config.are_interchangeable(before.caller, call.caller) => {
                before.phase != Phase::NotStarted
            }
            false => true,
        };
        call.phase == Phase::NotStarted && may
    }

    fn lose_record(&mut self) {
        self.record = None;
        self.memory.recorded = None;
        self.memory.record_lost = true;
    }

    /// Drops commands that can no longer change anything and whose answers no call awaits. The checker also covers runs
    /// in which they are never executed, so this misses nothing.
    fn drop_inert_commands(&mut self, config: &Config) {
        let unowned = [
            Variant::UnownedRemove,
            Variant::UnownedComplete,
            Variant::UnownedRenewal,
            Variant::UnownedMark,
            Variant::OwnerPerCaller,
        ];
        if unowned.contains(&config.variant) {
            return;
        }
        let mut bag = std::mem::take(&mut self.bag);
        let claims = |it: &Command| {
            matches!(
                it.operation,
                Operation::Claim | Operation::PutDone | Operation::Effect
            )
        };
        let sent = bag.iter().filter(|it| it.operation == Operation::Claim);
        let may_come = sent.map(|it| it.owner).collect::<Vec<_>>();
        bag.retain(|it| {
            let is_stored = [self.record, self.replica].into_iter().flatten();
            let call = self.call(it.call);
            let awaited = match call.phase {
                Phase::Settling(sent) | Phase::Background(sent) => sent == it.operation,
                Phase::RemovingStray => it.operation == Operation::Remove,
                _ => false,
            };
            claims(it)
                || awaited
                || (it.operation == Operation::Renew && call.renewing.is_some())
                || may_come.contains(&it.owner)
                || is_stored.into_iter().any(|record| record.owner == it.owner)
        });
        self.bag = bag;
    }
}
