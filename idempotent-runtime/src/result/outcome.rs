//! What a guarded function may return.

use crate::error::Error;

/// The return type of a guarded function. A value can be a refusal, and shows whether it is a success.
///
/// `Result<T, E>` implements it for every `E: From<Error>`. Implement it for your own type that is not a `Result`. `()` and
/// `Option` deliberately do not implement it, because they would hide an outage.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::{Error, Outcome};
///
/// struct Reply { status: u16 }
///
/// impl Outcome for Reply {
///     fn refused(error: Error) -> Self {
///         Reply { status: error.http_status() }
///     }
///     fn is_success(&self) -> bool {
///         self.status < 400
///     }
/// }
/// # assert!(!Reply { status: 503 }.is_success());
/// ```
#[diagnostic::on_unimplemented(
    message = "`#[idempotent]` needs a return type that can carry an error, not `{Self}`",
    label = "a refused call cannot return its error in this type",
    note = "return a `Result`, as in `-> Result<(), idempotence::Error>`, or implement `idempotence::Outcome` for a type of your crate"
)]
pub trait Outcome: Sized {
    /// The outcome of a call whose body did not run, or was stopped.
    fn refused(error: Error) -> Self;

    /// Whether the body did its work, so that the key stays taken after it.
    fn is_success(&self) -> bool;
}

impl<T, E: FromError> Outcome for Result<T, E> {
    fn refused(error: Error) -> Self {
        Err(E::from_error(error))
    }

    fn is_success(&self) -> bool {
        self.is_ok()
    }
}

/// An error type that can be made from an [`Error`]. Every `E: From<Error>` implements it.
#[diagnostic::on_unimplemented(
    message = "`#[idempotent]` cannot turn its error into `{Self}`",
    label = "a refused call cannot return its error in this type",
    note = "write the option `error`, for example `error = |error| error.to_string()` for a `String`, or `error = std::io::Error::other`; `Idempotency::call` has the method `.error(…)`",
    note = "if the error type is an enum or a struct of your crate, implement `From<idempotence::Error>` for it instead"
)]
pub trait FromError {
    /// Converts `error`.
    fn from_error(error: Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<Error>> FromError for E {
    fn from_error(error: Error) -> Self {
        error.into()
    }
}

/// A `Result` with any error type. The options `error`, `replay_err` and `hold_err` need it.
#[diagnostic::on_unimplemented(
    message = "this option of `#[idempotent]` needs a function that returns a `Result`, not `{Self}`",
    label = "not a `Result`",
    note = "return a `Result`, or remove the options `error`, `replay_err` and `hold_err`, and implement `idempotence::Outcome` for this type"
)]
pub trait Fallible<E>: Sized {
    /// Wraps the error.
    fn failed(error: E) -> Self;

    /// The error, if this is an error.
    fn failure(&self) -> Option<&E>;

    /// Whether this is `Ok`.
    fn is_success(&self) -> bool;
}

impl<T, E> Fallible<E> for Result<T, E> {
    fn failed(error: E) -> Self {
        Err(error)
    }

    fn failure(&self) -> Option<&E> {
        self.as_ref().err()
    }

    fn is_success(&self) -> bool {
        self.is_ok()
    }
}
