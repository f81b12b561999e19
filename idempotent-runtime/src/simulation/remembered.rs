//! Checks that a process runs no body for a key while it knows an outcome of the key that the store has not taken.

use std::collections::{BTreeMap, BTreeSet};

use super::call_plan::{BodyEnds, CallPlan};
use super::dice::Dice;
use super::history::{BodyEnd, CallId, Event, Kind, OPERATOR, RemovalCause, Sends};
use super::knobs::Plan;
use super::promise::{Broken, REMEMBERED};
use crate::policy::{OnLeaseLost, Release, Renew};

impl Plan {
    /// A success that the store refuses until its lease is over, a failure of another process with the key, and an equal call of the
    /// first process.
    pub(super) fn add_rival(&mut self, dice: &mut Dice) {
        self.message_faults.refuses_completions = 900;
        let key = &mut self.keys[0];
        (key.release, key.ttl) = (Release::OnError, key.lease + 4000);
        (key.renew, key.on_lease_lost) = (Renew::No, OnLeaseLost::Stop);
        let expiry = key.expiry();
        let mut starts = dice.within(0, 1000);
        for (slot, ends) in [
            (0, BodyEnds::Success),
            (1, BodyEnds::Failure),
            (0, BodyEnds::Success),
        ] {
            let plan = CallPlan::drawn(dice, &self.keys, self.ahead.len(), 0, false, false);
            self.calls.push(CallPlan {
                key: 0,
                payload: self.keys[0].payloads.then_some(1),
                starts,
                slot,
                ends,
                steps: vec![dice.within(0, 200)],
                built: plan.built && !self.keys[0].fence,
                ..plan
            });
            starts += expiry + dice.within(0, self.deadline);
        }
    }
}

pub(super) fn check(plan: &Plan, history: &[Event]) -> Result<(), Broken> {
    let mut calls: BTreeMap<CallId, Made> = BTreeMap::new();
    let mut senders: BTreeMap<u64, CallId> = BTreeMap::new();
    // The calls whose outcomes only their processes know, and when their bodies ended.
    let mut known: BTreeMap<CallId, u64> = BTreeMap::new();
    // The calls that have not ended.
    let mut open: BTreeSet<CallId> = BTreeSet::new();
    // When the store last took a done record of a key, and of which call.
    let mut done: BTreeMap<Option<usize>, (CallId, u64)> = BTreeMap::new();
    // The processes that do not poll a call of a key.
    let mut frozen: BTreeSet<(usize, Option<usize>)> = BTreeSet::new();
    let is_planned = |call: CallId| call.0 < plan.calls.len() || call == OPERATOR;
    // A redemption without a call has no outcome.
    let of_calls = history
        .iter()
        .filter(|event| event.kind.call().is_none_or(is_planned));
    for Event { at, key, kind } in of_calls {
        let of_key = |call: &CallId| Some(plan.calls[call.0].key) == *key;
        match kind {
            Kind::Made { call, process } => {
                let (at, process) = (*at, *process);
                calls.insert(*call, Made { at, process });
                open.insert(*call);
            }
            Kind::Returned { call, .. } | Kind::Dropped { call } | Kind::Died { call } => {
                open.remove(call);
            }
            // If its claim was certainly not stored, its outcome is not stored either.
            Kind::Unguarded { call } => {
                calls.remove(call);
            }
            Kind::BodyEnded { call, end } => {
                let key = &plan.keys[plan.calls[call.0].key];
                let is_kept = match end {
                    BodyEnd::Success => key.release == Release::OnError,
                    BodyEnd::Unknown => true,
                    _ => false,
                };
                // A call that ran beside an equal call may not be in the table.
                let process = calls.get(call).map(|made| made.process);
                let is_alone = !open.iter().any(|other| {
                    let here = calls.get(other).map(|made| made.process) == process;
                    here && other != call && of_key(other)
                });
                let is_known = is_kept && is_alone && process.is_some();
                known.extend(is_known.then_some((*call, *at)));
            }
            Kind::Put {
                call,
                sent,
                done: is_done,
                ..
            } => {
                known.retain(|other, ended| other != call || sent < ended);
                if *is_done {
                    done.insert(*key, (*call, *at));
                }
            }
            // A frozen call may stay in the table instead of the call that ran.
            Kind::Frozen { call, .. } => {
                let process = calls.get(call).map(|made| made.process);
                frozen.extend(process.map(|process| (process, *key)));
            }
            // An operator frees the key. Even if its record has gone by then, the process forgets what it knows, and what bodies that
            // still run will return.
            Kind::Sent {
                call: OPERATOR,
                op: Sends::Removal,
                ..
            } => {
                known.retain(|call, _| !of_key(call));
                calls.retain(|call, _| !of_key(call));
            }
            Kind::Sent { message, call, .. } => {
                senders.insert(*message, *call);
            }
            // The claim stays instead of the outcome.
            Kind::Refused {
                message,
                full: true,
            } => {
                if let Some(call) = senders.get(message) {
                    known.remove(call);
                }
            }
            Kind::Crashed { process } | Kind::Paused { process } => {
                known.retain(|call, _| calls[call].process != *process);
            }
            // The claim of another call is no reason to forget, because that call may fail. Its success is one.
            Kind::Unrecorded { process } => {
                let other = done.get(key);
                known.retain(|call, ended| {
                    let is_replaced = other.is_some_and(|(by, at)| by != call && at >= ended);
                    !is_replaced || !of_key(call) || calls[call].process != *process
                });
            }
            Kind::Removed {
                cause: RemovalCause::Forgotten | RemovalCause::Changed(OPERATOR),
                ..
            } => {
                known.retain(|call, _| !of_key(call));
            }
            Kind::BodyPolled { call, first: true } => {
                let Some(second) = calls.get(call) else {
                    continue;
                };
                // The first attempt in the background begins when the deadline of the caller is over.
                let is_of = |(other, ended): &(&CallId, &u64)| {
                    *other != call
                        && of_key(other)
                        && calls[other].process == second.process
                        && second.at > **ended + 2 * plan.deadline
                        && *at < **ended + plan.keys[plan.calls[other.0].key].ttl
                };
                let is_frozen = frozen.contains(&(second.process, *key));
                if let Some((other, _)) = known.iter().find(is_of).filter(|_| !is_frozen) {
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
