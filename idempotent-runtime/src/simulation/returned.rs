//! Checks the answers to calls: each answer was true at some time during the call, and came in time.

use super::check::Checks;
use super::crossing::GRACE;
use super::history::{BodyEnd, CallId, Returned};
use super::promise::{Broken, IN_TIME, TRUE_ANSWER};
use crate::policy::{Renew, Settle};

impl Checks<'_> {
    /// Checks the answer to a call.
    pub(super) fn returned(
        &mut self,
        at: u64,
        call: CallId,
        returned: Returned,
    ) -> Result<(), Broken> {
        let seen = self.call_mut(call);
        (seen.ended_at, seen.returned) = (Some(at), Some(returned));
        let (process, made) = (seen.process, seen.made.unwrap_or_default());
        let own_body = seen.ended.map(|ended| ended.1);
        self.count_returned(call, returned, own_body);
        self.in_time(at, call)?;
        let undisturbed = self.plan.undisturbed();
        let (key, slack) = (self.call_plan(call).key, self.plan.deadline);
        // A call reports a known holder of the key rather than a failure of the store. So a call may be refused because of the
        // record that its process found last, even if that record is older than the call.
        let in_trouble = self.open_claims.iter().any(|(_, other, sent)| {
            *other != call
                && self.call(*other).process == process
                && self.call_plan(*other).key == key
                && *sent >= made
        });
        let was_stored = |done: Option<bool>, which: &dyn Fn(CallId) -> bool| {
            self.spans.iter().any(|span| {
                // Until a call has ended, its process may answer duplicates without the store, because it does not know the
                // outcome yet.
                let is_here = self.call(span.call).process == process;
                let seen = self.call(span.call);
                // The caller may have dropped the call while its body runs to its end.
                let finishes = self.call_plan(span.call).finishes && seen.body.is_some();
                let known_until = match (seen.ended_at, seen.ended) {
                    _ if in_trouble => u64::MAX,
                    _ if !is_here => span.until,
                    (Some(_), None) if finishes => u64::MAX,
                    (Some(at), Some((ended, _))) => span.until.max(at.max(ended) + slack),
                    (Some(at), None) => span.until.max(at + slack),
                    (None, _) => u64::MAX,
                };
                let late = if span.done { slack } else { 0 };
                span.key == key
                    && span.call != call
                    && done.is_none_or(|done| done == span.done)
                    && span.from <= at
                    && known_until.saturating_add(late) >= made
                    && which(span.call)
            })
        };
        let unguarded = |which: &dyn Fn(CallId) -> bool| self.runs_unguarded(call, which);
        let frozen = self.was_frozen(process, made, at);
        let is_true = match returned {
            Returned::Value(value) if value == call => own_body == Some(BodyEnd::Success),
            Returned::Value(value) => {
                let is_source = |other: CallId| other == value;
                let success = self.calls[value.0]
                    .ended
                    .is_some_and(|ended| ended.1 == BodyEnd::Success);
                success
                    && !self.differ(call, value)
                    && (was_stored(Some(true), &is_source)
                        || self.knows(at, call, &[BodyEnd::Success], &is_source)
                        || frozen)
            }
            Returned::BodyFailed => matches!(
                own_body,
                Some(BodyEnd::Failure | BodyEnd::Held | BodyEnd::Unknown)
            ),
            Returned::Panicked => own_body == Some(BodyEnd::Panic),
            Returned::InProgress | Returned::Taken => {
                let equal = |other: CallId| !self.differ(call, other);
                was_stored(Some(false), &equal) || unguarded(&equal)
            }
            Returned::Unknown => {
                let is_it = |other: CallId| self.unknown_to(call, other);
                was_stored(Some(false), &is_it) || self.knows(at, call, &[BodyEnd::Unknown], &is_it)
            }
            Returned::Done => {
                let equal = |other: CallId| !self.differ(call, other);
                let ends = [BodyEnd::Success];
                was_stored(Some(true), &equal) || self.knows(at, call, &ends, &equal) || frozen
            }
            Returned::NoResult => {
                let equal = |other: CallId| !self.differ(call, other);
                // The store had no room for the result, or its clock was set back.
                let is_kept =
                    |other: CallId| equal(other) && (self.call(other).full || self.excused(key));
                was_stored(Some(true), &equal) || was_stored(Some(false), &is_kept)
            }
            Returned::Mismatch => {
                let differs = |other: CallId| self.differ(call, other);
                let ends = [BodyEnd::Success, BodyEnd::Unknown];
                was_stored(None, &differs)
                    || self.knows(at, call, &ends, &differs)
                    || unguarded(&differs)
                    || frozen
            }
            Returned::LeaseLost => {
                let renews = self.key_plan(call).renew == Renew::Yes;
                !(undisturbed && renews) || self.excused(key) || self.call(call).frozen_for > 0
            }
            Returned::Unavailable => !undisturbed || frozen || self.ran_out_of_time(at, call),
            // `redemptions` checks these.
            Returned::TokenUsed | Returned::TokenUnknown => self.call_plan(call).token.is_some(),
            // All these calls have one key, so none meets a key in use.
            Returned::InUse | Returned::Otherwise(_) => false,
        };
        if !is_true {
            return self.broken(TRUE_ANSWER, at, [call]);
        }
        Ok(())
    }

    /// Whether such a call of the process runs without a claim. It is still the only body of its key in its process.
    fn runs_unguarded(&self, call: CallId, which: &dyn Fn(CallId) -> bool) -> bool {
        let (key, here) = (self.call_plan(call).key, self.call(call));
        let after = self.plan.deadline + self.plan.keys[key].lease;
        (0..self.calls.len()).map(CallId).any(|other| {
            let seen = self.call(other);
            seen.unguarded
                && seen.process == here.process
                && self.call_plan(other).key == key
                && seen
                    .ended_at
                    .is_none_or(|at| at + after >= here.made.unwrap_or_default())
                && which(other)
        })
    }

    /// Whether a leader may not have been polled for a while, because it is frozen or its process is paused. For its followers the store
    /// then does not answer, and they give up in time. Or they get an answer about a record that has expired in the meantime.
    fn was_frozen(&self, process: usize, made: u64, at: u64) -> bool {
        let mut calls = self.calls.iter();
        let mut stops = self.stops.iter();
        calls.any(|seen| seen.process == process && seen.frozen_for > 0)
            || stops
                .any(|(stopped, from, until)| *stopped == process && *from <= at && *until >= made)
    }

    /// Whether the process of the call, which returns now, knew such an outcome of its key. A process gives an outcome to duplicates before
    /// the store has it.
    fn knows(
        &self,
        at: u64,
        call: CallId,
        ends: &[BodyEnd],
        which: &dyn Fn(CallId) -> bool,
    ) -> bool {
        let (key, here) = (self.call_plan(call).key, self.call(call));
        let lives = self.plan.keys[key].ttl + GRACE;
        // A pause may be between the end and the first attempt in the background.
        let stops = self.stops.iter();
        let paused_until = stops.filter(|stop| stop.0 == here.process && stop.2 <= at);
        let paused_until = paused_until.map(|stop| stop.2).max().unwrap_or_default();
        (0..self.calls.len()).map(CallId).any(|other| {
            let seen = self.call(other);
            other != call
                && self.call_plan(other).key == key
                && seen.process == here.process
                && seen.ended.is_some_and(|(ended, how)| {
                    let delay = seen.frozen_for + 2 * self.plan.deadline;
                    let shown_until = ended.max(paused_until) + delay + lives;
                    ends.contains(&how) && here.made.is_some_and(|made| made <= shown_until)
                })
                && which(other)
        })
    }

    fn count_returned(&mut self, call: CallId, returned: Returned, own_body: Option<BodyEnd>) {
        self.counts.add("calls returned");
        self.counts.add(count_name(call, returned));
        let in_background = self.call_plan(call).settle == Settle::Background;
        if in_background && own_body == Some(BodyEnd::Success) && !self.call(call).recorded {
            self.counts.add("answers before the record");
        }
    }

    /// Whether a call may have spent its deadline behind leaders that were refused because of their tokens, one after another.
    fn ran_out_of_time(&self, at: u64, call: CallId) -> bool {
        let (seen, key) = (self.call(call), self.call_plan(call).key);
        let made = seen.made.unwrap_or_default();
        let was_before = |other: CallId| {
            let leader = self.call(other);
            let is_refused = matches!(
                leader.returned,
                Some(Returned::TokenUsed | Returned::TokenUnknown)
            );
            is_refused
                && leader.process == seen.process
                && leader.ended_at.is_some_and(|ended| ended >= made)
                && self.call_plan(other).key == key
        };
        at - made >= self.plan.deadline && (0..self.calls.len()).map(CallId).any(was_before)
    }

    /// Whether the body of an equal call ended without a known outcome.
    fn unknown_to(&self, call: CallId, other: CallId) -> bool {
        let ended = self.call(other).ended.map(|ended| ended.1);
        matches!(ended, Some(BodyEnd::Held | BodyEnd::Unknown)) && !self.differ(call, other)
    }

    fn differ(&self, one: CallId, other: CallId) -> bool {
        match (self.call_plan(one).payload, self.call_plan(other).payload) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        }
    }

    /// Checks that a call ended within its time.
    fn in_time(&self, at: u64, call: CallId) -> Result<(), Broken> {
        let (seen, plan) = (self.call(call), self.call_plan(call));
        let made = seen.made.unwrap_or_default();
        let stopped: u64 = self
            .stops
            .iter()
            .filter(|stop| stop.0 == seen.process)
            .map(|(_, from, until)| (*until).min(at).saturating_sub((*from).max(made)))
            .sum();
        let body: u64 = plan.steps.iter().sum();
        let deadline = self.plan.deadline;
        let redemption = plan.token.map_or(0, |_| deadline);
        let fence = u64::from(self.key_plan(call).fence) * deadline;
        let most = plan.wait.unwrap_or_default()
            + 5 * deadline / 2
            + redemption
            + fence
            + body
            + stopped
            + seen.frozen_for
            + 50;
        if at - made > most {
            return self.broken(IN_TIME, at, [call]);
        }
        Ok(())
    }
}

/// The name under which a run counts an answer.
fn count_name(call: CallId, returned: Returned) -> &'static str {
    match returned {
        Returned::Value(value) if value == call => "returned: its own value",
        Returned::Value(_) => "returned: replayed",
        Returned::BodyFailed => "returned: body failed",
        Returned::Panicked => "returned: panicked",
        Returned::InProgress => "returned: in progress",
        Returned::InUse => "returned: in use",
        Returned::Taken => "returned: taken",
        Returned::Unknown => "returned: outcome unknown",
        Returned::Done => "returned: done",
        Returned::NoResult => "returned: result unavailable",
        Returned::Mismatch => "returned: mismatch",
        Returned::LeaseLost => "returned: lease lost",
        Returned::Unavailable => "returned: unavailable",
        Returned::TokenUsed => "returned: token used",
        Returned::TokenUnknown => "returned: token unknown",
        Returned::Otherwise(_) => "returned: otherwise",
    }
}
