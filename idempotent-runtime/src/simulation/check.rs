//! Checks a history against the promises.
//!
//! Losses that no protocol can prevent are excused, per key: records that the store or an operator removed. Nothing else is
//! excused.

use std::collections::BTreeMap;

use super::call_plan::{CallPlan, KeyPlan};
use super::count::Counts;
use super::history::{BodyEnd, CallId, Event, Kind, OPERATOR, Returned, Sends};
use super::knobs::Plan;
use super::promise::{
    AFTER_LEASE, Broken, ENDS, KEY_STAYS, ONE_BODY, OVERTAKEN, OWN_CLAIM, RECORDED,
};
use super::spans::Span;
use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Release};

/// Checks the promises during calls. `excuses`: lost records are an excuse.
pub(super) fn check(
    plan: &Plan,
    history: &[Event],
    excuses: bool,
    counts: &mut Counts,
) -> Result<(), Broken> {
    let mut checks = Checks {
        plan,
        excuses,
        calls: vec![Seen::default(); plan.calls.len()],
        spans: Vec::new(),
        excused: BTreeMap::new(),
        messages: BTreeMap::new(),
        open_claims: Vec::new(),
        stops: Vec::new(),
        unrecorded: Vec::new(),
        counts,
    };
    for event in history {
        checks.see(event)?;
    }
    checks.at_the_end()
}

/// The state of one call, as its events show it.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(super) struct Seen {
    pub(super) process: usize,
    pub(super) made: Option<u64>,
    pub(super) ended_at: Option<u64>,
    pub(super) died: bool,
    pub(super) returned: Option<Returned>,
    pub(super) body: Option<u64>,
    pub(super) ended: Option<(u64, BodyEnd)>,
    pub(super) unguarded: bool,
    pub(super) frozen_for: u64,
    /// Until when the call may run its body.
    pub(super) holds_until: u64,
    /// Until when the key stays taken after a hold: the end of the lease that the call knew when its body ended.
    pub(super) held_until: u64,
    /// When the first claim was sent that may not have been refused.
    pub(super) claim_sent: Option<u64>,
    /// When the request was sent that stored the record of the call.
    pub(super) put_sent: Option<u64>,
    /// The number of renewals since the last confirmed one.
    pub(super) tries: u32,
    pub(super) renewal_confirmed: u64,
    pub(super) full: bool,
    pub(super) is_stray: bool,
    pub(super) recorded: bool,
    pub(super) expired: bool,
}

pub(super) struct Checks<'a> {
    pub(super) plan: &'a Plan,
    pub(super) excuses: bool,
    pub(super) calls: Vec<Seen>,
    pub(super) spans: Vec<Span>,
    /// The keys with lost records, and the time of the first loss.
    pub(super) excused: BTreeMap<usize, u64>,
    pub(super) messages: BTreeMap<u64, (CallId, Sends, u64)>,
    /// Claims without an answer: message, call and when it was sent.
    pub(super) open_claims: Vec<(u64, CallId, u64)>,
    /// Pauses and crashes: process, begin and end.
    pub(super) stops: Vec<(usize, u64, u64)>,
    /// Ends that were reported as unrecorded: process and key.
    pub(super) unrecorded: Vec<(usize, Option<usize>)>,
    pub(super) counts: &'a mut Counts,
}

impl<'a> Checks<'a> {
    pub(super) fn key_plan(&self, call: CallId) -> &'a KeyPlan {
        &self.plan.keys[self.call_plan(call).key]
    }

    pub(super) fn call_plan(&self, call: CallId) -> &'a CallPlan {
        &self.plan.calls[call.0]
    }

    pub(super) fn call_mut(&mut self, call: CallId) -> &mut Seen {
        &mut self.calls[call.0]
    }

    pub(super) fn call(&self, call: CallId) -> &Seen {
        &self.calls[call.0]
    }

    pub(super) fn excused(&self, key: usize) -> bool {
        self.excuses && self.excused.contains_key(&key)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each thing that happens")]
    fn see(&mut self, event: &Event) -> Result<(), Broken> {
        let Event { at, key, kind } = *event;
        if kind.call().is_some_and(|call| call.0 >= self.calls.len())
            && !matches!(kind, Kind::Sent { .. })
        {
            return Ok(());
        }
        match kind {
            Kind::Made { call, process } => {
                let seen = self.call_mut(call);
                (seen.made, seen.process) = (Some(at), process);
                self.counts.add("calls made");
            }
            Kind::NoProcess { .. } => self.counts.add("calls without a process"),
            Kind::Frozen { call, until } => {
                self.call_mut(call).frozen_for += until - at;
                self.counts.add("callers frozen");
            }
            Kind::Dropped { call } => {
                self.call_mut(call).ended_at = Some(at);
                self.counts.add("calls dropped");
            }
            Kind::Died { call } => {
                let seen = self.call_mut(call);
                (seen.ended_at, seen.died) = (Some(at), true);
                self.counts.add("calls died");
            }
            Kind::Returned { call, returned } => self.returned(at, call, returned)?,
            Kind::BodyPolled { call, first: true } => self.begins(at, call)?,
            Kind::BodyPolled { call, first: false } => self.polled(at, call)?,
            Kind::Effect { .. } => self.counts.add("effects"),
            Kind::BodyEnded { call, end } => {
                let plan = self.key_plan(call);
                let seen = self.call_mut(call);
                seen.ended = Some((at, end));
                // A renewal without an answer does not count, because the mark of the hold replaces its expiry.
                let confirmed = seen.renewal_confirmed + plan.lease;
                seen.held_until = seen.counts_until(plan).min(confirmed);
                self.counts.add(match end {
                    BodyEnd::Success => "successes",
                    BodyEnd::Failure => "failures",
                    BodyEnd::Panic => "panics",
                    BodyEnd::Held => "holds",
                    BodyEnd::Unknown => "unknown outcomes",
                    BodyEnd::Stopped => "bodies stopped",
                });
            }
            Kind::Unguarded { call } => {
                // Only if the policy allows it.
                self.call_mut(call).unguarded =
                    self.call_plan(call).on_store_error == OnStoreError::Run;
                self.counts.add("unguarded");
            }
            Kind::Unrecorded { process } => {
                self.unrecorded.push((process, key));
                self.counts.add("unrecorded");
            }
            Kind::Overrun { .. } => self.counts.add("leases lost"),
            Kind::Sent { message, call, op } => {
                self.messages.insert(message, (call, op, at));
                match op {
                    _ if call == OPERATOR => {}
                    Sends::Renewal => self.call_mut(call).tries += 1,
                    Sends::Claim => {
                        self.open_claims.push((message, call, at));
                        self.call_mut(call).claim_sent.get_or_insert(at);
                    }
                    _ => {}
                }
                self.counts.add("requests");
            }
            Kind::Answered { message, fine } => {
                if fine {
                    self.open_claims.retain(|open| open.0 != message);
                    if let Some((call, Sends::Claim, _)) = self.messages.get(&message).copied()
                        && call != OPERATOR
                        && self.call(call).put_sent.is_none()
                    {
                        // Another call has the key, so the next claim has a new owner.
                        self.call_mut(call).claim_sent = None;
                    }
                }
                if let Some((call, Sends::Renewal, sent)) = self.messages.get(&message).copied()
                    && fine
                    && call != OPERATOR
                {
                    let seen = self.call_mut(call);
                    seen.renewal_confirmed = seen.renewal_confirmed.max(sent);
                    seen.tries = 0;
                    self.counts.add("renewals");
                }
            }
            Kind::Arrived { given_up, .. } => {
                if given_up {
                    self.counts.add("late requests");
                }
            }
            Kind::Lost { reply, .. } => self.counts.add(if reply {
                "replies lost"
            } else {
                "requests lost"
            }),
            Kind::Refused { message, full } => {
                if let Some((call, op, _)) = self.messages.get(&message).copied()
                    && full
                    && !matches!(op, Sends::Exchange | Sends::Fence)
                    && call != OPERATOR
                {
                    self.call_mut(call).full = true;
                }
                self.counts.add("refusals");
            }
            Kind::Put {
                call,
                done,
                sent,
                until,
            } => self.put(event, call, done, sent, until),
            Kind::Touched { call, sent, until } => {
                let lease = self.key_plan(call).lease;
                let seen = self.call_mut(call);
                seen.holds_until = seen.holds_until.max(sent + lease);
                self.set_span_end(key, call, Some(until));
            }
            Kind::ExpiryMoved { call, until, .. } => {
                // After a jump of the clock a record may count as lost before it is removed.
                key.map(|key| self.excused.entry(key).or_insert(at));
                self.set_span_end(key, call, until);
            }
            Kind::Removed { call, done, cause } => self.removed(event, call, done, cause)?,
            Kind::Crashed { process } => {
                self.stops.push((process, at, u64::MAX));
                self.counts.add("crashes");
            }
            Kind::Paused { process } => {
                self.stops.push((process, at, u64::MAX));
                self.counts.add("pauses");
            }
            Kind::Resumed { process } => {
                let stop = self
                    .stops
                    .iter_mut()
                    .rev()
                    .find(|stop| stop.0 == process && stop.2 == u64::MAX);
                if let Some(stop) = stop {
                    stop.2 = at;
                }
            }
            Kind::StoreFault(_)
            // `redemptions` checks these.
            | Kind::Token { .. }
            | Kind::NotWithdrawn { .. }
            // `fenced` checks these.
            | Kind::Drawn { .. }
            | Kind::Fenced { .. }
            | Kind::FenceEnded { .. }
            // `stepped` checks these.
            | Kind::StepBegan { .. }
            | Kind::StepReturned { .. }
            // `in_batches` checks these.
            | Kind::HandedOver { .. }
            | Kind::Repeated { .. }
            | Kind::Replied { .. }
            | Kind::Received { .. }
            | Kind::Stuck
            | Kind::TasksEnd
            | Kind::GivenUp { .. } => {}
        }
        Ok(())
    }

    pub(super) fn broken<const N: usize>(
        &self,
        promise: &'static str,
        at: u64,
        by: [CallId; N],
    ) -> Result<(), Broken> {
        let key = by.first().map(|call| self.call_plan(*call).key);
        Err(Broken {
            promise,
            at,
            key,
            by: by.to_vec(),
        })
    }

    /// The other calls with the same key whose bodies have begun.
    fn others(&self, call: CallId) -> impl Iterator<Item = CallId> + use<> {
        let key = self.call_plan(call).key;
        let bodies = |id: &CallId| {
            *id != call && self.call_plan(*id).key == key && self.call(*id).body.is_some()
        };
        let others: Vec<_> = (0..self.calls.len()).map(CallId).filter(bodies).collect();
        others.into_iter()
    }

    fn begins(&mut self, at: u64, call: CallId) -> Result<(), Broken> {
        self.counts.add("bodies");
        let key = self.call_plan(call).key;
        if self.call(call).unguarded {
            self.call_mut(call).body = Some(at);
            return Ok(());
        }
        if at >= self.call(call).holds_until {
            return self.broken(OWN_CLAIM, at, [call]);
        }
        let mut takes_over = false;
        for other in self.others(call) {
            let seen = self.call(other);
            if seen.unguarded || self.excused(key) {
                continue;
            }
            takes_over |=
                seen.expired && seen.ended.is_none_or(|ended| ended.1 == BodyEnd::Stopped);
            if seen.ended.is_none() && at < seen.holds_until {
                return self.broken(ONE_BODY, at, [call, other]);
            }
            let plan = self.key_plan(other);
            let releases = self.call_plan(other).on_cancel == OnCancel::Release;
            let taken_until = match (plan.release, seen.ended, seen.claim_sent) {
                (_, Some((_, BodyEnd::Stopped)), _) if releases => 0,
                (Release::OnError, Some((ended, BodyEnd::Success)), _) if !seen.expired => {
                    ended + plan.ttl
                }
                (Release::OnError, Some((_, BodyEnd::Held)), _) if !seen.expired => seen.held_until,
                (_, Some((ended, BodyEnd::Unknown)), _) if !seen.expired => ended + plan.ttl,
                (Release::Never, _, Some(sent)) => sent + plan.ttl,
                _ => 0,
            };
            if at < taken_until {
                return self.broken(KEY_STAYS, at, [call, other]);
            }
        }
        if takes_over {
            self.counts.add("takeovers");
        }
        self.call_mut(call).body = Some(at);
        Ok(())
    }

    fn polled(&mut self, at: u64, call: CallId) -> Result<(), Broken> {
        let (key, plan) = (self.call_plan(call).key, self.key_plan(call));
        let seen = self.call(call);
        if seen.unguarded || plan.on_lease_lost == OnLeaseLost::Continue {
            return Ok(());
        }
        if at >= seen.holds_until {
            return self.broken(AFTER_LEASE, at, [call]);
        }
        let began = seen.body.unwrap_or_default();
        for other in self.others(call) {
            let other_began = self.call(other).body.unwrap_or_default();
            if other_began > began && !self.call(other).unguarded && !self.excused(key) {
                return self.broken(OVERTAKEN, at, [call, other]);
            }
        }
        Ok(())
    }

    fn at_the_end(&mut self) -> Result<(), Broken> {
        for call in (0..self.calls.len()).map(CallId) {
            let (seen, plan) = (self.call(call), self.key_plan(call));
            if seen.made.is_some() && seen.ended_at.is_none() {
                return self.broken(ENDS, 0, [call]);
            }
            let success = matches!(seen.ended, Some((_, BodyEnd::Success)));
            let marked = plan.release == Release::OnError;
            let key = self.call_plan(call).key;
            let was_reported = self.unrecorded.contains(&(seen.process, Some(key)));
            let crashed = self
                .stops
                .iter()
                .any(|(process, _, until)| *process == seen.process && *until == u64::MAX);
            let open = self.call_plan(call).on_store_error == OnStoreError::Run;
            if success
                && marked
                && !seen.recorded
                && !was_reported
                && !crashed
                && !open
                && !self.excused(key)
            {
                return self.broken(RECORDED, 0, [call]);
            }
        }
        Ok(())
    }
}
