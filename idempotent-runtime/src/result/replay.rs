//! Giving duplicates the result of the first call: what of an outcome is kept, and the outcome made of it again.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Duplicate;
use crate::protocol::held::End;
use crate::record::call as record;
use crate::record::call::{Kept, Record, Stored};
use crate::result::codec;
use crate::result::codec::{Codec, NotKept, Undecodable};
use crate::result::once::Once;
use crate::result::outcome::Fallible;

/// A return type whose result can be stored and given to duplicates: what `replay = true` needs.
///
/// `Result<T, E>` is one for every `T` that is `Serialize` and `DeserializeOwned`, and for a [`Once<T>`] of one
/// (with the feature `axum` also for a `Json<T>`, and with `tonic` for a `Response<T>`, without its metadata): the `T` is stored. Implement it for a return type of your own
/// that is not a `Result`; the parameter stays at its default then, and tells the implementations here apart.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::Replay;
/// # use idempotence::{Error, Outcome};
///
/// enum Reply { Created(u64), Overloaded }
///
/// impl Replay for Reply {
///     type Kept = u64;
///
///     fn kept(&self) -> Option<&u64> {
///         match self {
///             Self::Created(id) => Some(id),
///             Self::Overloaded => None,
///         }
///     }
///
///     fn replayed(id: u64) -> Self {
///         Self::Created(id)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`replay = true` cannot store the result of `{Self}`",
    label = "its result cannot be given to a duplicate",
    note = "return `Result<T, E>` where `T: Serialize + DeserializeOwned`, or implement `idempotence::Replay`"
)]
pub trait Replay<Via = ()>: Sized {
    /// What is stored.
    type Kept: Storable;

    /// What is to be stored of this outcome; `None` if there is nothing to give to a duplicate.
    fn kept(&self) -> Option<&Self::Kept>;

    /// The outcome of a duplicate.
    fn replayed(kept: Self::Kept) -> Self;
}

impl<T: Value<Via>, E, Via> Replay<InOk<Via>> for Result<T, E> {
    type Kept = T::Kept;

    fn kept(&self) -> Option<&T::Kept> {
        self.as_ref().ok().map(T::kept)
    }

    fn replayed(kept: T::Kept) -> Self {
        Ok(T::replayed(kept))
    }
}

/// A success value that can be stored. `Via` tells the implementations apart, which would overlap without.
pub trait Value<Via>: Sized {
    /// What is stored.
    type Kept: Storable;

    /// What is stored of this value.
    fn kept(&self) -> &Self::Kept;

    /// The value of a duplicate.
    fn replayed(kept: Self::Kept) -> Self;
}

/// How a [`Value`] is stored: as it is.
#[derive(Debug)]
pub struct Itself;
/// How a [`Value`] is stored: as the one in a [`Once`].
#[derive(Debug)]
pub struct InOnce<Via>(PhantomData<Via>);
/// How a [`Value`] is stored: as the one in a `Json`.
#[cfg(feature = "axum")]
#[derive(Debug)]
pub struct InJson;
/// How an outcome is stored: by the value in its `Ok`.
#[derive(Debug)]
pub struct InOk<Via>(PhantomData<Via>);

/// A value that serde can write and read.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored for duplicates: it must be `serde::Serialize` and `serde::de::DeserializeOwned`",
    label = "`replay` stores it and reads it again",
    note = "derive `serde::Serialize` and `serde::Deserialize` for `{Self}`"
)]
pub trait Storable: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Storable for T {}

impl<T: Storable> Value<Itself> for T {
    type Kept = T;

    fn kept(&self) -> &T {
        self
    }

    fn replayed(kept: T) -> Self {
        kept
    }
}

impl<T: Value<Via>, Via> Value<InOnce<Via>> for Once<T> {
    type Kept = T::Kept;

    fn kept(&self) -> &T::Kept {
        self.get().kept()
    }

    fn replayed(kept: T::Kept) -> Self {
        Self::Replayed(T::replayed(kept))
    }
}

#[cfg(feature = "axum")]
impl<T: Storable> Value<InJson> for axum::Json<T> {
    type Kept = T;

    fn kept(&self) -> &T {
        &self.0
    }

    fn replayed(kept: T) -> Self {
        Self(kept)
    }
}

/// How a [`Value`] is stored: as the message in a `Response`, without its metadata.
#[cfg(feature = "tonic")]
#[derive(Debug)]
pub struct InResponse;

#[cfg(feature = "tonic")]
impl<T: Storable> Value<InResponse> for tonic::Response<T> {
    type Kept = T;

    fn kept(&self) -> &T {
        self.get_ref()
    }

    fn replayed(kept: T) -> Self {
        Self::new(kept)
    }
}

/// What of an outcome `R` goes into its record, and comes out of it.
pub trait Keep<R>: Copy {
    /// How the call ended, with what is kept of its outcome.
    fn end(self, outcome: &R, success: bool, keeping: Keeping) -> End;

    /// The outcome of a duplicate, or why it cannot be given; `None` if no result is there, or none is asked for.
    fn answer(self, duplicate: &Duplicate) -> Option<Result<R, &'static str>>;
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

    fn answer(self, _: &Duplicate) -> Option<Result<R, &'static str>> {
        None
    }
}

impl<R> Keep<R> for Values<R> {
    fn end(self, outcome: &R, success: bool, keeping: Keeping) -> End {
        (self.end)(outcome, success, keeping)
    }

    fn answer(self, duplicate: &Duplicate) -> Option<Result<R, &'static str>> {
        let stored = duplicate.stored().filter(|stored| !stored.failure);
        stored.map(self.answer)
    }
}

impl<R, X> Keep<R> for ValuesAnd<R, X> {
    fn end(self, outcome: &R, success: bool, keeping: Keeping) -> End {
        match (self.failure)(outcome).filter(|error| (self.chosen)(error)) {
            Some(error) => End::new(success, (self.keep)(error, keeping)),
            None => self.values.end(outcome, success, keeping),
        }
    }

    fn answer(self, duplicate: &Duplicate) -> Option<Result<R, &'static str>> {
        let failure = duplicate.stored().filter(|stored| stored.failure);
        match failure {
            Some(stored) => Some((self.answer)(stored)),
            None => self.values.answer(duplicate),
        }
    }
}

/// How the handle wants results to be kept.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    pub(crate) codec: Codec,
    /// The largest result, in bytes as it is written.
    pub(crate) most: usize,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            codec: Codec::default(),
            most: LARGEST,
        }
    }
}

/// The largest result of a handle that does not say.
const LARGEST: usize = 1024 * 1024;

impl Keeping {
    /// The longest record that is read: one of the largest result that this handle keeps, or that a handle with the default
    /// does, which may share the store during a deploy.
    pub(crate) fn longest_record(self) -> usize {
        self.most.max(LARGEST).saturating_add(record::LONGEST_LINE)
    }

    /// Reads what stands under a key; `None` if it is longer than that, or not a [`Record`].
    pub(crate) fn record(self, bytes: &Bytes) -> Option<Record<'_>> {
        let read = || Record::read(bytes);
        (bytes.len() <= self.longest_record()).then(read)?
    }

    fn keep<T: Serialize>(self, value: &T, failure: bool) -> Kept {
        match codec::encode(value, self.codec, self.most) {
            Ok(encoded) => Kept::Result(Stored {
                failure,
                schema: codec::schema::<T>(),
                form: encoded.form,
                somes: encoded.somes,
                bytes: encoded.bytes.into(),
            }),
            Err(NotKept::TooLarge) => Kept::TooLarge,
            Err(NotKept::Unencodable) => Kept::Unencodable,
        }
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
