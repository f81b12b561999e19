//! What may happen in a state, and what comes of it.

use stateright::{Model, Property};

use crate::call::{Body, Effect, Phase};
use crate::config::{Config, Variant};
use crate::rules::{Event, Rule};
use crate::state::State;
use crate::store::{Command, FOR_EVER, What};
use crate::wait::Found;

/// The protocol in one configuration, with the rules and events that are looked for.
#[derive(Clone, Debug)]
pub struct Protocol {
    pub(crate) config: Config,
    pub(crate) rules: Vec<Rule>,
    pub(crate) events: Vec<Event>,
}

/// One step. Calls are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A caller makes its next call.
    Make(u8),
    /// A command is executed, and the answer is on its way.
    Execute(Command),
    /// A command is executed, and the replica has not got it, so there is no answer.
    ExecuteUnanswered(Command),
    /// A call is polled and finds the answer to its command.
    Hear(u8),
    /// A call gives up waiting for an answer: it was lost, or is late.
    TimeOut(u8),
    /// The body ends.
    End {
        /// Whose.
        call: u8,
        /// In a success.
        ok: bool,
    },
    /// The body is not polled any more, because its lease is over.
    Stop(u8),
    /// The body sends its effect.
    SendEffect(u8),
    /// The keeper sends a renewal.
    Renew(u8),
    /// The keeper gives up waiting for the answer to a renewal.
    RenewalTimesOut(u8),
    /// A call that waits for another asks again.
    AskAgain(u8),
    /// A call that follows another is polled.
    Look(u8),
    /// A call that follows another has waited long enough.
    AskBeside(u8),
    /// The clocks move on.
    Tick,
    /// The store's clock alone moves on.
    Drift,
    /// A process dies with all its calls.
    Crash {
        /// Which.
        process: u8,
    },
    /// A caller drops the future of its call.
    Cancel(u8),
    /// A call is never polled again.
    Freeze(u8),
    /// A command is on its way once more.
    Repeat(Command),
    /// An operator frees the key.
    Forget,
    /// The store loses the record.
    Lose,
    /// The replica catches up.
    Replicate,
    /// The replica takes over.
    FailOver,
}

impl Action {
    /// Whether it need not happen: a fault, or the work of somebody who may be away for ever.
    pub(crate) fn is_outside(self) -> bool {
        !matches!(
            self,
            Self::Make(_)
                | Self::Hear(_)
                | Self::TimeOut(_)
                | Self::Stop(_)
                | Self::Renew(_)
                | Self::RenewalTimesOut(_)
                | Self::AskAgain(_)
                | Self::Look(_)
                | Self::AskBeside(_)
                | Self::Tick
        )
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(&self.config)]
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let rules = self.rules.iter().map(|rule| rule.property());
        rules
            .chain(self.events.iter().map(|event| event.property()))
            .collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let mut before = None;
        for command in &state.bag {
            if before.replace(*command) == Some(*command) {
                continue;
            }
            actions.push(Action::Execute(*command));
            if self.config.replicated {
                actions.push(Action::ExecuteUnanswered(*command));
            }
            if state.faults.repeats > 0 && command.what != What::Effect {
                actions.push(Action::Repeat(*command));
            }
        }
        for id in state.ids() {
            self.actions_of(state, id, actions);
        }
        actions.push(Action::Tick);
        Self::faults(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let changed = self.step(&mut state, action);
        state.forget_the_inert(&self.config);
        (changed && state != *last).then_some(state)
    }
}

impl Protocol {
    fn actions_of(&self, state: &State, id: u8, actions: &mut Vec<Action>) {
        let config = &self.config;
        let call = state.call(id);
        if state.is_next(config, id) {
            actions.push(Action::Make(id));
        }
        let attended = !matches!(call.phase, Phase::Unattended(_));
        if !(call.frozen && attended) {
            if call.answer.is_some() {
                actions.push(Action::Hear(id));
            }
            match call.phase {
                Phase::Claiming | Phase::Removing | Phase::Settling(_) | Phase::Unattended(_) => {
                    actions.push(Action::TimeOut(id));
                }
                Phase::Waiting(_) => actions.push(Action::AskAgain(id)),
                Phase::Following { .. } => {
                    actions.extend([Action::Look(id), Action::AskBeside(id)]);
                }
                Phase::Landed { .. } => actions.push(Action::Look(id)),
                Phase::Held if call.lease == 0 && !config.is(Variant::BodyOutlivesLease) => {
                    actions.push(Action::Stop(id));
                }
                Phase::Held => {
                    let on_its_way = |it: &Command| it.call == id && it.what == What::Effect;
                    let (ok, failed) = match call.effect {
                        _ if !config.wire => (true, true),
                        Effect::NotSent => (false, true),
                        // Who says how it ended knows how it ended.
                        Effect::Sent => (false, !state.bag.iter().any(on_its_way)),
                        Effect::Arrived => (true, false),
                    };
                    if config.wire && call.effect == Effect::NotSent {
                        actions.push(Action::SendEffect(id));
                    }
                    actions.extend(ok.then_some(Action::End { call: id, ok }));
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
        } else if state.is_kept(config, id) && call.renewing.is_none() {
            actions.push(Action::Renew(id));
        }
    }

    fn faults(state: &State, actions: &mut Vec<Action>) {
        let faults = state.faults;
        let idle = |phase| matches!(phase, Phase::NotMade | Phase::Over);
        let busy = |id: &u8| !idle(state.call(*id).phase);
        if faults.crashes > 0 {
            for process in (0..).take(state.flights.len()) {
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
            if call.answered() || call.frozen {
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

    /// Whether there was anything to do.
    fn step(&self, state: &mut State, action: Action) -> bool {
        let config = &self.config;
        match action {
            Action::Make(id) => state.make(config, id),
            Action::Execute(command) => self.execute(state, command, true),
            Action::ExecuteUnanswered(command) => self.execute(state, command, false),
            Action::Hear(id) => {
                let call = state.call(id);
                let Some(answer) = call.answer else {
                    return false;
                };
                match call.phase {
                    Phase::Claiming => state.claim_answered(config, id, answer),
                    Phase::Removing => state.claim(config, id),
                    Phase::Settling(sent) | Phase::Unattended(sent) => {
                        state.end_answered(config, id, sent, answer);
                    }
                    _ => return false,
                }
            }
            Action::TimeOut(id) => return self.time_out(state, id),
            Action::End { call, ok } => state.body_ended(config, call, ok),
            Action::Stop(id) => state.stop(id),
            Action::SendEffect(id) => {
                state.polled(config, id);
                let call = state.call_mut(id);
                call.effect = Effect::Sent;
                let owner = call.owner;
                state.send(Command {
                    what: What::Effect,
                    call: id,
                    owner,
                    left: config.grace + 1,
                });
            }
            Action::Renew(id) => state.renew(config, id),
            Action::RenewalTimesOut(id) => {
                let call = state.call_mut(id);
                call.renewing = None;
                if call.hold.is_some() {
                    state.hold_again(id);
                }
            }
            Action::AskAgain(id) => state.ask_again(config, id),
            Action::Look(id) => return state.look(config, id),
            Action::AskBeside(id) => return state.ask_beside(config, id),
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
                for flight in 0..state.flights.len() {
                    if let Some(id) = state.flights[flight] {
                        state.leave(id, Found::Nothing);
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

    fn execute(&self, state: &mut State, command: Command, answered: bool) {
        let config = &self.config;
        let place = state.bag.iter().position(|other| *other == command);
        state.bag.remove(place.expect("it is in the bag"));
        if command.what == What::Effect {
            return state.effect(config, command.call);
        }
        let answer = state.execute(config, command);
        if !answered {
            return;
        }
        if config.replicated {
            state.replica = state.record;
        }
        let call = state.call_mut(command.call);
        if call.owner != command.owner {
            return;
        }
        match (command.what, call.phase) {
            (What::Renew, _) => state.renewal_answered(command.call, answer),
            (What::Claim, Phase::Claiming) | (What::Remove, Phase::Removing) => {
                call.answer.get_or_insert(answer);
            }
            (what, Phase::Settling(sent) | Phase::Unattended(sent)) if what == sent => {
                call.answer.get_or_insert(answer);
            }
            _ => {}
        }
    }

    fn time_out(&self, state: &mut State, id: u8) -> bool {
        let config = &self.config;
        match state.call(id).phase {
            Phase::Claiming if state.faults.resends > 0 => {
                state.faults.resends -= 1;
                if config.is(Variant::OwnerPerTry) {
                    state.claim(config, id);
                } else {
                    state.ask(id, What::Claim, 0);
                }
                state.moved(id);
            }
            Phase::Claiming => {
                state.call_mut(id).answer = None;
                state.give_up(config, id);
            }
            // It says that the store is away, not that the key is taken: that would be by itself.
            Phase::Removing => {
                state.leave(id, Found::Trouble);
                state.call_mut(id).over(Body::NotBegun);
            }
            Phase::Settling(sent) | Phase::Unattended(sent) => {
                return state.end_unanswered(config, id, sent);
            }
            _ => return false,
        }
        true
    }

    fn tick(&self, state: &mut State) -> bool {
        let config = &self.config;
        let renewal_is_due = |id: &u8| {
            let call = state.call(*id);
            call.lease == 1 && (call.renewing.is_some() || state.is_kept(config, *id))
        };
        if config.punctual && state.ids().any(|id| renewal_is_due(&id)) {
            return false;
        }
        state.store_ticks(config);
        state.memory.effect = state.memory.effect.saturating_sub(1);
        for call in &mut state.calls {
            call.taken = call.taken.saturating_sub(1);
            for left in [&mut call.renewing, &mut call.hold].into_iter().flatten() {
                *left = left.saturating_sub(1);
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
            if command.what != What::Effect {
                return true;
            }
            command.left -= 1;
            command.left > 0
        });
        true
    }
}

fn crash(state: &mut State, process: u8) {
    state.faults.crashes -= 1;
    state.flights[usize::from(process)] = None;
    for call in state
        .calls
        .iter_mut()
        .filter(|call| call.process == process)
    {
        if matches!(call.phase, Phase::NotMade | Phase::Over) {
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
        call.over(body);
    }
}

impl State {
    /// Whether its caller makes this call next.
    fn is_next(&self, config: &Config, id: u8) -> bool {
        let call = self.call(id);
        let Some(before) = id.checked_sub(1).map(|id| self.call(id)) else {
            return call.phase == Phase::NotMade;
        };
        let may = match before.caller == call.caller {
            true => before.answered(),
            // Callers that are alike begin in turn: any other run is one of these with other names.
            false if config.are_alike(before.caller, call.caller) => before.phase != Phase::NotMade,
            false => true,
        };
        call.phase == Phase::NotMade && may
    }

    fn lose_record(&mut self) {
        self.record = None;
        self.memory.recorded = None;
        self.memory.record_lost = true;
    }

    /// Drops commands that can change nothing any more, and whose answers nobody waits for. That they are never
    /// executed is among what is checked, so nothing is missed.
    fn forget_the_inert(&mut self, config: &Config) {
        let unowned = [
            Variant::UnownedRemove,
            Variant::UnownedComplete,
            Variant::UnownedRenewal,
            Variant::OwnerPerCaller,
        ];
        if unowned.contains(&config.variant) {
            return;
        }
        let mut bag = std::mem::take(&mut self.bag);
        let claims = |it: &Command| matches!(it.what, What::Claim | What::PutDone | What::Effect);
        let sent = bag.iter().filter(|it| it.what == What::Claim);
        let may_come = sent.map(|it| it.owner).collect::<Vec<_>>();
        bag.retain(|it| {
            let stands = [self.record, self.replica].into_iter().flatten();
            let call = self.call(it.call);
            let awaited = match call.phase {
                Phase::Settling(sent) | Phase::Unattended(sent) => sent == it.what,
                Phase::Removing => it.what == What::Remove,
                _ => false,
            };
            claims(it)
                || awaited
                || (it.what == What::Renew && call.renewing.is_some())
                || may_come.contains(&it.owner)
                || stands.into_iter().any(|record| record.owner == it.owner)
        });
        self.bag = bag;
    }
}
