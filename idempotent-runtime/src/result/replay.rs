//! Which results can be stored for duplicates, and what of them is.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::result::once::Once;

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
