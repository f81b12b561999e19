//! Checks what a batch must keep.

use std::collections::{BTreeMap, BTreeSet};

use super::count::Counts;
use super::history::{Event, Kind, Sends};
use super::knobs::Plan;
use super::promise::{Broken, IN_ORDER, NO_FAULT, NOT_SENT, ONE_OF_A_KEY, OWN_ANSWER};

/// The messages of a run with batches.
#[derive(Default)]
struct Messages {
    given_up: BTreeSet<u64>,
    /// Reads, which change nothing, and messages that the engine sent again: their order is free.
    unordered: BTreeSet<u64>,
    /// The process and the connection of each message.
    connections: BTreeMap<u64, (usize, usize)>,
    /// The latest message that has arrived, by connection and key.
    arrived: BTreeMap<(usize, usize, usize), u64>,
    /// The keys of the latest batch.
    batch: (u64, BTreeSet<usize>),
    replies: BTreeMap<u64, u64>,
}

/// Checks a history. A run without batches has nothing to check.
pub(super) fn check(plan: &Plan, history: &[Event], counts: &mut Counts) -> Result<(), Broken> {
    let mut messages = Messages::default();
    let undisturbed = plan.undisturbed();
    for Event { at, key, kind } in history {
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
                if self.batch.0 != batch {
                    self.batch = (batch, BTreeSet::new());
                }
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
                self.unordered.insert(message);
            }
            Kind::Sent {
                message,
                op: Sends::Look,
                ..
            } => {
                self.unordered.insert(message);
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
            } => {
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
