//! The types whose results can be stored for duplicates, and the part of a result that is stored.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::result::once::Once;

/// A return type whose result can be stored and given to duplicates. `replay = true` needs it.
///
/// `Result<T, E>` implements it for every `T` that is `Serialize` and `DeserializeOwned`, and so does `Result<Once<T>, E>` (see
/// [`Once`]). With the feature `axum` the success may also be a `Json<T>`, a `StatusCode`, a `HeaderMap`, or a tuple such as
/// `(StatusCode, HeaderMap, Json<T>)`; with `actix` a `web::Json<T>`; with `tonic` it may be a `Response<T>`, which is stored without its metadata (messages of `prost` need `serde` for this, by `pbjson` or `type_attribute`). You may implement the trait for your own return type that is not a `Result`. Do not set the
/// parameter: it only separates the implementations of this crate.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::Replay;
/// use serde::Serialize;
/// # use idempotence::{Error, Outcome};
///
/// enum Reply { Created(u64), Overloaded }
///
/// impl Replay for Reply {
///     type Kept = u64;
///
///     fn kept(&self) -> Option<impl Serialize> {
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
    /// The part of the outcome that is stored, as a duplicate reads it.
    type Kept: Storable;

    /// The part of this outcome that is stored; `None` if duplicates get no result.
    ///
    /// It may be borrowed or made by this function. `serde` must write it as it writes a [`Kept`](Self::Kept).
    fn kept(&self) -> Option<impl Serialize>;

    /// The outcome of a duplicate.
    fn replayed(kept: Self::Kept) -> Self;
}

impl<T: ReplayValue<Via>, E, Via> Replay<InOk<Via>> for Result<T, E> {
    type Kept = T::Kept;

    fn kept(&self) -> Option<impl Serialize> {
        self.as_ref().ok().map(T::kept)
    }

    fn replayed(kept: T::Kept) -> Self {
        Ok(T::replayed(kept))
    }
}

/// A success value that can be stored. Without `Via` the implementations would overlap.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored for duplicates: a part of it has no `serde::Serialize` and `serde::de::DeserializeOwned`",
    label = "`replay` stores it and reads it again",
    note = "if that part is your type, derive `serde::Serialize` and `serde::Deserialize` for it",
    note = "a whole response, such as `axum::response::Response`, is stored by the layer `idempotence::http::IdempotencyLayer` instead of \
            `replay`"
)]
pub trait ReplayValue<Via>: Sized {
    /// The part of the value that is stored, as a duplicate reads it.
    type Kept: Storable;

    /// The part of this value that is stored. `serde` writes it as it writes a `Kept`.
    fn kept(&self) -> impl Serialize;

    /// The value of a duplicate.
    fn replayed(kept: Self::Kept) -> Self;
}

/// A [`ReplayValue`] that is stored as it is.
#[derive(Debug)]
pub struct AsIs;
/// A [`ReplayValue`] in a [`Once`].
#[derive(Debug)]
pub struct InOnce<Via>(PhantomData<Via>);
/// A [`ReplayValue`] in the `Ok` of a `Result`.
#[derive(Debug)]
pub struct InOk<Via>(PhantomData<Via>);

/// A value that `serde` can write and read.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored for duplicates: it must be `serde::Serialize` and `serde::de::DeserializeOwned`",
    label = "`replay` stores it and reads it again",
    note = "if `{Self}` is your type, derive `serde::Serialize` and `serde::Deserialize` for it",
    note = "with the feature `axum`, a `Json<T>`, a `StatusCode`, a `HeaderMap`, and tuples of these such as `(StatusCode, HeaderMap, Json<T>)` \
            are also stored",
    note = "a whole response, such as `axum::response::Response`, is stored by the layer `idempotence::http::IdempotencyLayer` instead of \
            `replay`; or return your own type that implements `idempotence::Replay`"
)]
pub trait Storable: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Storable for T {}

impl<T: Storable> ReplayValue<AsIs> for T {
    type Kept = T;

    fn kept(&self) -> impl Serialize {
        self
    }

    fn replayed(kept: T) -> Self {
        kept
    }
}

impl<T: ReplayValue<Via>, Via> ReplayValue<InOnce<Via>> for Once<T> {
    type Kept = T::Kept;

    fn kept(&self) -> impl Serialize {
        self.get().kept()
    }

    fn replayed(kept: T::Kept) -> Self {
        Self::Replayed(T::replayed(kept))
    }
}
