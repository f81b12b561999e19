//! The possible steps in a state, and the states after them.

use stateright::Property;

use crate::call::{Body, Effect, Phase};
use crate::config::{Config, Variant};
use crate::rules::{Event, Rule};
use crate::search::{Search, Steps, distinct};
use crate::state::State;
use crate::store::{Command, FOR_EVER, Operation};
use crate::wait::LastSeen;

/// One step. Calls are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A caller starts its next call.
    Start(u8),
    /// A command is executed, and the answer is sent.
    Execute(Command),
    /// A command is executed but does not reach the replica, so there is no answer.
    ExecuteUnanswered(Command),
    /// A call is polled and receives the answer to its command.
    ReceiveAnswer(u8),
    /// A call stops waiting for an answer that was lost or is late.
    TimeOut(u8),
    /// The body ends.
    End {
        /// The call of the body.
        call: u8,
        /// Whether the body succeeded.
        ok: bool,
    },
    /// The body ends without knowing whether its effect took place.
    Hold(u8),
    /// The body is no longer polled, because its lease has expired.
    Stop(u8),
    /// The body sends its effect.
    SendEffect(u8),
    /// A renewal is sent.
    Renew(u8),
    /// The renewal task stops waiting for the answer to a renewal.
    RenewalTimesOut(u8),
    /// A waiting call claims again.
    ClaimAgain(u8),
    /// A follower is polled.
    PollFollower(u8),
    /// A follower stops waiting for its leader and claims itself.
    GiveUpOnLeader(u8),
    /// All clocks advance by a tick.
    Tick,
    /// Only the clock of the store advances by a tick.
    Drift,
    /// A process dies with all its calls.
    Crash {
        /// The number of the process.
        process: u8,
    },
    /// A caller drops the future of its call.
    Cancel(u8),
    /// A call is never polled again.
    Freeze(u8),
    /// A command is delivered a second time.
    Repeat(Command),
    /// An operator frees the key.
    Forget,
    /// The store loses the record.
    Lose,
    /// The replica receives the record.
    Replicate,
    /// The replica becomes the master.
    FailOver,
}

impl Action {
    /// Whether the step need not happen: a fault, or a step outside the protocol.
    pub(crate) fn is_outside(self) -> bool {
        !matches!(
            self,
            Self::Start(_)
                | Self::ReceiveAnswer(_)
                | Self::TimeOut(_)
                | Self::Stop(_)
                | Self::Renew(_)
                | Self::RenewalTimesOut(_)
                | Self::ClaimAgain(_)
                | Self::PollFollower(_)
                | Self::GiveUpOnLeader(_)
                | Self::Tick
        )
    }
}

impl Steps for Config {
    type State = State;
    type Action = Action;
    type Rule = Rule;
    type Event = Event;

    fn name(&self) -> &'static str {
        self.name
    }

    fn first(&self) -> State {
        State::first(self)
    }

    fn rule(rule: Rule) -> Property<Search<Self>> {
        rule.property()
    }

    fn event(event: Event) -> Property<Search<Self>> {
        event.property()
    }

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
    fn actions_of(&self, state: &State, id: u8, actions: &mut Vec<Action>) {
        let config = self;
        let call = state.call(id);
        if state.is_next(config, id) {
            actions.push(Action::Start(id));
        }
        let caller_waits = !matches!(call.phase, Phase::Background(_));
        if !(call.frozen && caller_waits) {
            if call.answer.is_some() {
                actions.push(Action::ReceiveAnswer(id));
            }
            match call.phase {
                Phase::Claiming
                | Phase::RemovingStray
                | Phase::Settling(_)
                | Phase::Background(_) => {
                    actions.push(Action::TimeOut(id));
                }
                Phase::Waiting(_) => actions.push(Action::ClaimAgain(id)),
                Phase::Following { .. } => {
                    actions.extend([Action::PollFollower(id), Action::GiveUpOnLeader(id)]);
                }
                Phase::LeaderLeft { .. } => actions.push(Action::PollFollower(id)),
                Phase::Held if call.lease == 0 && !config.is(Variant::BodyOutlivesLease) => {
                    actions.push(Action::Stop(id));
                }
                Phase::Held => {
                    let on_its_way =
                        |it: &Command| it.call == id && it.operation == Operation::Effect;
                    let (ok, failed) = match call.effect {
                        _ if !config.wire => (true, true),
                        Effect::NotSent => (false, true),
                        // A body that reports how its effect ended knows it.
                        Effect::Sent => (false, !state.bag.iter().any(on_its_way)),
                        Effect::Arrived => (true, false),
                    };
                    if config.wire && call.effect == Effect::NotSent {
                        actions.push(Action::SendEffect(id));
                    }
                    actions.extend(ok.then_some(Action::End { call: id, ok }));
                    actions.extend(config.holds.then_some(Action::Hold(id)));
                    let failed = failed && config.errors;
                    actions.extend(failed.then_some(Action::End {
                        call: id,
                        ok: false,
                    }));
                }
                _ => {}
            }
        }
        if call.renewing.is_some() && !config.punctual {
            actions.push(Action::RenewalTimesOut(id));
        } else if state.is_renewed(config, id) && call.renewing.is_none() {
            actions.push(Action::Renew(id));
        }
    }

    fn faults(state: &State, actions: &mut Vec<Action>) {
        let faults = state.faults;
        let idle = |phase| matches!(phase, Phase::NotStarted | Phase::Ended);
        let busy = |id: &u8| !idle(state.call(*id).phase);
        if faults.crashes > 0 {
            for process in (0..).take(state.in_flight.len()) {
                if state
                    .ids()
                    .any(|id| busy(&id) && state.call(id).process == process)
                {
                    actions.push(Action::Crash { process });
                }
            }
        }
        for id in state.ids().filter(busy) {
            let call = state.call(id);
            if call.is_answered() || call.frozen {
                continue;
            }
            if faults.cancels > 0 {
                actions.push(Action::Cancel(id));
            }
            if faults.freezes > 0 {
                actions.push(Action::Freeze(id));
            }
        }
        if state.record.is_some() {
            actions.extend((faults.forgets > 0).then_some(Action::Forget));
            actions.extend((faults.losses > 0).then_some(Action::Lose));
            actions.extend((faults.drifts > 0).then_some(Action::Drift));
        }
        if faults.failovers > 0 && state.replica != state.record {
            actions.extend([Action::Replicate, Action::FailOver]);
        }
    }

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
    fn is_next(&self, config: &Config, id: u8) -> bool {
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
