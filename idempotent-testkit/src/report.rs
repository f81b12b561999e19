//! What happened in a storm of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use idempotent_runtime::EventKind;
use idempotent_runtime::port::testkit::Recorded;

/// What happened in a [`storm`](super::storm). Its text is a table of the counts for each endpoint.
#[derive(Debug, Clone)]
#[must_use = "a storm tests nothing by itself: use `assert_ran_once`, or the counts"]
pub struct StormReport<R> {
    results: Vec<R>,
    endpoints: BTreeMap<String, EndpointCounts>,
}

/// The ends of the calls of one endpoint.
#[derive(Debug, Clone, Default)]
struct EndpointCounts {
    ran: usize,
    failed: usize,
    replayed: usize,
    refused: usize,
    /// Refused calls that get no answer about the equal call: their payload is another, or its result is not stored.
    unanswered: usize,
    unserved: usize,
    bypassed: usize,
    /// Calls whose body ran without a claim because the store was unavailable. They are also in `ran` or `failed`.
    without_store: usize,
    keys: BTreeSet<String>,
    /// The text of the first error of a call that was not served.
    trouble: Option<String>,
}

impl<R> StormReport<R> {
    pub(super) fn new(results: Vec<R>, events: Vec<Recorded>) -> Self {
        let mut endpoints = BTreeMap::<String, EndpointCounts>::new();
        for event in events {
            let counts = endpoints.entry(event.endpoint.clone()).or_default();
            counts.add(event);
        }
        Self { results, endpoints }
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.results.len()
    }

    /// How many bodies ran and ended with success.
    pub fn ran(&self) -> usize {
        self.sum(|counts| counts.ran)
    }

    /// How many bodies ended without success, with a panic, or without their lease, and how many calls were dropped.
    pub fn failed(&self) -> usize {
        self.sum(|counts| counts.failed)
    }

    /// How many calls got the stored result of another call.
    pub fn replayed(&self) -> usize {
        self.sum(|counts| counts.replayed)
    }

    /// How many calls were refused because of another call or because of their token. A call that `on_duplicate` answers is refused,
    /// too.
    pub fn refused(&self) -> usize {
        self.sum(|counts| counts.refused)
    }

    /// How many calls were refused because the store cannot serve them, or because they are not set up correctly.
    pub fn unserved(&self) -> usize {
        self.sum(|counts| counts.unserved)
    }

    /// How many bodies ran without a claim: because `when` is false or the setting `disabled` is true, because the store is unavailable and `on_store_error` is `"run"`, or
    /// because the call did not use the handle of the storm at all.
    pub fn unguarded(&self) -> usize {
        self.sum(|counts| counts.bypassed + counts.without_store) + self.silent()
    }

    /// What the calls returned, in the order of their numbers.
    pub fn results(&self) -> &[R] {
        &self.results
    }

    /// What the calls returned, in the order of their numbers.
    pub fn into_results(self) -> Vec<R> {
        self.results
    }

    /// Calls without an event of the handle. A call that makes several guarded calls can hide such a call.
    fn silent(&self) -> usize {
        self.calls().saturating_sub(self.sum(EndpointCounts::ends))
    }

    fn sum(&self, count: impl Fn(&EndpointCounts) -> usize) -> usize {
        self.endpoints.values().map(count).sum()
    }

    /// What is wrong if exactly one body had to run in each endpoint, and what to look at.
    pub(super) fn why_not_once(&self) -> Option<String> {
        if self.calls() == 0 {
            return Some("the storm has no calls".to_owned());
        }
        let silent = self.silent();
        if silent > 0 || self.endpoints.is_empty() {
            return Some(format!(
                "{silent} of {} calls did not use this handle, so they are not guarded: is the function without `#[idempotent]`, does \
                 it use another handle (`using = …`), or does it run in a spawned task, which is outside of the scope?",
                self.calls()
            ));
        }
        let mut wrong = self.endpoints.iter().filter_map(|(endpoint, counts)| {
            let why = counts.why_not_once()?;
            Some(format!("`{endpoint}`: {why}"))
        });
        wrong.next()
    }
}

impl EndpointCounts {
    fn add(&mut self, event: Recorded) {
        use EventKind as Kind;

        self.keys.extend(event.key);
        match event.kind {
            Kind::Executed => self.ran += 1,
            Kind::Failed | Kind::LeaseLost | Kind::Panicked | Kind::Cancelled => self.failed += 1,
            Kind::Replayed => self.replayed += 1,
            Kind::Bypassed | Kind::Disabled => self.bypassed += 1,
            Kind::Unguarded => self.without_store += 1,
            Kind::StoreError | Kind::Invalid => {
                self.unserved += 1;
                self.trouble = self.trouble.take().or(event.error);
            }
            Kind::Mismatch | Kind::ResultUnavailable => {
                self.refused += 1;
                self.unanswered += 1;
            }
            Kind::InProgress | Kind::Done | Kind::Taken | Kind::TokenRefused => self.refused += 1,
            note => debug_assert!(!note.is_end(), "{note} is an end of a call"),
        }
    }

    /// How many calls ended.
    fn ends(&self) -> usize {
        self.ran + self.failed + self.replayed + self.refused + self.unserved + self.bypassed
    }

    fn why_not_once(&self) -> Option<String> {
        let (ran, keys) = (self.ran, self.keys.len());
        Some(if self.unserved > 0 {
            let trouble = self.trouble.as_deref().unwrap_or("no reason is known");
            format!("{} calls were not served: {trouble}", self.unserved)
        } else if self.bypassed > 0 {
            format!(
                "{} calls were not guarded: look at `when`, and at the setting `disabled`",
                self.bypassed
            )
        } else if self.without_store > 0 {
            format!(
                "{} bodies ran without a claim: the store was unavailable, and `on_store_error` is `\"run\"`",
                self.without_store
            )
        } else if self.failed > 0 {
            format!(
                "{} bodies failed or were dropped: the first failure is in the results of the storm. A failure frees the key, so the \
                 next equal call runs",
                self.failed
            )
        } else if ran == 0 {
            "no body ran: the key was taken before the storm. Use a new store, or another key"
                .to_owned()
        } else if ran > 1 && keys > 1 {
            format!(
                "{ran} bodies ran, because the calls have {keys} different keys: look at `key`. Is a part of it new in each call, such \
                 as a time or a random number?"
            )
        } else if ran > 1 {
            format!(
                "{ran} bodies of one key ran one after the other: with `release = true` the key is free when a body ends, and after a \
                 short `ttl` it is free, too. With `release = true`, let the body wait for something while the other calls begin"
            )
        } else if self.unanswered > 0 {
            format!(
                "{} calls were refused with `PayloadMismatch` or `ResultUnavailable`, as a real repetition would be. Is a part of `payload` \
                 new in each call, such as a time, or is the result too large to be stored?",
                self.unanswered
            )
        } else {
            return None;
        })
    }
}

impl<R> fmt::Display for StormReport<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.calls())?;
        for (endpoint, counts) in &self.endpoints {
            write!(f, "\n  `{endpoint}`: {counts}")?;
        }
        match self.silent() {
            0 => Ok(()),
            silent => write!(f, "\n  without this handle: {silent}"),
        }
    }
}

impl fmt::Display for EndpointCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ran, {} failed, {} replayed, {} refused, {} not served, {} unguarded; {} keys",
            self.ran,
            self.failed,
            self.replayed,
            self.refused,
            self.unserved,
            self.bypassed + self.without_store,
            self.keys.len()
        )
    }
}
