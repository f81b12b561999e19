//! Checks what a batch must keep.

use std::collections::{BTreeMap, BTreeSet};

use super::count::Counts;
use super::history::{Event, Kind, Sends};
use super::knobs::Plan;
use super::promise::{
    Broken, IN_ORDER, NO_FAULT, NO_STUCK, NOT_SENT, ONE_OF_A_KEY, ONLY_RENEWALS, OWN_ANSWER,
    TRUE_DENIAL,
};

/// The messages of a run with batches.
#[derive(Default)]
struct Messages {
    given_up: BTreeSet<u64>,
    renewals: BTreeSet<u64>,
    /// Messages that were sent, and not refused by the store.
    sent: BTreeSet<u64>,
    /// Reads, which change nothing, and messages that the engine sent again: their order is free.
    unordered: BTreeSet<u64>,
    /// The process and the connection of each message.
    connections: BTreeMap<u64, (usize, usize)>,
    /// The latest message that has arrived, by connection and key.
    arrived: BTreeMap<(usize, usize, usize), u64>,
    /// The keys of the latest batch, and whether its first operation is a renewal.
    batch: (u64, BTreeSet<usize>, bool),
    replies: BTreeMap<u64, u64>,
}

/// Checks a history. A run without batches has nothing to check.
pub(super) fn check(plan: &Plan, history: &[Event], counts: &mut Counts) -> Result<(), Broken> {
    let mut messages = Messages::default();
    let undisturbed = plan.undisturbed();
    for Event { at, key, kind } in history {
        match kind {
            Kind::TasksEnd => counts.add("ends of runtimes"),
            Kind::Answered {
                message,
                fine: true,
            } if messages.renewals.contains(message) => {
                messages.count_renewal(*message, counts);
            }
            _ => {}
        }
        let Some(key) = *key else { continue };
        let is_kept = messages.see(key, kind, undisturbed, counts);
        is_kept.map_err(|promise| Broken {
            promise,
            at: *at,
            key: Some(key),
            by: Vec::new(),
        })?;
    }
    Ok(())
}

impl Messages {
    /// Renewals go alone on the first connection, and in batches on the second.
    fn count_renewal(&self, message: u64, counts: &mut Counts) {
        match self.connections.get(&message) {
            Some((_, 0)) => counts.add("lone renewals"),
            Some(_) => counts.add("queued renewals"),
            None => {}
        }
    }

    fn see(
        &mut self,
        key: usize,
        kind: &Kind,
        undisturbed: bool,
        counts: &mut Counts,
    ) -> Result<(), &'static str> {
        match *kind {
            Kind::GivenUp { message } => {
                if !self.connections.contains_key(&message) {
                    counts.add("operations withdrawn");
                }
                self.given_up.insert(message);
            }
            Kind::HandedOver {
                message,
                process,
                connection,
                batch,
            } => {
                self.connections.insert(message, (process, connection));
                let is_renewal = self.renewals.contains(&message);
                if self.batch.0 != batch {
                    self.batch = (batch, BTreeSet::new(), is_renewal);
                }
                if self.batch.2 != is_renewal {
                    return Err(ONLY_RENEWALS);
                }
                self.sent.insert(message);
                if self.batch.1.len() == 1 {
                    counts.add("batches");
                }
                if !self.batch.1.insert(key) {
                    return Err(ONE_OF_A_KEY);
                }
                if self.given_up.contains(&message) {
                    return Err(NOT_SENT);
                }
            }
            Kind::Repeated { message } => {
                counts.add("operations sent again");
                self.sent.remove(&message);
                self.unordered.insert(message);
            }
            Kind::Refused { message, .. } => {
                self.sent.remove(&message);
            }
            Kind::Stuck => return Err(NO_STUCK),
            Kind::Sent { message, op, .. } => {
                match op {
                    Sends::Look => self.unordered.insert(message),
                    Sends::Renewal => self.renewals.insert(message),
                    _ => false,
                };
            }
            Kind::Arrived { message, .. } if !self.unordered.contains(&message) => {
                let Some((process, connection)) = self.connections.get(&message) else {
                    return Ok(());
                };
                let before = self.arrived.insert((*process, *connection, key), message);
                if before > Some(message) {
                    return Err(IN_ORDER);
                }
            }
            Kind::Replied { message, reply } => {
                self.replies.insert(message, reply);
            }
            Kind::Received {
                message,
                reply,
                fine,
                denied,
            } => {
                if denied && self.sent.contains(&message) {
                    return Err(TRUE_DENIAL);
                }
                if self.replies.get(&message).is_some_and(|own| *own != reply) {
                    return Err(OWN_ANSWER);
                }
                if !fine && undisturbed {
                    return Err(NO_FAULT);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
