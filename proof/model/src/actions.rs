//! The possible steps in a state.

use crate::call::{Effect, Phase};
use crate::config::{Config, Variant};
use crate::state::State;
use crate::store::{Command, Operation};

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
    /// The body ends with an error that says that its outcome is unknown.
    Unknown(u8),
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

impl Config {
    /// The possible steps of a call.
    pub(crate) fn actions_of(&self, state: &State, id: u8, actions: &mut Vec<Action>) {
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
                    actions.extend(config.unknown.then_some(Action::Unknown(id)));
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

    /// The possible faults.
    pub(crate) fn faults(state: &State, actions: &mut Vec<Action>) {
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
}
