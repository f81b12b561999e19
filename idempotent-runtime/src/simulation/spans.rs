//! The time of each record in the store: whether it was stored, renewed and kept as promised.

use super::call_plan::KeyPlan;
use super::check::{Checks, Seen};
use super::history::{BodyEnd, CallId, Event, OPERATOR, RemovalCause, Returned};
use super::incidents::Incident;
use super::promise::{Broken, DONE_STAYS, OWN_RECORD, RENEWED};
use crate::policy::{Release, Renew};

/// A record, and its time in the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) key: usize,
    pub(super) call: CallId,
    pub(super) done: bool,
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Seen {
    /// Until when the call counts its lease: from the first send without an answer, until a renewal is confirmed.
    pub(super) fn counts_until(&self, plan: &KeyPlan) -> u64 {
        let first = self.claim_sent.map(|sent| sent + plan.lease);
        let unrenewed = self.put_sent == Some(self.renewal_confirmed);
        first.filter(|_| unrenewed).unwrap_or(self.holds_until)
    }
}

impl Checks<'_> {
    pub(super) fn put(
        &mut self,
        event: &Event,
        call: CallId,
        done: bool,
        sent: u64,
        until: Option<u64>,
    ) {
        let Some(key) = event.key else { return };
        let lease = self.key_plan(call).lease;
        let seen = self.call_mut(call);
        seen.recorded |= done;
        // A claim that arrives after the end of its call is a stray: no body runs under it.
        seen.is_stray = !done && (seen.ended.is_some() || seen.ended_at.is_some());
        if !done && !seen.is_stray {
            seen.put_sent = Some(sent);
            seen.renewal_confirmed = sent;
            seen.expired = false;
            seen.holds_until = seen.holds_until.max(sent + lease);
        }
        let until = until.unwrap_or(u64::MAX);
        self.spans.push(Span {
            key,
            call,
            done,
            from: event.at,
            until,
        });
    }

    pub(super) fn set_span_end(&mut self, key: Option<usize>, call: CallId, until: Option<u64>) {
        let mine = |span: &&mut Span| Some(span.key) == key && span.call == call;
        if let Some(span) = self.spans.iter_mut().rev().find(mine) {
            span.until = until.unwrap_or(u64::MAX);
        }
    }

    pub(super) fn removed(
        &mut self,
        event: &Event,
        call: CallId,
        done: bool,
        cause: RemovalCause,
    ) -> Result<(), Broken> {
        let (at, Some(key)) = (event.at, event.key) else {
            return Ok(());
        };
        let mine = |span: &&mut Span| span.key == key && span.call == call && span.done == done;
        if let Some(span) = self.spans.iter_mut().rev().find(mine) {
            span.until = at;
        }
        match cause {
            RemovalCause::Forgotten => {
                self.excused.entry(key).or_insert(at);
                self.counts.add("records lost");
            }
            RemovalCause::Changed(OPERATOR) if !self.excuses => {}
            RemovalCause::Changed(by) if done || by != call => {
                if by == OPERATOR && self.operator_frees(key) {
                    self.excused.entry(key).or_insert(at);
                    self.counts.add("keys freed");
                } else if !self.excused(key) {
                    let promise = if done { DONE_STAYS } else { OWN_RECORD };
                    return self.broken(promise, at, [call]);
                }
            }
            RemovalCause::Changed(_) => {}
            RemovalCause::Expired if done || self.call(call).is_stray => {}
            RemovalCause::Expired => {
                self.call_mut(call).expired = true;
                self.counts.add("claims expired");
                if !self.excused(key) {
                    return self.unrenewed(at, call);
                }
            }
        }
        Ok(())
    }

    fn operator_frees(&self, key: usize) -> bool {
        let frees = |incident: &(u64, Incident)| matches!(incident.1, Incident::Free { key: freed, .. } if freed == key);
        self.plan.incidents.iter().any(frees)
    }

    /// Checks that an expired claim was renewed as long as its call needed it.
    fn unrenewed(&self, at: u64, call: CallId) -> Result<(), Broken> {
        let (seen, plan) = (self.call(call), self.key_plan(call));
        let needed = match (seen.body, seen.ended) {
            (Some(_), None) => true,
            (Some(_), Some((ended, _))) if ended > at => true,
            // The background takes over after the first attempt without an answer in time.
            (Some(_), Some((ended, BodyEnd::Success | BodyEnd::Failure | BodyEnd::Unknown))) => {
                plan.release != Release::Never
                    && ended + self.plan.deadline / 4 + 1 < seen.counts_until(plan)
            }
            (None, _) | (Some(_), Some((_, BodyEnd::Panic | BodyEnd::Held | BodyEnd::Stopped))) => {
                false
            }
        };
        let put = seen.put_sent.unwrap_or_default();
        let renewed = match plan.renew {
            Renew::Yes => true,
            Renew::No => false,
            Renew::Cap(cap) => u128::from(at) < u128::from(put) + cap.as_millis(),
        };
        let stopped = self.stops.iter().any(|(process, from, until)| {
            *process == seen.process && *from <= at && *until >= seen.renewal_confirmed
        });
        let was_reported = self
            .unrecorded
            .contains(&(seen.process, Some(self.call_plan(call).key)));
        let excused = stopped
            || was_reported
            || seen.frozen_for > 0
            || seen.tries > 0
            || seen.unguarded
            || seen.full
            || seen.returned == Some(Returned::LeaseLost);
        if needed && renewed && !excused {
            return self.broken(RENEWED, at, [call]);
        }
        Ok(())
    }
}
