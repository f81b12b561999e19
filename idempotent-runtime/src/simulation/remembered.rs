//! Checks that a process runs no body for a key while it knows an outcome of the key that the store has not taken.

use std::collections::BTreeMap;

use super::history::{BodyEnd, CallId, Event, Kind, OPERATOR, RemovalCause};
use super::knobs::Plan;
use super::promise::{Broken, REMEMBERED};
use crate::policy::Release;

pub(super) fn check(plan: &Plan, history: &[Event]) -> Result<(), Broken> {
    let mut calls: BTreeMap<CallId, Made> = BTreeMap::new();
    let mut claims: BTreeMap<u64, CallId> = BTreeMap::new();
    // The calls whose outcomes only their processes know, and since when duplicates may rely on this.
    let mut known: BTreeMap<CallId, u64> = BTreeMap::new();
    for Event { at, key, kind } in history {
        let of_key = |call: &CallId| Some(plan.calls[call.0].key) == *key;
        match kind {
            Kind::Made { call, process } => {
                let (at, process) = (*at, *process);
                calls.insert(*call, Made { at, process });
            }
            Kind::BodyEnded { call, end } => {
                let is_kept = match end {
                    BodyEnd::Success => plan.keys[plan.calls[call.0].key].release == Release::OnError,
                    BodyEnd::Unknown => true,
                    _ => false,
                };
                // The first attempt in the background begins when the deadline of the caller is over.
                let is_known = is_kept && calls.contains_key(call);
                known.extend(is_known.then_some((*call, at + 2 * plan.deadline)));
            }
            Kind::Put { call, done: true, .. } | Kind::Frozen { call, .. } => {
                known.remove(call);
            }
            Kind::Sent { message, call, .. } => {
                claims.insert(*message, *call);
            }
            // The claim stays instead of the outcome.
            Kind::Refused { message, full: true } => {
                claims.get(message).map(|call| known.remove(call));
            }
            Kind::Crashed { process } | Kind::Paused { process } => {
                known.retain(|call, _| calls[call].process != *process);
            }
            Kind::Unrecorded { process } | Kind::Overrun { process } => {
                known.retain(|call, _| !of_key(call) || calls[call].process != *process);
            }
            Kind::Removed { cause: RemovalCause::Forgotten | RemovalCause::Changed(OPERATOR), .. } => {
                known.retain(|call, _| !of_key(call));
            }
            Kind::BodyPolled { call, first: true } => {
                let Some(second) = calls.get(call) else { continue };
                let knows = |(other, since): &(&CallId, &u64)| {
                    *other != call
                        && of_key(other)
                        && calls[other].process == second.process
                        && second.at > **since
                };
                if let Some((other, _)) = known.iter().find(knows) {
                    return Err(Broken {
                        promise: REMEMBERED,
                        at: *at,
                        key: *key,
                        by: vec![*call, *other],
                    });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

struct Made {
    at: u64,
    process: usize,
}
