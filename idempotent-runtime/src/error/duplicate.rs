//! The facts that are known about the call that has the key.

use std::fmt;
use std::time::Duration;

use super::failure::Site;
use crate::policy::duration::Rough;

/// The call that has the key, as its record describes it: an equal call if [`Error::is_duplicate`](crate::Error::is_duplicate) is true.
///
/// Its [`Display`](fmt::Display) does not name the [`holder`](Self::holder), because clients may see it; [`Debug`] does.
#[derive(Debug, Clone)]
pub struct Duplicate(pub(super) Box<DuplicateFacts>);

/// The facts about the call that has the key.
#[derive(Debug, Clone)]
pub(crate) struct DuplicateFacts {
    pub(crate) site: Site,
    pub(crate) state: DuplicateState,
    pub(crate) holder: String,
    pub(crate) age: Duration,
    pub(crate) retry_after: Duration,
    pub(crate) free_in: Option<Duration>,
    /// Why the result cannot be returned to a duplicate, as the rest of a sentence.
    pub(crate) unavailable: Option<&'static str>,
    /// Which further key of the refused call is taken; `None` if its key is taken.
    pub(crate) further: Option<u32>,
    /// Whether the call that has the key does the work of the refused call. If not, it only shares this key, or has a permit.
    pub(crate) is_equal: bool,
    /// How many calls hold the key.
    pub(crate) holders: usize,
}

/// The state of the equal call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DuplicateState {
    /// It is running.
    Running,
    /// It ended with a success.
    Done,
    /// It ended with an error that is stored for its duplicates, by the option `replay_err`.
    /// [`ResultUnavailable`](crate::Error::ResultUnavailable) in this state: another function with this `name` has `replay_err`, this
    /// one has not.
    Failed,
    /// Whether it has done its work is not known: it was made with `release = false`, so only its process knows whether it has
    /// ended; or the layer for HTTP holds its key, because its handler panicked, was stopped, or did not know its outcome; or its
    /// claim is no longer renewed, because the store had no room for its end.
    Unknown,
}

impl DuplicateState {
    /// How a call in this state ended.
    const fn ended(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unknown => "ended",
            _ => "succeeded",
        }
    }
}

impl Duplicate {
    pub(crate) fn new(known: DuplicateFacts) -> Self {
        Self(Box::new(known))
    }

    /// Adds why the result cannot be returned.
    pub(crate) fn without_result(mut self, why: &'static str) -> Self {
        self.0.unavailable = Some(why);
        self
    }

    /// Sets how many calls hold the key.
    pub(crate) fn held_by(mut self, holders: usize) -> Self {
        self.0.holders = holders;
        self
    }

    /// Whether the call that has the key does the work of the refused call. If not, it only shares this key, or has a permit.
    pub(crate) fn is_equal(&self) -> bool {
        self.0.is_equal
    }

    /// The state of the call.
    pub fn state(&self) -> DuplicateState {
        self.0.state
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &str {
        self.0.site.endpoint.as_str()
    }

    /// Which key was found taken, of a call with several keys: 0 for the first key of [`also`](crate::GuardedCall::also), 1 for the second. `None`
    /// if the key of the call itself is taken.
    pub fn also(&self) -> Option<usize> {
        let further = self.0.further?;
        usize::try_from(further).ok()
    }

    /// How many calls hold the key: with [`permits`](crate::GuardedCall::permits) as many as run, else 1. The other methods describe the
    /// call whose lease ends first.
    pub fn holders(&self) -> usize {
        self.0.holders
    }

    /// The process that made the call, as `host:pid`: at most 80 letters, digits and `. _ - :`. Empty if it is not known
    /// yet, because the row of the call is in a transaction that is still open.
    pub fn holder(&self) -> &str {
        &self.0.holder
    }

    /// How long ago the call was made, or ended if it is done. If its transaction is still open, how long this call
    /// has waited for it, or in one process how long it has its row. A hint: it compares the clocks of two machines.
    pub fn age(&self) -> Duration {
        self.0.age
    }

    /// When to repeat the call, counted from now: a hint.
    ///
    /// While the call runs, this is a guess at its end: if it has run for 3 s, try again in 3 s. The guess
    /// is within the handle's [`retry_hint`](crate::Builder::retry_hint), and not longer than
    /// [`free_in`](Self::free_in). After the call has ended, this is `free_in`.
    pub fn retry_after(&self) -> Duration {
        self.0.retry_after
    }

    /// When the key becomes free, counted from now, if nothing changes: at the end of the `ttl`, or of the lease of a running
    /// call (the lease is renewed while the call runs, so the last renewal that was due counts). If a renewal seems to be missing,
    /// because the process of the call may have died, the store is asked, which is one more round trip, at most every 5 seconds for each key. Else
    /// it is a hint, which compares the clocks of two machines. `None` if it is not known, because the row of the equal call is in a
    /// transaction that is still open.
    pub fn free_in(&self) -> Option<Duration> {
        self.0.free_in
    }
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DuplicateFacts {
            site,
            state,
            holder: _,
            age,
            retry_after,
            free_in,
            unavailable,
            further: _,
            is_equal,
            holders: _,
        } = &*self.0;
        let (age, retry_after) = (Rough(*age), Rough(*retry_after));
        if !is_equal {
            return self.fmt_in_use(f);
        }
        if let Some(why) = unavailable {
            let ended = state.ended();
            return write!(
                f,
                "{site}: refused because an equal call {ended} {age} ago, and its result cannot be returned because {why}; \
                 read what it wrote"
            );
        }
        match (state, free_in) {
            (DuplicateState::Running, None) => write!(
                f,
                "{site}: refused because the transaction of an equal call was still open after {age}; \
                 try again in {retry_after}"
            ),
            (DuplicateState::Running, Some(free_in)) => write!(
                f,
                "{site}: refused because an equal call has been running for {age}; \
                 try again in {retry_after} (its lease ends in {} unless it is renewed)",
                Rough(*free_in)
            ),
            (DuplicateState::Done | DuplicateState::Failed, _) => {
                let ended = state.ended();
                write!(
                    f,
                    "{site}: refused because an equal call {ended} {age} ago; \
                     do not repeat it (the key is free in {retry_after})"
                )
            }
            (DuplicateState::Unknown, _) => write!(
                f,
                "{site}: refused because an equal call was made {age} ago, which may be running or have ended; \
                 do not repeat it (the key is free in {retry_after})"
            ),
        }
    }
}

impl Duplicate {
    /// Writes why a call is refused that is not equal to the call that has the key.
    fn fmt_in_use(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DuplicateFacts { site, holders, .. } = &*self.0;
        let (age, retry_after) = (Rough(self.0.age), Rough(self.0.retry_after));
        let holders = match holders {
            1 => format!("another call has had the key for {age}"),
            _ => format!("{holders} other calls have the key, one of them for {age}"),
        };
        write!(
            f,
            "{site}: refused because {holders}; try again in {retry_after}"
        )
    }
}
