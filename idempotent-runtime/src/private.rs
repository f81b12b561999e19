//! What generated code calls, and nothing else. Not part of the public promise: it changes without notice.

use std::any;
use std::convert;
use std::fmt;
use std::sync::Arc;

use crate::error::{Duplicate, Error};
use crate::idempotency::Idempotency;

pub use inventory;

pub use crate::__idempotence_register as register;
pub use crate::call::Call;
pub use crate::endpoint::Endpoint;
pub use crate::endpoints::Registered;
pub use crate::fingerprint::KeyPart;
pub use crate::held::Held;
pub use crate::outcome::{Fallible, FromError, Outcome};
pub use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};

/// How a function of return type `R` says no, and what it calls a success.
pub struct Returns<R, E> {
    convert: fn(Error) -> E,
    wrap: fn(E) -> R,
    success: fn(&R) -> bool,
}

/// The one place that asks for [`Outcome`], so that rustc complains once.
pub fn returns<R: Outcome>() -> Returns<R, Error> {
    Returns {
        convert: convert::identity,
        wrap: R::refused,
        success: R::is_success,
    }
}

/// As [`returns`], for the option `error`.
pub fn returns_with<R: Fallible<E>, E>(error: fn(Error) -> E) -> Returns<R, E> {
    Returns {
        convert: error,
        wrap: R::failed,
        success: R::is_success,
    }
}

impl<R, E> Returns<R, E> {
    /// Replaces what counts as a success, for the option `success`.
    #[must_use]
    pub fn success(mut self, success: fn(&R) -> bool) -> Self {
        self.success = success;
        self
    }

    /// What a refused call returns.
    pub fn refused(&self, error: Error) -> R {
        (self.wrap)((self.convert)(error))
    }

    /// What a refused call returns, with a closure for duplicates: the option `on_duplicate`.
    pub fn answered(&self, error: Error, answer: impl FnOnce(Duplicate) -> R) -> R {
        match error.into_duplicate() {
            Ok(duplicate) => answer(duplicate),
            Err(error) => self.refused(error),
        }
    }

    /// Whether the body did its work.
    pub fn succeeded(&self, outcome: &R) -> bool {
        (self.success)(outcome)
    }

    /// The same as a plain function, for a body that may outlive its caller.
    pub fn success_fn(&self) -> fn(&R) -> bool {
        self.success
    }
}

impl<R, E> fmt::Debug for Returns<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returns").finish_non_exhaustive()
    }
}

/// What the option `using` takes: an [`Idempotency`], or a pointer to one.
#[diagnostic::on_unimplemented(
    message = "`using` needs an `Idempotency`, not `{Self}`",
    label = "not an `Idempotency`"
)]
pub trait Using {
    /// The handle itself.
    fn idempotency(&self) -> &Idempotency;
}

impl Using for Idempotency {
    fn idempotency(&self) -> &Idempotency {
        self
    }
}

impl<T: Using + ?Sized> Using for &T {
    fn idempotency(&self) -> &Idempotency {
        T::idempotency(self)
    }
}

impl<T: Using + ?Sized> Using for &mut T {
    fn idempotency(&self) -> &Idempotency {
        T::idempotency(self)
    }
}

impl<T: Using + ?Sized> Using for Arc<T> {
    fn idempotency(&self) -> &Idempotency {
        T::idempotency(self)
    }
}

impl<T: Using + ?Sized> Using for Box<T> {
    fn idempotency(&self) -> &Idempotency {
        T::idempotency(self)
    }
}

/// The type name of the empty function that the expansion nests in the body.
pub fn path_of<F>(_here: F) -> &'static str {
    any::type_name::<F>()
}
