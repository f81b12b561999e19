//! Why a statement of a driver failed.

use std::error::Error as StdError;
use std::fmt;

use crate::code::Code;

/// Why a statement of a [`Driver`](crate::sql::driver::Driver) failed. Its `source()` is the error of the library.
///
/// Make it from the code with which the database refused the statement, so that every part of this crate reads it alike: a claim that
/// waited too long, [`is_retryable`], the reason in the error of the call.
///
/// [`is_retryable`]: https://docs.rs/idempotence/latest/idempotence/sql/fn.is_retryable.html
#[derive(Debug)]
pub struct DriverError {
    cause: Cause,
    constraint: Option<String>,
    source: Box<dyn StdError + Send + Sync>,
}

#[derive(Debug)]
enum Cause {
    Refused(Code),
    Lost,
    Other,
}

/// What a [`DriverError`] means for the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverErrorKind {
    /// The connection is lost, or the database has ended the session. The statement may have been applied.
    Lost,
    /// The database refused the statement in favour of another transaction: the whole transaction may be retried.
    Retryable,
    /// A unique constraint or index is violated: see [`constraint`](DriverError::constraint).
    UniqueViolation,
    /// Any other error.
    Other,
}

impl DriverError {
    /// PostgreSQL refused the statement with this SQLSTATE, such as `40P01`.
    pub fn postgres(
        state: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::refused(Code::State(state.into()), source)
    }

    /// MySQL or MariaDB refused the statement with this number, such as 1213, and SQLSTATE, such as `40001`.
    #[cfg(feature = "mysql")]
    pub fn mysql(
        number: u16,
        state: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::refused(Code::MySql(number, state.into()), source)
    }

    /// SQLite refused the statement with this extended result code, such as 2067.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(code: i32, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::refused(Code::Sqlite(code), source)
    }

    /// The connection is lost: it is not known whether the statement was applied.
    pub fn lost(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Cause::Lost, source)
    }

    /// Any other error, such as a column of another type.
    pub fn other(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Cause::Other, source)
    }

    /// Names the violated constraint or index.
    #[must_use]
    pub fn of_constraint(self, name: impl Into<String>) -> Self {
        let constraint = Some(name.into());
        Self { constraint, ..self }
    }

    /// What the error means for the transaction.
    pub fn kind(&self) -> DriverErrorKind {
        match &self.cause {
            Cause::Lost => DriverErrorKind::Lost,
            Cause::Refused(code) if code.is_unanswered() => DriverErrorKind::Lost,
            Cause::Refused(code) if code.is_conflict() => DriverErrorKind::Retryable,
            Cause::Refused(code) if code.is_unique_violation() => DriverErrorKind::UniqueViolation,
            Cause::Refused(_) | Cause::Other => DriverErrorKind::Other,
        }
    }

    /// The violated constraint or index, if the library names it.
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// The code with which the database refused the statement.
    #[doc(hidden)]
    pub fn code(&self) -> Option<&Code> {
        match &self.cause {
            Cause::Refused(code) => Some(code),
            Cause::Lost | Cause::Other => None,
        }
    }

    pub(crate) fn refused(code: Code, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Cause::Refused(code), source)
    }

    /// The source, if it is an `E`.
    pub(crate) fn into_source<E: StdError + 'static>(self) -> Result<E, Self> {
        let Self {
            cause,
            constraint,
            source,
        } = self;
        source
            .downcast()
            .map(|error| *error)
            .map_err(|source| Self {
                cause,
                constraint,
                source,
            })
    }

    fn new(cause: Cause, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            cause,
            constraint: None,
            source: source.into(),
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind() {
            DriverErrorKind::Lost => "the connection to the database is lost",
            DriverErrorKind::Retryable => {
                "the database refused the statement in favour of a concurrent transaction"
            }
            DriverErrorKind::UniqueViolation => "the statement violates a unique constraint",
            DriverErrorKind::Other => "the statement failed",
        })
    }
}

impl StdError for DriverError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}
