//! Calls behind an equal one of their process (`in_flight`, `follow`, `wait`).

use crate::call::{Body, Phase, differs, owner};
use crate::config::{Config, Variant};
use crate::state::State;
use crate::store::{Record, What};

/// What is known of the store when a call is over (`state::LastSeen`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Found {
    Nothing,
    Record(Record),
    Trouble,
}

impl State {
    /// Enters the flights, and claims or waits for the holder that is known; or follows the call that is there.
    pub(crate) fn enter(&mut self, config: &Config, id: u8, known: Option<Record>, heard: u8) {
        let flight = usize::from(self.call(id).process);
        match (self.flights[flight], known) {
            (Some(leader), _) => self.call_mut(id).phase = Phase::Following { leader, heard },
            (None, known) => {
                self.flights[flight] = Some(id);
                match known {
                    Some(record) => self.call_mut(id).phase = Phase::Waiting(record),
                    None => self.claim(config, id),
                }
            }
        }
    }

    /// Whether another call may follow it.
    pub(crate) fn flies_in_company(&self, config: &Config, id: u8) -> bool {
        let process = self.call(id).process;
        config.in_company(process) && self.flights[usize::from(process)] == Some(id)
    }

    /// It flies no more, and those who follow are told what is known.
    pub(crate) fn leave(&mut self, id: u8, found: Found) {
        let flight = usize::from(self.call(id).process);
        if self.flights[flight] == Some(id) {
            self.flights[flight] = None;
            self.moved(id);
            for call in &mut self.calls {
                if let Phase::Following { leader, heard } = call.phase
                    && leader == id
                {
                    call.phase = Phase::Landed { found, heard };
                }
            }
        }
    }

    /// It is in another stage, and those who follow hear of it.
    pub(crate) fn moved(&mut self, id: u8) {
        for call in &mut self.calls {
            if let Phase::Following { leader, heard } = &mut call.phase
                && *leader == id
            {
                *heard = (*heard + 1).min(NEWS);
            }
        }
    }

    pub(crate) fn wait_for(&mut self, id: u8, record: Record) {
        self.call_mut(id).phase = Phase::Waiting(record);
        self.moved(id);
    }

    /// It asks again, in a claim of its own: the one before was answered.
    pub(crate) fn ask_again(&mut self, config: &Config, id: u8) {
        self.call_mut(id).waits -= 1;
        self.claim(config, id);
        self.moved(id);
    }

    /// Told "taken" by an earlier claim of its own, which arrived late, it removes that one. Whether it does.
    pub(crate) fn meets_itself(&mut self, config: &Config, id: u8, record: Record) -> bool {
        let call = self.call_mut(id);
        let is = |claim: &u8| record.owner == owner(id, *claim);
        let ghost = (1..=call.claims)
            .find(is)
            .filter(|claim| call.ghosts & (1 << claim) != 0);
        call.ghosts |= 1 << call.claims;
        if ghost.is_none() || config.is(Variant::GhostUnknown) {
            return false;
        }
        call.owner = record.owner;
        call.phase = Phase::Removing;

        self.ask(id, What::Remove, 0);
        true
    }

    /// What one who follows does when it looks (`Waiter::await_leader`, `Waiter::follow`). Whether there is anything to do.
    pub(crate) fn look(&mut self, config: &Config, id: u8) -> bool {
        let waits = self.call(id).waits > 0;
        match self.call(id).phase {
            Phase::Following { leader, heard } => match self.call(leader).phase {
                Phase::Waiting(record) if differs(config, id, record) => {
                    self.refuse(config, id, record);
                }
                Phase::Waiting(_) if waits => return false,
                Phase::Waiting(record) if heard >= NEWS => self.refuse(config, id, record),
                Phase::Waiting(_) => self.claim(config, id),
                _ => {
                    let held = self.call(leader);
                    let record = Record {
                        call: leader,
                        owner: held.owner,
                        done: false,
                        left: 0,
                    };
                    if held.body == Body::NotBegun {
                        return false;
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
            Phase::Landed { found, heard } => self.landed(config, id, found, heard),
            _ => return false,
        }
        true
    }

    fn landed(&mut self, config: &Config, id: u8, found: Found, heard: u8) {
        let news = heard >= NEWS || config.is(Variant::LateTakenBelieved);
        let waits = self.call(id).waits > 0;
        match found {
            Found::Trouble => self.call_mut(id).over(Body::NotBegun),
            Found::Record(record) => {
                let differs = differs(config, id, record);
                if news && waits && !record.done && !differs {
                    self.enter(config, id, Some(record), 1);
                } else if news || record.done {
                    self.refuse(config, id, record);
                } else {
                    self.enter(config, id, None, 1);
                }
            }
            Found::Nothing => self.enter(config, id, None, 1),
        }
    }

    /// It has waited long enough for a call that nobody may poll any more, and asks the store beside it.
    pub(crate) fn ask_beside(&mut self, config: &Config, id: u8) -> bool {
        let Phase::Following { leader, .. } = self.call(id).phase else {
            return false;
        };
        let leader = self.call(leader);
        let asking = leader.body == Body::NotBegun;
        let patient = self.call(id).waits > 0;
        if config.is(Variant::FrozenLeaderAwaited) || !(asking || patient) {
            return false;
        }
        self.claim(config, id);
        true
    }
}

/// The second move tells of a claim that was sent after the first (`follow::Freshness`).
const NEWS: u8 = 2;
