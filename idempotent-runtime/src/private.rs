//! The names that generated code uses, and no others. They are not part of the public API, and change without notice.

use std::any;
use std::ops::Deref;

use crate::handle::Idempotency;

#[cfg(feature = "sql")]
pub use idempotent_driver::sql::driver::TransactionPool;
pub use inventory;

pub use crate::__idempotence_register as register;
pub use crate::call::Call;
pub use crate::call::answers::{Returns, replaying, returns, returns_with};
pub use crate::call::in_tx::InTx;
pub use crate::call::key_parts::Part;
pub use crate::call::token_text::TokenText;
pub use crate::key::endpoint::Endpoint;
pub use crate::key::fingerprint::KeyPart;
pub use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew, Settle};
pub use crate::protocol::body_context::{
    AnyIntent, Fenced, HasFence, IdempotencyContext, NamesOneIntent, OneIntent,
};
pub use crate::protocol::held::Held;
pub use crate::protocol::refusal::Refusal;
pub use crate::result::outcome::{Fallible, FromError, Outcome};
pub use crate::result::replay::Replay;
pub use crate::result::replay_mode::ReplayMode;
pub use crate::settings::registered::Registered;
#[cfg(feature = "sql")]
pub use crate::sql::Retry;
pub use crate::store::rows::{Row, RowClaim, Rows};

/// The types that the option `using` accepts: an [`Idempotency`], or a pointer to it, as the state of actix or axum is.
#[diagnostic::on_unimplemented(
    message = "`using` needs an `Idempotency`, not `{Self}`",
    label = "not an `Idempotency`",
    note = "write an expression of type `Idempotency`, as in `using = self.idempotency`, or leave `using` out to use the installed handle"
)]
pub trait Using {
    /// The handle.
    fn idempotency(&self) -> &Idempotency;
}

impl Using for Idempotency {
    fn idempotency(&self) -> &Idempotency {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<P: Deref<Target: Using>> Using for P {
    fn idempotency(&self) -> &Idempotency {
        P::Target::idempotency(self)
    }
}

/// The pool of the option `begin`. The result is a pool for the compiler even if the argument is none, so it reports no missing methods.
#[cfg(feature = "sql")]
pub fn pool<P: TransactionPool>(
    pool: &P,
) -> impl TransactionPool<Transaction = P::Transaction, Error = P::Error> + use<P> {
    pool.clone()
}

/// The transaction of a function whose attribute has a mistake: its type, so that the body compiles.
#[cfg(feature = "sql")]
pub fn begun<P: TransactionPool>(_: &P) -> P::Transaction {
    unreachable!("the attribute has a mistake")
}

/// An argument that each run of the body gets a copy of, for the option `begin`.
#[diagnostic::on_unimplemented(
    message = "a second run of the body cannot use an argument of type `{Self}`, which the first run moves",
    label = "with `begin`, the body runs again after a deadlock or a lost connection",
    note = "implement `Clone` for `{Self}`, take the argument by reference, or write `retry = false`"
)]
pub trait Again {
    /// Another copy.
    #[must_use]
    fn again(&self) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Clone> Again for T {
    fn again(&self) -> Self {
        self.clone()
    }
}

/// Another copy of an argument.
pub fn again<T: Again>(argument: &T) -> T {
    argument.again()
}

/// Borrows a `T` as [`Rows`]. This is the only place of an expansion that requires `Rows`, so that rustc reports its absence
/// once.
pub fn rows<T: Rows>(_here: &mut T) -> fn(&mut T) -> &mut dyn Rows {
    |tx| tx
}

/// The type name of the closure that the expansion puts into the body.
pub fn path_of<F>(_here: F) -> &'static str {
    any::type_name::<F>()
}

/// Registers an endpoint for [`endpoints`](crate::endpoints()) before its first call: its name, its policy if no part of the
/// policy is an expression, and whether it has the option `tx`.
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
