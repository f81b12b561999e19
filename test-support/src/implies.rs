//! Bounds on other types than `Self` that a trait brings along.
//!
//! A function that is generic over a database needs bounds such as `i64: Type<DB>`, and Rust takes such a bound only from the
//! function itself. A trait with the supertrait `Implies<i64, Is: Type<Self>>` brings the bound to every function that names
//! the trait.

/// Every type implements this trait for each `T`.
pub trait Implies<T: ?Sized>: Same<T, Is = T> {}

impl<A: ?Sized, T: ?Sized> Implies<T> for A {}

pub trait Same<T: ?Sized> {
    /// Always `T`.
    type Is: ?Sized;
}

impl<A: ?Sized, T: ?Sized> Same<T> for A {
    type Is = T;
}
