//! The possible steps in a state, and the states after them.

use super::call::{Body, Phase, Step};
use super::config::Config;
use super::rules::{Event, Rule};
use super::state::State;
use super::store::{Command, Operation};
use crate::search::{Steps, distinct, of_module};

/// One step. Calls are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A call starts.
    Start(u8),
    /// A command is executed, and the answer is sent.
    Execute(Command),
    /// A call receives the answer to its command.
    ReceiveAnswer(u8),
    /// A call stops waiting for an answer that was lost or is late.
    TimeOut(u8),
    /// The body writes to the resource.
    Write(u8),
    /// The body ends.
    End {
        /// The call of the body.
        call: u8,
        /// Whether the body succeeded.
        ok: bool,
    },
    /// The call is refused after its claim: its body never runs.
    Refuse(u8),
    /// All clocks advance by a tick.
    Tick,
    /// A process dies.
    Crash(u8),
    /// A caller drops the future of its call.
    Cancel(u8),
    /// A command is delivered a second time.
    Repeat(Command),
    /// An operator frees the key.
    Forget,
    /// The clock of the store is set back.
    SetBack,
    /// The store loses the record of the number.
    Lose,
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
        let faults = state.faults;
        actions.extend((state.ticks > 0).then_some(Action::Tick));
        actions.extend((faults.forgets > 0 && state.record.is_some()).then_some(Action::Forget));
        actions.extend((faults.set_back > 0).then_some(Action::SetBack));
        actions.extend((faults.losses > 0 && state.line.is_some()).then_some(Action::Lose));
    }

    fn step(&self, state: &mut State, action: Action) -> bool {
        match action {
            Action::Start(id) => {
                state.call_mut(id).lease = self.lease;
                state.claim(self, id);
            }
            Action::Execute(command) => self.execute(state, command),
            Action::ReceiveAnswer(id) => return state.answered(self, id),
            Action::TimeOut(id) => self.time_out(state, id),
            Action::Write(id) => state.write(id),
            Action::End { call, ok } => state.body_ended(self, call, ok),
            Action::Refuse(id) => {
                let call = state.call_mut(id);
                (call.body, call.order) = (Body::NotStarted, 0);
                state.send_end(self, id);
            }
            Action::Tick => state.tick(),
            Action::Crash(id) => {
                state.faults.crashes -= 1;
                let call = state.call_mut(id);
                if call.body == Body::Running {
                    call.body = Body::Stopped;
                }
                call.phase = Phase::Ended;
            }
            Action::Cancel(id) => {
                state.faults.cancels -= 1;
                self.cancel(state, id);
            }
            Action::Repeat(command) => {
                state.faults.repeats -= 1;
                state.send(command);
            }
            Action::Forget => {
                state.faults.forgets -= 1;
                state.record = None;
            }
            Action::SetBack => {
                state.faults.set_back -= 1;
                state.clock -= 1;
            }
            Action::Lose => {
                state.faults.losses -= 1;
                (state.line, state.memory.line_lost) = (None, true);
            }
        }
        state.forget_answers();
        true
    }
}

impl Config {
    fn actions_of(&self, state: &State, id: u8, actions: &mut Vec<Action>) {
        let call = state.call(id);
        if call.answer.is_some() {
            actions.push(Action::ReceiveAnswer(id));
        }
        match call.phase {
            Phase::NotStarted => {
                // Calls differ only in their numbers, so they start in this order.
                let is_next = id == 0 || state.call(id - 1).phase != Phase::NotStarted;
                actions.extend(is_next.then_some(Action::Start(id)));
                return;
            }
            Phase::Ended => return,
            Phase::Running => {
                actions.extend([true, false].map(|ok| Action::End { call: id, ok }));
                let may_write = self.writes && !call.has_written;
                actions.extend(may_write.then_some(Action::Write(id)));
            }
            _ => actions.extend(self.gives_up.then_some(Action::TimeOut(id))),
        }
        let is_fresh = call.phase == Phase::Running && !call.has_written;
        actions.extend((is_fresh && self.refuses).then_some(Action::Refuse(id)));
        actions.extend((state.faults.crashes > 0).then_some(Action::Crash(id)));
        let may_cancel = state.faults.cancels > 0 && !matches!(call.phase, Phase::Ending(_));
        actions.extend(may_cancel.then_some(Action::Cancel(id)));
    }

    fn execute(&self, state: &mut State, command: Command) {
        let place = state.bag.iter().position(|other| *other == command);
        state.bag.remove(place.expect("the command is in the bag"));
        let Some(answer) = state.execute(self, command) else {
            return;
        };
        let call = state.call_mut(command.call);
        let is_awaited = match (call.phase, command.operation) {
            (Phase::Claiming(_), Operation::Claim)
            | (Phase::Confirming(_), Operation::Confirm)
            | (Phase::Ending(Step::ReadLine { .. }), Operation::ReadLine)
            | (Phase::Ending(Step::Remove { .. }), Operation::Remove)
            | (Phase::Ending(Step::Complete), Operation::Complete) => true,
            (
                Phase::Drawing(sent, _)
                | Phase::Ending(Step::EndLine {
                    operation: sent, ..
                }),
                operation,
            ) => sent == operation,
            _ => false,
        };
        if is_awaited {
            call.answer.get_or_insert(answer);
        }
    }

    /// Sends the request again from its first step, or gives up.
    fn time_out(&self, state: &mut State, id: u8) {
        let is_ending = matches!(state.call(id).phase, Phase::Ending(_));
        if state.faults.resends > 0 {
            state.faults.resends -= 1;
            if is_ending {
                state.send_end(self, id);
            } else {
                state.claim(self, id);
            }
        } else if is_ending {
            state.call_mut(id).phase = Phase::Ended;
        } else {
            state.send_end(self, id);
        }
    }

    fn cancel(&self, state: &mut State, id: u8) {
        let call = state.call_mut(id);
        if call.body != Body::Running {
            return state.send_end(self, id);
        }
        call.body = Body::Stopped;
        if self.releases {
            state.send_end(self, id);
        } else {
            call.phase = Phase::Ended;
        }
    }
}

impl State {
    /// Drops what no later step reads, so that fewer states differ.
    fn forget_answers(&mut self) {
        for call in &mut self.calls {
            if call.phase == Phase::Ended {
                call.answer = None;
                call.lease = 0;
            }
        }
    }
}
