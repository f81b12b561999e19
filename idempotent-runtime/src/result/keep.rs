//! What of an outcome is kept for duplicates, and the outcome that is made of it again.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::record::kept::{Kept, Stored};
use crate::result::codec;
use crate::result::codec::Undecodable;
use crate::result::end::End;
use crate::result::keeping::Keeping;
use crate::result::outcome::Fallible;
use crate::result::replay::{Replay, Storable};

/// What of an outcome `R` goes into its record, and comes out of it.
pub trait Keep<R>: Copy {
    /// How the call ended, with what is kept of its outcome.
    fn end(self, outcome: &R, success: bool, keeping: Keeping) -> End;

    /// The outcome of a duplicate, or why it cannot be given; `None` if it is not one that is asked for.
    fn answer(self, stored: &Stored) -> Option<Result<R, &'static str>>;
}

/// Nothing: without `replay`.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

/// The value of a success: `replay = true`.
pub struct Values<R> {
    end: fn(&R, bool, Keeping) -> End,
    answer: fn(&Stored) -> Result<R, &'static str>,
}

/// The value of a success, and the errors that are chosen: `replay_err`.
pub struct ValuesAnd<R, X> {
    values: Values<R>,
    chosen: fn(&X) -> bool,
    failure: fn(&R) -> Option<&X>,
    keep: fn(&X, Keeping) -> Kept,
    answer: fn(&Stored) -> Result<R, &'static str>,
}

impl<R> Values<R> {
    pub(crate) fn new<Via>() -> Self
    where
        R: Replay<Via>,
    {
        Self {
            end: |outcome, success, keeping| {
                let value = if success { outcome.kept() } else { None };
                let kept = value.map_or(Kept::Nothing, |value| keeping.keep(value, false));
                End::new(success, kept)
            },
            answer: |stored| read(stored).map(R::replayed),
        }
    }

    pub(crate) fn and<X: Storable>(self, chosen: fn(&X) -> bool) -> ValuesAnd<R, X>
    where
        R: Fallible<X>,
    {
        ValuesAnd {
            values: self,
            chosen,
            failure: R::failure,
            keep: |error, keeping| keeping.keep(error, true),
            answer: |stored| read(stored).map(R::failed),
        }
    }
}

impl<R> Keep<R> for Nothing {
    fn end(self, _: &R, success: bool, _: Keeping) -> End {
        End::from(success)
    }

    fn answer(self, _: &Stored) -> Option<Result<R, &'static str>> {
        None
    }
}

impl<R> Keep<R> for Values<R> {
    fn end(self, outcome: &R, success: bool, keeping: Keeping) -> End {
        (self.end)(outcome, success, keeping)
    }

    fn answer(self, stored: &Stored) -> Option<Result<R, &'static str>> {
        (!stored.failure).then(|| (self.answer)(stored))
    }
}

impl<R, X> Keep<R> for ValuesAnd<R, X> {
    fn end(self, outcome: &R, success: bool, keeping: Keeping) -> End {
        match (self.failure)(outcome).filter(|error| (self.chosen)(error)) {
            Some(error) => End::new(success, (self.keep)(error, keeping)),
            None => self.values.end(outcome, success, keeping),
        }
    }

    fn answer(self, stored: &Stored) -> Option<Result<R, &'static str>> {
        if stored.failure {
            return Some((self.answer)(stored));
        }
        self.values.answer(stored)
    }
}

fn read<T: DeserializeOwned>(stored: &Stored) -> Result<T, &'static str> {
    if stored.schema != codec::schema::<T>() {
        return Err("it was stored as another type than the function returns now");
    }
    codec::decode(stored.form, stored.somes, &stored.bytes).map_err(Undecodable::why)
}

impl<R> Clone for Values<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Values<R> {}

impl<R> fmt::Debug for Values<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Values")
    }
}

impl<R, X> Clone for ValuesAnd<R, X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, X> Copy for ValuesAnd<R, X> {}

impl<R, X> fmt::Debug for ValuesAnd<R, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValuesAnd")
    }
}
