//! Refuses key parts that a client may leave out, unless the option `when` says which calls have them.
//!
//! All requests without the header would have the key `None`, so they would be one call.

use std::ops::Deref;

use crate::key::request_id::RequestId;

/// A part of the key of a call whose attribute has no option `when`.
///
/// Rust has no bound "every type but these". So there are two methods `checked`. The method of this type is for optional parts,
/// and its bound never holds. For every other type rustc finds the method behind [`Deref`].
#[derive(Debug)]
pub struct Part<'a, T: ?Sized>(AnyPart<'a, T>);

/// A part that every call has, or a part of a type that this crate does not know.
#[derive(Debug)]
pub struct AnyPart<'a, T: ?Sized>(&'a T);

impl<'a, T: ?Sized> Part<'a, T> {
    /// Wraps a part of the key of the attribute.
    pub fn of(part: &'a T) -> Self {
        Self(AnyPart(part))
    }
}

impl<'a, T: MayBeMissing + ?Sized> Part<'a, T> {
    /// Does not compile, because the part may be missing.
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

/// A part that a client may leave out.
pub trait MayBeMissing {}

impl<T: FromClient> MayBeMissing for Option<T> {}
impl<T: MayBeMissing + ?Sized> MayBeMissing for &T {}
impl<T: MayBeMissing + ?Sized> MayBeMissing for &mut T {}

/// A part that a client makes for each of its requests.
pub trait FromClient {}

impl FromClient for RequestId {}
impl<T: FromClient + ?Sized> FromClient for &T {}
impl<T: FromClient + ?Sized> FromClient for &mut T {}

/// No type implements this trait. Its compile error explains why an optional part is refused.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may be `None`, and all calls with `None` would have the same key",
    label = "`None` in some calls",
    note = "write which calls are guarded, as in `when = idempotency_key.is_some()`: the other calls run their body without a guard",
    note = "or take it without `Option`, so that a request without it is refused"
)]
pub trait InEveryCall {}
