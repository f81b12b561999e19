//! Checks that a process runs no body for a key while it knows an outcome of the key that the store has not taken.

use std::collections::{BTreeMap, BTreeSet};

use super::call_plan::{BodyEnds, CallPlan, KeyPlan};
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
    let mut memory = Memory::new(plan);
    let is_planned = |call: CallId| call.0 < plan.calls.len() || call == OPERATOR;
    // A redemption without a call has no outcome.
    let of_calls = history
        .iter()
        .filter(|event| event.kind.call().is_none_or(is_planned));
    for event in of_calls {
        memory.note_call(event);
        memory.note_reason_to_forget(event);
        memory.check_body(event)?;
    }
    Ok(())
}

/// What each process knows.
struct Memory<'a> {
    plan: &'a Plan,
    calls: BTreeMap<CallId, Made>,
    /// The calls that sent these messages.
    senders: BTreeMap<u64, CallId>,
    /// The calls whose outcomes only their processes know, and when their bodies ended.
    known: BTreeMap<CallId, u64>,
    /// The calls that have not ended.
    open: BTreeSet<CallId>,
    /// The call of the last done record of a key, and until when the record is stored.
    done: BTreeMap<Option<usize>, (CallId, u64)>,
    /// The processes that do not poll a call of a key.
    frozen: BTreeSet<(usize, Option<usize>)>,
}

struct Made {
    at: u64,
    process: usize,
}

impl<'a> Memory<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            calls: BTreeMap::new(),
            senders: BTreeMap::new(),
            known: BTreeMap::new(),
            open: BTreeSet::new(),
            done: BTreeMap::new(),
            frozen: BTreeSet::new(),
        }
    }

    /// Whether the call has this key.
    fn is_of(&self, call: CallId, key: Option<usize>) -> bool {
        key == Some(self.plan.calls[call.0].key)
    }

    fn process_of(&self, call: CallId) -> Option<usize> {
        self.calls.get(&call).map(|made| made.process)
    }

    fn note_call(&mut self, event: &Event) {
        let Event { at, key, kind } = event;
        match kind {
            Kind::Made { call, process } => {
                let (at, process) = (*at, *process);
                self.calls.insert(*call, Made { at, process });
                self.open.insert(*call);
            }
            Kind::Returned { call, .. } | Kind::Dropped { call } | Kind::Died { call } => {
                self.open.remove(call);
            }
            Kind::BodyEnded { call, end } => {
                let is_kept = match end {
                    BodyEnd::Success => self.key_plan(*call).release == Release::OnError,
                    BodyEnd::Unknown => true,
                    _ => false,
                };
                // A call that ran beside an equal call may not be in the table.
                let process = self.process_of(*call);
                let is_alone = !self.open.iter().any(|other| {
                    let is_here = self.process_of(*other) == process;
                    is_here && other != call && self.is_of(*other, *key)
                });
                if is_kept && is_alone && process.is_some() {
                    self.known.insert(*call, *at);
                }
            }
            // A frozen call may stay in the table instead of the call that ran.
            Kind::Frozen { call, .. } => {
                let process = self.process_of(*call);
                self.frozen.extend(process.map(|process| (process, *key)));
            }
            Kind::Sent { message, call, .. } => {
                self.senders.insert(*message, *call);
            }
            _ => {}
        }
    }

    fn key_plan(&self, call: CallId) -> &KeyPlan {
        &self.plan.keys[self.plan.calls[call.0].key]
    }

    fn note_reason_to_forget(&mut self, event: &Event) {
        let Event { key, kind, .. } = event;
        match kind {
            // If its claim was certainly not stored, its outcome is not stored either.
            Kind::Unguarded { call } => {
                self.calls.remove(call);
            }
            Kind::Put {
                call,
                sent,
                done,
                until,
            } => {
                self.known
                    .retain(|other, ended| other != call || sent < ended);
                if *done {
                    self.done.insert(*key, (*call, until.unwrap_or(u64::MAX)));
                }
            }
            // The claim stays instead of the outcome.
            Kind::Refused {
                message,
                full: true,
            } => {
                if let Some(call) = self.senders.get(message) {
                    self.known.remove(call);
                }
            }
            Kind::Crashed { process } | Kind::Paused { process } => {
                self.forget(|memory, call| memory.process_of(call) == Some(*process));
            }
            // The claim of another call is no reason to forget, because that call may fail. Its success is one.
            Kind::Unrecorded { process } => self.forget(|memory, call| {
                let other = memory.done.get(key);
                let is_replaced =
                    other.is_some_and(|(by, until)| *by != call && *until >= memory.known[&call]);
                (is_replaced || memory.key_plan(call).release != Release::OnError)
                    && memory.is_of(call, *key)
                    && memory.process_of(call) == Some(*process)
            }),
            Kind::Removed {
                cause: RemovalCause::Forgotten | RemovalCause::Changed(OPERATOR),
                ..
            } => self.forget(|memory, call| memory.is_of(call, *key)),
            // An operator frees the key. Even if its record has gone by then, the process forgets what it knows, and what bodies that
            // still run will return.
            Kind::Sent {
                call: OPERATOR,
                op: Sends::Removal,
                ..
            } => {
                self.forget(|memory, call| memory.is_of(call, *key));
                let calls = &self.plan.calls;
                self.calls.retain(|call, _| Some(calls[call.0].key) != *key);
            }
            _ => {}
        }
    }

    /// Forgets the outcomes of these calls.
    fn forget(&mut self, of: impl Fn(&Self, CallId) -> bool) {
        let calls = self.known.keys().copied();
        let forgotten: Vec<_> = calls.filter(|call| of(self, *call)).collect();
        self.known.retain(|call, _| !forgotten.contains(call));
    }

    fn check_body(&self, event: &Event) -> Result<(), Broken> {
        let Event { at, key, kind } = event;
        let Kind::BodyPolled { call, first: true } = kind else {
            return Ok(());
        };
        let Some(second) = self.calls.get(call) else {
            return Ok(());
        };
        // The first attempt in the background begins when the deadline of the caller is over.
        let is_of = |(other, ended): &(&CallId, &u64)| {
            *other != call
                && self.is_of(**other, *key)
                && self.process_of(**other) == Some(second.process)
                && second.at > **ended + 2 * self.plan.deadline
                && *at < **ended + self.key_plan(**other).ttl
        };
        let is_frozen = self.frozen.contains(&(second.process, *key));
        match self.known.iter().find(is_of).filter(|_| !is_frozen) {
            Some((other, _)) => Err(Broken {
                promise: REMEMBERED,
                at: *at,
                key: *key,
                by: vec![*call, *other],
            }),
            None => Ok(()),
        }
    }
}
