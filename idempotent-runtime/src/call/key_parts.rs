//! Keeps a part that may be missing out of a key, unless the option `when` says which calls have it.
//!
//! Without its header a request has `None` for a key, and so have all others: they would be one call.

use std::ops::Deref;

use crate::key::request_id::RequestId;

/// A part of the key of a call whose attribute has no option `when`.
///
/// "Every type but those" is no bound of Rust. So there are two methods `checked`: the one here is for those types, and
/// has a bound that does not hold; for every other type, rustc goes on to the one behind [`Deref`].
#[derive(Debug)]
pub struct Part<'a, T: ?Sized>(AnyPart<'a, T>);

/// A part that is there in every call, or of which that is not known.
#[derive(Debug)]
pub struct AnyPart<'a, T: ?Sized>(&'a T);

impl<'a, T: ?Sized> Part<'a, T> {
    /// What the attribute has for a part of the key.
    pub fn of(part: &'a T) -> Self {
        Self(AnyPart(part))
    }
}

impl<'a, T: MayBeMissing + ?Sized> Part<'a, T> {
    /// Does not compile.
    pub fn checked(&self) -> &'a T
    where
        T: InEveryCall,
    {
        self.0.0
    }
}

impl<'a, T: ?Sized> Deref for Part<'a, T> {
    type Target = AnyPart<'a, T>;

    fn deref(&self) -> &AnyPart<'a, T> {
        &self.0
    }
}

impl<'a, T: ?Sized> AnyPart<'a, T> {
    /// The part itself.
    pub fn checked(&self) -> &'a T {
        self.0
    }
}

/// What a client may leave out.
pub trait MayBeMissing {}

impl<T: FromClient> MayBeMissing for Option<T> {}
impl<T: MayBeMissing + ?Sized> MayBeMissing for &T {}
impl<T: MayBeMissing + ?Sized> MayBeMissing for &mut T {}

/// What a client makes for each of its requests.
pub trait FromClient {}

impl FromClient for RequestId {}
impl<T: FromClient + ?Sized> FromClient for &T {}
impl<T: FromClient + ?Sized> FromClient for &mut T {}

/// What no type that may be missing is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may be `None`, and all calls with `None` would have the same key",
    label = "`None` in some calls",
    note = "write which calls are guarded, as in `when = idempotency_key.is_some()`: the other calls run their body without a guard",
    note = "or take it without `Option`, so that a request without it is refused"
)]
pub trait InEveryCall {}
