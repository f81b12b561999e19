//! What is known of the equal call that has the key.

use std::fmt;
use std::time::Duration;

use super::failure::Site;

/// The equal call that has the key, as far as its record tells.
#[derive(Debug, Clone)]
pub struct Duplicate(pub(super) Box<Known>);

/// What there is to say of an equal call.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) site: Site,
    pub(crate) state: DuplicateState,
    pub(crate) holder: String,
    pub(crate) age: Duration,
    pub(crate) retry_after: Duration,
    pub(crate) free_in: Option<Duration>,
    /// Why its result cannot be given to a call that asked for it.
    pub(crate) unavailable: Option<&'static str>,
}

/// How far the equal call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DuplicateState {
    /// It is running.
    Running,
    /// It ended with a success.
    Done,
    /// It ended with an error that is kept for its duplicates, by the option `replay_err`.
    Failed,
    /// It was made with `release = false`: only its own process knows whether it is over.
    Unknown,
}

impl Duplicate {
    pub(crate) fn new(known: Known) -> Self {
        Self(Box::new(known))
    }

    /// The same call, whose result cannot be given.
    pub(crate) fn without_result(mut self, why: &'static str) -> Self {
        self.0.unavailable = Some(why);
        self
    }

    /// How far the equal call has come.
    pub fn state(&self) -> DuplicateState {
        self.0.state
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &str {
        self.0.site.endpoint.as_str()
    }

    /// The process that made the equal call, as `host:pid`: at most 80 letters, digits and `. _ - :`. Empty if that is not known yet: its row is in a transaction
    /// that is still open.
    pub fn holder(&self) -> &str {
        &self.0.holder
    }

    /// How long ago the equal call was made, or ended if it is done. Compares two machines' clocks: a hint. Of a
    /// transaction that is still open, how long it was waited for.
    pub fn age(&self) -> Duration {
        self.0.age
    }

    /// When an equal call may fare better, counted from now: a hint.
    ///
    /// While the equal call runs, it is a guess at its end: it has run for 3 s, so it is worth another look in 3 s. The guess
    /// is kept within the handle's [`retry_hint`](crate::Builder::retry_hint), and is not longer than
    /// [`free_in`](Self::free_in). When it is over, it is `free_in`.
    pub fn retry_after(&self) -> Duration {
        self.0.retry_after
    }

    /// When the key becomes free if nothing else happens, counted from now: when the `ttl` is over, or the lease of a running
    /// call, which is renewed while it runs. Compares two machines' clocks: a hint. `None` if that is not known: the row of the equal
    /// call is in a transaction that is still open.
    pub fn free_in(&self) -> Option<Duration> {
        self.0.free_in
    }
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Known {
            site,
            state,
            holder,
            age,
            retry_after: _,
            free_in,
            unavailable,
        } = &*self.0;
        let free_in = free_in.unwrap_or_default();
        if let Some(why) = unavailable {
            return write!(
                f,
                "{site} is already done (by {holder}, {age:.1?} ago), but its result cannot be given: {why}"
            );
        }
        match state {
            DuplicateState::Running if holder.is_empty() => write!(
                f,
                "{site} is already running (in a transaction that was open for all of the {age:.1?} that it was waited for)"
            ),
            DuplicateState::Running => write!(
                f,
                "{site} is already running (by {holder}, for {age:.1?}); \
                 its lease ends in {free_in:.1?} unless it is renewed"
            ),
            DuplicateState::Done | DuplicateState::Failed => write!(
                f,
                "{site} is already done (by {holder}, {age:.1?} ago); \
                 the key is free in {free_in:.1?}"
            ),
            DuplicateState::Unknown => write!(
                f,
                "{site} was already made (by {holder}, {age:.1?} ago); \
                 the key is free in {free_in:.1?}"
            ),
        }
    }
}
