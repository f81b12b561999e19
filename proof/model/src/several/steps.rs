//! The possible steps in a state, and the states after them.

use super::config::{Config, Variant};
use super::rules::{Event, Rule};
use super::state::{Claim, End, Phase, State};
use crate::search::{Steps, of_module};

/// One step. Calls are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A call claims its next key, and is answered.
    Claim(u8),
    /// A call claims all its keys in one step, and is answered. A call may also begin with its first key, because a store may not
    /// claim these keys together, or answers too late.
    ClaimAll(u8),
    /// The body ends.
    End(u8),
    /// A call frees its last key.
    Free(u8),
    /// All clocks advance by a tick. The leases are renewed, except those of this call.
    Tick {
        /// The call whose renewals are late.
        late: Option<u8>,
    },
    /// A process dies.
    Crash(u8),
    /// A caller drops its future.
    Cancel(u8),
}

impl Steps for Config {
    of_module!();

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for id in state.ids() {
            let call = state.call(id);
            match call.phase {
                Phase::NotStarted => actions.extend([Action::Claim(id), Action::ClaimAll(id)]),
                Phase::Claiming => actions.push(Action::Claim(id)),
                Phase::Running => actions.push(Action::End(id)),
                Phase::Freeing => actions.push(Action::Free(id)),
                Phase::Ended => {}
            }
            let is_alive = matches!(
                call.phase,
                Phase::Claiming | Phase::Running | Phase::Freeing
            );
            if is_alive && state.faults.crashes > 0 {
                actions.push(Action::Crash(id));
            }
            if is_alive && call.phase != Phase::Freeing && state.faults.cancels > 0 {
                actions.push(Action::Cancel(id));
            }
            if is_alive && state.faults.late > 0 {
                actions.push(Action::Tick { late: Some(id) });
            }
        }
        // Without a late renewal and without a dead call the clock changes nothing.
        actions.push(Action::Tick { late: None });
    }

    fn step(&self, state: &mut State, action: Action) -> bool {
        match action {
            Action::Claim(id) => self.claim(state, id),
            Action::ClaimAll(id) => self.claim_all(state, id),
            Action::End(id) => {
                let call = state.call_mut(id);
                (call.phase, call.end) = (Phase::Freeing, End::Done);
                if self.is(Variant::FreesOneKey) {
                    call.claimed = 1;
                }
            }
            Action::Free(id) => self.free(state, id),
            Action::Tick { late } => self.tick(state, late),
            Action::Crash(id) => {
                state.faults.crashes -= 1;
                let call = state.call_mut(id);
                (call.phase, call.end) = (Phase::Ended, End::Died);
            }
            Action::Cancel(id) => self.cancel(state, id),
        }
        true
    }
}

impl Config {
    fn claim(&self, state: &mut State, id: u8) {
        let order = self.order(id);
        let claimed = usize::from(state.call(id).claimed);
        state.call_mut(id).phase = Phase::Claiming;
        let remaining = self.lease + 1;
        let key = state.key(order[claimed]);
        if key.is_some() {
            state.has_met |= claimed > 0;
            if !self.waits {
                self.withdraw(state, id, End::Refused);
            }
            return;
        }
        *key = Some(Claim { by: id, remaining });
        let call = state.call_mut(id);
        if call.claimed == 0 {
            call.lease = self.lease;
        }
        call.claimed += 1;
        if claimed + 1 < order.len() {
            return;
        }
        if call.lease == 0 && !self.is(Variant::LeasesNotChecked) {
            return self.withdraw(state, id, End::TooLate);
        }
        (call.phase, call.lease) = (Phase::Running, call.lease.max(1));
        let others = state.ids().filter(|other| *other != id);
        let shares = |other: u8| self.order(other).iter().any(|key| order.contains(key));
        let meets = |other| state.call(other).phase == Phase::Running && shares(other);
        if others.into_iter().any(meets) {
            state.report_broken(Rule::OneBody);
        }
    }

    /// If a key is taken, a call that waits goes on with one key after another.
    fn claim_all(&self, state: &mut State, id: u8) {
        let order = self.order(id);
        let is_free = |key: &&u8| state.keys[usize::from(**key)].is_none();
        let free: Vec<_> = order.iter().filter(is_free).copied().collect();
        if free.len() == order.len() {
            return (0..order.len()).for_each(|_| self.claim(state, id));
        }
        if self.is(Variant::ClaimsFreeKeys) {
            let remaining = self.lease + 1;
            for key in free {
                *state.key(key) = Some(Claim { by: id, remaining });
            }
        }
        state.call_mut(id).phase = Phase::Claiming;
        if !self.waits {
            self.withdraw(state, id, End::Refused);
        }
    }

    /// Frees the claimed keys, because the body does not run.
    fn withdraw(&self, state: &mut State, id: u8, end: End) {
        let call = state.call_mut(id);
        (call.phase, call.end) = (Phase::Freeing, end);
        if self.is(Variant::KeepsEarlierKeys) && end == End::Refused {
            call.claimed = 0;
        }
        if call.claimed == 0 {
            call.phase = Phase::Ended;
        }
    }

    fn free(&self, state: &mut State, id: u8) {
        let call = state.call_mut(id);
        let left = call.claimed - 1;
        call.claimed = left;
        let withdraws_last = self.is(Variant::WithdrawsLastKey) && call.end == End::Cancelled;
        if left == 0 || withdraws_last {
            call.phase = Phase::Ended;
        }
        let key = state.key(self.order(id)[usize::from(left)]);
        if key.is_some_and(|claim| claim.by == id) {
            *key = None;
        }
    }

    fn cancel(&self, state: &mut State, id: u8) {
        state.faults.cancels -= 1;
        if state.call(id).phase == Phase::Claiming {
            self.withdraw(state, id, End::Cancelled);
        } else {
            stop(state, id);
        }
    }

    fn tick(&self, state: &mut State, late: Option<u8>) {
        if late.is_some() {
            state.faults.late -= 1;
        }
        for id in state.ids() {
            let call = state.call(id);
            let renews = match call.phase {
                Phase::Claiming => !self.is(Variant::RenewsOnlyWhileItRuns),
                Phase::Running | Phase::Freeing => true,
                Phase::NotStarted | Phase::Ended => false,
            };
            let is_renewed = renews && late != Some(id) && call.lease > 0;
            for claim in state
                .keys
                .iter_mut()
                .flatten()
                .filter(|claim| claim.by == id)
            {
                claim.remaining = if is_renewed {
                    self.lease + 1
                } else {
                    claim.remaining - 1
                };
            }
            let call = state.call_mut(id);
            call.lease = match call.phase {
                Phase::NotStarted | Phase::Ended => self.lease,
                _ if is_renewed => self.lease,
                _ => call.lease.saturating_sub(1),
            };
            if call.phase == Phase::Running && call.lease == 0 {
                stop(state, id);
            }
        }
        for key in &mut state.keys {
            *key = key.filter(|claim| claim.remaining > 0);
        }
    }
}

/// Ends a body whose outcome is not known: its keys stay taken until the leases end.
fn stop(state: &mut State, id: u8) {
    let call = state.call_mut(id);
    (call.phase, call.end) = (Phase::Ended, End::Unknown);
}
