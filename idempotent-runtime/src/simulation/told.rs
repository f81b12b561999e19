//! What calls are told, checked: it was true while they were made, and came in time.

use super::check::Checks;
use super::history::{BodyEnd, CallId, Told};
use super::promise::{Broken, IN_TIME, TRUE};
use crate::policy::Renew;

impl Checks<'_> {
    /// A call has its answer.
    pub(super) fn told(&mut self, at: u64, call: CallId, told: Told) -> Result<(), Broken> {
        let seen = self.seen(call);
        (seen.over, seen.told) = (Some(at), Some(told));
        let (process, made) = (seen.process, seen.made.unwrap_or_default());
        let own_body = seen.ended.map(|ended| ended.1);
        self.counts.add("calls told");
        self.counts.add(match told {
            Told::Value(value) if value == call => "told: its own value",
            Told::Value(_) => "told: replayed",
            Told::BodyFailed => "told: body failed",
            Told::Panicked => "told: panicked",
            Told::InProgress => "told: in progress",
            Told::Taken => "told: taken",
            Told::Done => "told: done",
            Told::Mismatch => "told: mismatch",
            Told::LeaseLost => "told: lease lost",
            Told::Unavailable => "told: unavailable",
            Told::Otherwise(_) => "told: otherwise",
        });
        self.in_time(at, call)?;
        let fair = self.plan.fair();
        let key = self.call_plan(call).key;
        let slack = self.plan.deadline;
        // That another has the key is told before that the store is away: who follows is told so of the record that
        // was found last, which may be older than the call.
        let in_trouble = self.open_claims.iter().any(|(_, other, sent)| {
            *other != call
                && self.of(*other).process == process
                && self.call_plan(*other).key == key
                && *sent >= made
        });
        let stands = |done: Option<bool>, which: &dyn Fn(CallId) -> bool| {
            self.spans.iter().any(|span| {
                // While a call is not over, its process may tell of it: what became of it is not known there yet.
                let beside = self.of(span.call).process == process;
                let seen = self.of(span.call);
                // Its caller may have gone, and its body run to its end.
                let finishes = self.call_plan(span.call).finishes && seen.body.is_some();
                let known_until = match (seen.over, seen.ended) {
                    _ if in_trouble => u64::MAX,
                    _ if !beside => span.until,
                    (Some(_), None) if finishes => u64::MAX,
                    (Some(over), Some((ended, _))) => span.until.max(over.max(ended) + slack),
                    (Some(over), None) => span.until.max(over + slack),
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
        // Without a claim a body is the only one in its process all the same.
        let unguarded = |which: &dyn Fn(CallId) -> bool| {
            (0..self.calls.len()).map(CallId).any(|other| {
                let seen = self.of(other);
                seen.unguarded
                    && seen.process == process
                    && self.call_plan(other).key == key
                    && seen
                        .over
                        .is_none_or(|over| over + slack + self.plan.keys[key].lease >= made)
                    && which(other)
            })
        };
        // Who follows a claim that nobody polls, for a while or in a process that stands still, sees a store that does
        // not answer, and gives up in its own time; or is told, when it is polled at last, of what has expired since.
        let frozen =
            self.calls
                .iter()
                .any(|seen| seen.process == process && seen.frozen_for > 0)
                || self.stops.iter().any(|(stopped, from, until)| {
                    *stopped == process && *from <= at && *until >= made
                });
        let true_of_some = match told {
            Told::Value(value) if value == call => own_body == Some(BodyEnd::Success),
            Told::Value(value) => {
                let said = |other: CallId| other == value;
                let success = self.calls[value.0]
                    .ended
                    .is_some_and(|ended| ended.1 == BodyEnd::Success);
                success && !self.differ(call, value) && (stands(Some(true), &said) || frozen)
            }
            Told::BodyFailed => own_body == Some(BodyEnd::Failure),
            Told::Panicked => own_body == Some(BodyEnd::Panic),
            Told::InProgress | Told::Taken => {
                let equal = |other: CallId| !self.differ(call, other);
                stands(Some(false), &equal) || unguarded(&equal)
            }
            Told::Done => stands(Some(true), &|other| !self.differ(call, other)) || frozen,
            Told::Mismatch => {
                let differs = |other: CallId| self.differ(call, other);
                stands(None, &differs) || unguarded(&differs) || frozen
            }
            Told::LeaseLost => {
                let renews = self.key_plan(call).renew == Renew::Yes;
                !(fair && renews) || self.excused(key) || self.of(call).frozen_for > 0
            }
            Told::Unavailable => !fair || frozen,
            Told::Otherwise(_) => false,
        };
        if !true_of_some {
            return self.broken(TRUE, at, [call]);
        }
        Ok(())
    }

    fn differ(&self, one: CallId, other: CallId) -> bool {
        match (self.call_plan(one).payload, self.call_plan(other).payload) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        }
    }

    /// Whether a call ended within what it was given.
    fn in_time(&self, at: u64, call: CallId) -> Result<(), Broken> {
        let (seen, plan) = (self.of(call), self.call_plan(call));
        let made = seen.made.unwrap_or_default();
        let stopped: u64 = self
            .stops
            .iter()
            .filter(|stop| stop.0 == seen.process)
            .map(|(_, from, until)| (*until).min(at).saturating_sub((*from).max(made)))
            .sum();
        let body: u64 = plan.steps.iter().sum();
        let deadline = self.plan.deadline;
        let most = plan.wait.unwrap_or_default()
            + 5 * deadline / 2
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
