//! What generated code calls, and nothing else. Not part of the public promise: it changes without notice.

use std::any;
use std::convert;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::call::finish::Finish;
use crate::error::{Duplicate, Error};
use crate::handle::Idempotency;
use crate::result::keep::{Nothing, Values, ValuesAnd};
use crate::result::replay::Storable;

pub use inventory;

pub use crate::__idempotence_register as register;
pub use crate::call::Call;
pub use crate::call::in_tx::InTx;
pub use crate::call::key_parts::Part;
pub use crate::call::token_text::TokenText;
pub use crate::key::endpoint::Endpoint;
pub use crate::key::fingerprint::KeyPart;
pub use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};
pub use crate::protocol::held::Held;
pub use crate::protocol::refusal::Refusal;
pub use crate::result::keep::Keep;
pub use crate::result::outcome::{Fallible, FromError, Outcome};
pub use crate::result::replay::Replay;
pub use crate::settings::registered::Registered;
pub use crate::store::rows::{Row, RowClaim, Rows};

/// How a function of return type `R` says no, what it calls a success, and what of it is kept for duplicates.
pub struct Returns<R, E, K = Nothing> {
    convert: fn(Error) -> E,
    wrap: fn(E) -> R,
    success: fn(&R) -> bool,
    keep: K,
}

/// The one place that asks for [`Outcome`], so that rustc complains once.
pub fn returns<R: Outcome>() -> Returns<R, Error> {
    Returns {
        convert: convert::identity,
        wrap: R::refused,
        success: R::is_success,
        keep: Nothing,
    }
}

/// As [`returns`], for the option `error`.
pub fn returns_with<R: Fallible<E>, E>(error: fn(Error) -> E) -> Returns<R, E> {
    Returns {
        convert: error,
        wrap: R::failed,
        success: R::is_success,
        keep: Nothing,
    }
}

/// Keeps the results for duplicates, for the option `replay`: the one place that asks for [`Replay`].
pub fn replaying<R: Replay<Via>, E, Via>(returns: Returns<R, E>) -> Returns<R, E, Values<R>> {
    returns.keeping(Values::new())
}

impl<R, E> Returns<R, E, Values<R>> {
    /// Keeps chosen errors, too, for the option `replay_err`.
    #[must_use]
    pub fn replay_err<X>(self, chosen: fn(&X) -> bool) -> Returns<R, E, ValuesAnd<R, X>>
    where
        R: Fallible<X>,
        X: Storable,
    {
        let values = self.keep;
        self.keeping(values.and(chosen))
    }
}

impl<R, E, K> Returns<R, E, K> {
    /// Replaces what counts as a success, for the option `success`.
    #[must_use]
    pub fn success(mut self, success: fn(&R) -> bool) -> Self {
        self.success = success;
        self
    }

    fn keeping<L>(self, keep: L) -> Returns<R, E, L> {
        Returns {
            convert: self.convert,
            wrap: self.wrap,
            success: self.success,
            keep,
        }
    }
}

impl<R, E, K: Keep<R>> Returns<R, E, K> {
    /// What a call returns whose body did not run: the first call's result, or an error.
    pub fn refused(&self, refusal: impl Into<Refusal>) -> R {
        match refusal.into().read(self.keep) {
            Ok(outcome) => outcome,
            Err(error) => self.failed(error),
        }
    }

    /// The same, with a closure for duplicates: the option `on_duplicate`.
    pub fn answered(&self, refusal: Refusal, answer: impl FnOnce(Duplicate) -> R) -> R {
        match refusal.read(self.keep).map_err(Error::into_duplicate) {
            Ok(outcome) => outcome,
            Err(Ok(duplicate)) => answer(duplicate),
            Err(Err(error)) => self.failed(error),
        }
    }

    fn failed(&self, error: Error) -> R {
        (self.wrap)((self.convert)(error))
    }

    /// Ends a call whose body ended with `outcome`, which is looked at before anything is awaited.
    pub fn settle(
        &self,
        held: Held,
        outcome: &R,
    ) -> impl Future<Output = ()> + Send + use<R, E, K> {
        held.settle_with(self.keep, outcome, (self.success)(outcome))
    }

    /// Ends a call that its caller's transaction holds, with the row written through `tx`; if that fails, the error
    /// takes the place of the outcome.
    pub async fn settle_in(&self, held: InTx, outcome: R, tx: &mut dyn Rows) -> R {
        let settled = held.settle_with(self.keep, &outcome, (self.success)(&outcome), tx);
        match settled.await {
            Ok(()) => outcome,
            Err(error) => self.failed(error),
        }
    }

    /// Runs the body and settles, in a task of its own once the caller has dropped the future.
    pub fn finish(self, held: Held, body: Pin<Box<dyn Future<Output = R> + Send>>) -> Finish<R>
    where
        R: Send + 'static,
        E: 'static,
        K: Send + Sync + 'static,
    {
        let shared = Arc::clone(held.shared());
        Finish::new(shared, async move {
            let (held, outcome) = held.run(body).await?;
            self.settle(held, &outcome).await;
            Ok(outcome)
        })
    }
}

impl<R, E, K: Copy> Clone for Returns<R, E, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, E, K: Copy> Copy for Returns<R, E, K> {}

impl<R, E, K> fmt::Debug for Returns<R, E, K> {
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

/// How rows are written through a `T`: the one place that asks for [`Rows`], so that rustc complains once.
pub fn rows<T: Rows>(_here: &mut T) -> fn(&mut T) -> &mut dyn Rows {
    |tx| tx
}

/// The type name of the closure that the expansion nests in the body.
pub fn path_of<F>(_here: F) -> &'static str {
    any::type_name::<F>()
}

/// Makes an endpoint known to [`endpoints`](crate::endpoints()) before its first call: its name, its policy if no
/// part of it is an expression, and whether it has the option `tx`.
#[doc(hidden)]
#[macro_export]
macro_rules! __idempotence_register {
    ($name:expr, $policy:expr) => {
        $crate::private::register! { $name, $policy, tx = false }
    };
    ($name:expr, $policy:expr, at = $place:expr) => {
        $crate::private::register! { $name, $policy, tx = false, at = $place }
    };
    ($name:expr, $policy:expr, tx = $tx:expr) => {
        $crate::private::register! { $name, $policy, tx = $tx, at = (file!(), line!() as usize, column!() as usize) }
    };
    ($name:expr, $policy:expr, tx = $tx:expr, at = $place:expr) => {
        $crate::private::inventory::submit! { $crate::private::Registered::new($name, $policy, $tx, $place) }
    };
}
