//! The return type of a function whose guard begins the transaction.

use std::error::Error as StdError;

use idempotent_driver::sql::Causes;

/// The return type of a function whose guard begins the transaction.
#[diagnostic::on_unimplemented(
    message = "a function with `begin` cannot return `{Self}`",
    label = "the guard cannot return an error of its `COMMIT` in this type, or read why the body failed",
    note = "return a `Result<_, E>`, where `E: From<{Failure}>` implements `std::error::Error`, or is `anyhow::Error`, `eyre::Report` or `Box<dyn std::error::Error + Send + Sync>`"
)]
pub trait TxOutcome<Via, Failure>: Sized {
    /// The outcome of a call whose `COMMIT` failed with this error of its library.
    fn uncommitted(error: Failure) -> Self;

    /// Why the body failed.
    fn cause(&self) -> Option<&(dyn StdError + 'static)>;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<Failure> + Causes<Via>, Via, Failure> TxOutcome<Via, Failure> for Result<T, E> {
    fn uncommitted(error: Failure) -> Self {
        Err(error.into())
    }

    fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        self.as_ref().err().map(Causes::first_cause)
    }
}
