//! Calls that follow an equal call of their process (`in_flight`, `follow`, `wait`).

use crate::call::{Body, Phase, differs, owner};
use crate::config::{Config, Variant};
use crate::state::State;
use crate::store::{Operation, Record};

/// What the last answer of the store showed when a call ended (`state::LastSeen`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LastSeen {
    Nothing,
    Record(Record),
    Trouble,
}

impl State {
    /// Enters the in-flight table. Follows the call in it, or claims, or waits for a known holder.
    pub(crate) fn enter(&mut self, config: &Config, id: u8, known: Option<Record>, moves: u8) {
        let process = usize::from(self.call(id).process);
        match (self.in_flight[process], known) {
            (Some(leader), _) => self.call_mut(id).phase = Phase::Following { leader, moves },
            (None, known) => {
                self.in_flight[process] = Some(id);
                match known {
                    Some(record) => self.call_mut(id).phase = Phase::Waiting(record),
                    None => self.claim(config, id),
                }
            }
        }
    }

    /// Whether other calls may follow this call.
    pub(crate) fn may_have_followers(&self, config: &Config, id: u8) -> bool {
        let process = self.call(id).process;
        config.has_several_calls(process) && self.in_flight[usize::from(process)] == Some(id)
    }

    /// Leaves the in-flight table and gives `last_seen` to the followers.
    pub(crate) fn leave(&mut self, id: u8, last_seen: LastSeen) {
        let process = usize::from(self.call(id).process);
        if self.in_flight[process] == Some(id) {
            self.in_flight[process] = None;
            self.moved(id);
            for call in &mut self.calls {
                if let Phase::Following { leader, moves } = call.phase
                    && leader == id
                {
                    call.phase = Phase::LeaderLeft { last_seen, moves };
                }
            }
        }
    }

    /// Counts a change of the call for its followers.
    pub(crate) fn moved(&mut self, id: u8) {
        for call in &mut self.calls {
            if let Phase::Following { leader, moves } = &mut call.phase
                && *leader == id
            {
                *moves = (*moves + 1).min(FRESH);
            }
        }
    }

    pub(crate) fn wait_for(&mut self, id: u8, record: Record) {
        self.call_mut(id).phase = Phase::Waiting(record);
        self.moved(id);
    }

    /// Claims again with a new owner, because the previous claim was answered.
    pub(crate) fn claim_again(&mut self, config: &Config, id: u8) {
        self.call_mut(id).waits -= 1;
        self.claim(config, id);
        self.moved(id);
    }

    /// Removes an earlier claim of the same call that arrived late. Returns whether `record` is such a claim.
    pub(crate) fn removes_own_stray(&mut self, config: &Config, id: u8, record: Record) -> bool {
        let call = self.call_mut(id);
        let is = |claim: &u8| record.owner == owner(id, *claim);
        let stray = (1..=call.claims)
            .find(is)
            .filter(|claim| call.refused_claims & (1 << claim) != 0);
        call.refused_claims |= 1 << call.claims;
        if stray.is_none() || config.is(Variant::StrayClaimsUnknown) {
            return false;
        }
        call.owner = record.owner;
        call.phase = Phase::RemovingStray;

        self.send_request(id, Operation::Remove, 0);
        true
    }

    /// Polls a follower (`Waiter::await_leader`, `Waiter::follow`). Returns whether it can make a step.
    pub(crate) fn poll_follower(&mut self, config: &Config, id: u8) -> bool {
        let waits = self.call(id).waits > 0;
        match self.call(id).phase {
            Phase::Following { leader, moves } => match self.call(leader).phase {
                Phase::Waiting(record) if differs(config, id, record) => {
                    self.refuse(config, id, record);
                }
                Phase::Waiting(_) if waits => return false,
                Phase::Waiting(record) if moves >= FRESH => self.refuse(config, id, record),
                Phase::Waiting(_) => self.claim(config, id),
                _ => {
                    let held = self.call(leader);
                    let record = Record {
                        call: leader,
                        owner: held.owner,
                        done: false,
                        marked: false,
                        remaining: 0,
                    };
                    if held.body == Body::NotStarted {
                        return false;
                    }
                    if let Some(outcome) = held.unrecorded(leader) {
                        self.refuse(config, id, outcome);
                        return true;
                    }
                    if held.lease == 0 {
                        self.claim(config, id);
                    } else if waits && !differs(config, id, record) {
                        return false;
                    } else {
                        self.refuse(config, id, record);
                    }
                }
            },
            Phase::LeaderLeft { last_seen, moves } => {
                self.leader_left(config, id, last_seen, moves);
            }
            _ => return false,
        }
        true
    }

    fn leader_left(&mut self, config: &Config, id: u8, last_seen: LastSeen, moves: u8) {
        let news = moves >= FRESH || config.is(Variant::StaleTakenBelieved);
        let waits = self.call(id).waits > 0;
        match last_seen {
            LastSeen::Trouble => self.call_mut(id).end(Body::NotStarted),
            LastSeen::Record(record) => {
                let differs = differs(config, id, record);
                if news && waits && !record.done && !differs {
                    self.enter(config, id, Some(record), 1);
                } else if news || record.done {
                    self.refuse(config, id, record);
                } else {
                    self.enter(config, id, None, 1);
                }
            }
            LastSeen::Nothing => self.enter(config, id, None, 1),
        }
    }

    /// Claims without waiting longer for a leader, because its future may never be polled again.
    pub(crate) fn give_up_on_leader(&mut self, config: &Config, id: u8) -> bool {
        let Phase::Following { leader, .. } = self.call(id).phase else {
            return false;
        };
        let leader = self.call(leader);
        let asking = leader.body == Body::NotStarted;
        let patient = self.call(id).waits > 0;
        if config.is(Variant::FrozenLeaderAwaited) || !(asking || patient) {
            return false;
        }
        self.claim(config, id);
        true
    }
}

/// From the second change on, the answer to the leader is younger than the follower (`follow::Freshness`).
const FRESH: u8 = 2;
