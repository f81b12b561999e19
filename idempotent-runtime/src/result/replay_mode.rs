//! The three ways in which a call replays: not at all, its successes, or its successes and chosen errors. And which errors say that
//! the outcome is unknown.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::record::kept::{Kept, Stored};
use crate::result::body_outcome::BodyOutcome;
use crate::result::codec;
use crate::result::codec::Undecodable;
use crate::result::options::ResultOptions;
use crate::result::outcome::Fallible;
use crate::result::replay::{Replay, Storable};

/// Whether and how an outcome `R` is stored in its record and given to duplicates.
pub trait ReplayMode<R>: Copy {
    /// How the body returned, with the part of its outcome that is stored.
    fn body_outcome(self, outcome: &R, success: bool, options: ResultOptions) -> BodyOutcome;

    /// The outcome of a duplicate, or why the stored result cannot be used. `None` if this mode does not replay this result.
    fn replay(self, stored: &Stored) -> Option<Result<R, &'static str>>;
}

/// Without `replay`: nothing is stored.
#[derive(Debug, Clone, Copy)]
pub struct NoReplay;

/// `replay = true`: the value of a success is stored.
pub struct ReplayOk<R> {
    body_outcome: fn(&R, bool, ResultOptions) -> BodyOutcome,
    replay: fn(&Stored) -> Result<R, &'static str>,
}

/// `replay_err`: the value of a success is stored, and also the chosen errors.
pub struct ReplayOkAndErr<R, X> {
    successes: ReplayOk<R>,
    chosen: fn(&X) -> bool,
    failure: fn(&R) -> Option<&X>,
    store: fn(&X, ResultOptions) -> Kept,
    replay: fn(&Stored) -> Result<R, &'static str>,
}

impl<R> ReplayOk<R> {
    /// The mode of a return type.
    pub fn new<Via>() -> Self
    where
        R: Replay<Via>,
    {
        Self {
            body_outcome: body_outcome::<R, Via>,
            replay: replay::<R, Via>,
        }
    }

    pub(crate) fn and<X: Storable>(self, chosen: fn(&X) -> bool) -> ReplayOkAndErr<R, X>
    where
        R: Fallible<X>,
    {
        ReplayOkAndErr {
            successes: self,
            chosen,
            failure: R::failure,
            store: |error, options| options.store::<X>(error, true),
            replay: |stored| read(stored).map(R::failed),
        }
    }
}

/// `hold_err`: another mode, for outcomes whose error does not say that the outcome is unknown.
pub struct HoldErr<K, R, X> {
    keep: K,
    unknown: fn(&X) -> bool,
    failure: fn(&R) -> Option<&X>,
}

impl<K, R, X> HoldErr<K, R, X> {
    pub(crate) fn new(keep: K, unknown: fn(&X) -> bool) -> Self
    where
        R: Fallible<X>,
    {
        Self {
            keep,
            unknown,
            failure: R::failure,
        }
    }
}

impl<R> ReplayMode<R> for NoReplay {
    fn body_outcome(self, _: &R, success: bool, _: ResultOptions) -> BodyOutcome {
        BodyOutcome::from(success)
    }

    fn replay(self, _: &Stored) -> Option<Result<R, &'static str>> {
        None
    }
}

impl<R> ReplayMode<R> for ReplayOk<R> {
    fn body_outcome(self, outcome: &R, success: bool, options: ResultOptions) -> BodyOutcome {
        (self.body_outcome)(outcome, success, options)
    }

    fn replay(self, stored: &Stored) -> Option<Result<R, &'static str>> {
        (!stored.failure).then(|| (self.replay)(stored))
    }
}

impl<R, X> ReplayMode<R> for ReplayOkAndErr<R, X> {
    fn body_outcome(self, outcome: &R, success: bool, options: ResultOptions) -> BodyOutcome {
        match (self.failure)(outcome).filter(|error| (self.chosen)(error)) {
            Some(error) => BodyOutcome::new(success, (self.store)(error, options)),
            None => self.successes.body_outcome(outcome, success, options),
        }
    }

    fn replay(self, stored: &Stored) -> Option<Result<R, &'static str>> {
        if stored.failure {
            return Some((self.replay)(stored));
        }
        self.successes.replay(stored)
    }
}

impl<K: ReplayMode<R>, R, X> ReplayMode<R> for HoldErr<K, R, X> {
    fn body_outcome(self, outcome: &R, success: bool, options: ResultOptions) -> BodyOutcome {
        match (self.failure)(outcome).filter(|error| (self.unknown)(error)) {
            Some(_) => BodyOutcome::unknown(),
            None => self.keep.body_outcome(outcome, success, options),
        }
    }

    fn replay(self, stored: &Stored) -> Option<Result<R, &'static str>> {
        self.keep.replay(stored)
    }
}

// A closure would be compiled again in each unit that uses it.
fn body_outcome<R: Replay<Via>, Via>(
    outcome: &R,
    success: bool,
    options: ResultOptions,
) -> BodyOutcome {
    let value = if success { outcome.kept() } else { None };
    let kept = value.map_or(Kept::Nothing, |value| {
        options.store::<R::Kept>(&value, false)
    });
    BodyOutcome::new(success, kept)
}

fn replay<R: Replay<Via>, Via>(stored: &Stored) -> Result<R, &'static str> {
    read(stored).map(R::replayed)
}

fn read<T: DeserializeOwned>(stored: &Stored) -> Result<T, &'static str> {
    if stored.schema != codec::schema::<T>() {
        return Err("it was stored as another type than the function returns now");
    }
    codec::decode(stored.form, stored.option_depth, &stored.bytes).map_err(Undecodable::why)
}

impl<R> Clone for ReplayOk<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for ReplayOk<R> {}

impl<R> fmt::Debug for ReplayOk<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplayOk")
    }
}

impl<R, X> Clone for ReplayOkAndErr<R, X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, X> Copy for ReplayOkAndErr<R, X> {}

impl<R, X> fmt::Debug for ReplayOkAndErr<R, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplayOkAndErr")
    }
}

impl<K: Copy, R, X> Clone for HoldErr<K, R, X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Copy, R, X> Copy for HoldErr<K, R, X> {}

impl<K, R, X> fmt::Debug for HoldErr<K, R, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldErr")
    }
}
