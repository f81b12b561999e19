//! The error of a transaction, whose causes decide whether the transaction is retried.

use std::error::Error as StdError;

/// An error with causes that can be read: every [`std::error::Error`], and also `anyhow::Error`, `eyre::Report` and
/// `Box<dyn Error + Send + Sync>`, which do not implement it. The compiler finds `Via`.
#[diagnostic::on_unimplemented(
    message = "the causes of `{Self}` cannot be read, so `sql::retry` cannot decide whether to retry the transaction",
    label = "not an error whose causes can be read",
    note = "return an error type that implements `std::error::Error`, or `anyhow::Error`, `eyre::Report` or `Box<dyn std::error::Error + Send + Sync>`"
)]
pub trait Causes<Via> {
    /// The error, whose `source()` leads to the others.
    fn first_cause(&self) -> &(dyn StdError + 'static);
}

/// An error that implements [`std::error::Error`] itself.
#[derive(Debug)]
pub enum Itself {}

/// An error that has another in it, as `anyhow::Error` has.
#[derive(Debug)]
pub enum Within {}

#[diagnostic::do_not_recommend]
impl<E: StdError + 'static> Causes<Itself> for E {
    fn first_cause(&self) -> &(dyn StdError + 'static) {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<E: AsRef<dyn StdError + Send + Sync>> Causes<Within> for E {
    fn first_cause(&self) -> &(dyn StdError + 'static) {
        self.as_ref()
    }
}
