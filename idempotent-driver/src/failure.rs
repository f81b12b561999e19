//! What is known about a statement or a connection of a database that failed: what it changed, why it failed, and where.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use sqlx::{Connection, Pool};

use self::kind::FailureKind;
use crate::code::Code;
use crate::database::SqlxDatabase;
use crate::error::DriverError;

pub(crate) mod kind;
pub(crate) mod reason;
#[cfg(test)]
pub(crate) mod refusal;

use FailureKind::{NotApplied, Unknown};

/// A statement or a connection that failed.
#[derive(Debug)]
pub struct Failure {
    /// What the database says about the statement.
    pub kind: FailureKind,
    /// Why it failed, as the rest of a sentence that begins with "the store". Clients may see it. `None`: only the kind is known.
    pub reason: Option<Cow<'static, str>>,
    /// Where it failed, for operators.
    pub place: Cow<'static, str>,
    /// The error of the library, whose text the server may have chosen.
    pub source: Box<dyn StdError + Send + Sync>,
}

/// The failure of a statement that ran at `place`.
pub fn statement_failed(error: sqlx::Error, place: impl Into<Cow<'static, str>>) -> Failure {
    let (kind, reason) = (kind::of(&error), reason::of_statement(&error));
    Failure::new(kind, reason, place, error)
}

/// The failure of a statement that a driver ran at `place`.
pub fn driver_failed(error: DriverError, place: impl Into<Cow<'static, str>>) -> Failure {
    match error.into_source() {
        Ok(error) => statement_failed(error, place),
        Err(error) => {
            let kind = error.code().map_or(Unknown, kind::of_code);
            Failure::new(kind, reason::of_driver(&error), place, error)
        }
    }
}

/// The failure of a [`begin`](crate::sql::driver::TransactionPool::begin), which changed nothing.
pub fn begin_failed(error: DriverError) -> Failure {
    match error.into_source() {
        Ok(failure) => failure,
        Err(error) => driver_failed(error, "the database of the pool").of_unsent(),
    }
}

/// The failure of a new connection to `place`: no statement was sent.
pub fn connect_failed(error: sqlx::Error, place: impl Into<Cow<'static, str>>) -> Failure {
    let (kind, reason) = (kind::of(&error), reason::of_connection(&error));
    Failure::new(kind, reason, place, error).of_unsent()
}

/// The failure to open a connection with `options`.
pub fn open_failed<DB: SqlxDatabase>(
    error: sqlx::Error,
    options: &<DB::Connection as Connection>::Options,
) -> Failure {
    let diagnosis = is_unopened_file(&error)
        .then(|| DB::diagnose(options))
        .flatten();
    let failure = connect_failed(error, DB::place(options));
    match diagnosis {
        Some(reason) => failure.because(reason),
        None => failure,
    }
}

/// The failure to get a connection of `pool`.
pub fn acquire_failed<DB: SqlxDatabase>(error: sqlx::Error, pool: &Pool<DB>) -> Failure {
    let timed_out = matches!(error, sqlx::Error::PoolTimedOut);
    let failure = open_failed::<DB>(error, &pool.connect_options());
    if timed_out {
        let waited = pool.options().get_acquire_timeout();
        failure.because(reason::of_pool_timeout(pool, Some(waited)))
    } else {
        failure
    }
}

/// The failure to get a connection of `pool` before the caller's deadline.
pub fn acquire_overdue<DB: SqlxDatabase>(pool: &Pool<DB>) -> Failure {
    let failure = acquire_failed(sqlx::Error::PoolTimedOut, pool);
    failure.because(reason::of_pool_timeout(pool, None))
}

/// The place of the database that `pool` connects to.
pub fn place<DB: SqlxDatabase>(pool: &Pool<DB>) -> String {
    DB::place(&pool.connect_options())
}

/// Whether SQLite refused to write to a file that it may only read.
pub fn is_read_only(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error().map(Code::from_refusal);
    matches!(refusal, Some(Code::Sqlite(code)) if code & 0xff == 8)
}

fn is_unopened_file(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error().map(Code::from_refusal);
    matches!(refusal, Some(Code::Sqlite(code)) if code & 0xff == 14)
}

impl Failure {
    fn new(
        kind: FailureKind,
        reason: Option<&'static str>,
        place: impl Into<Cow<'static, str>>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            reason: reason.map(Cow::Borrowed),
            place: place.into(),
            source: source.into(),
        }
    }

    fn because(self, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = Some(reason.into());
        Self { reason, ..self }
    }

    /// The failure of an operation that sent no statement: without an answer, too, it changed nothing.
    fn of_unsent(mut self) -> Self {
        if self.kind == Unknown {
            self.kind = NotApplied;
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason.as_deref().unwrap_or("failed");
        write!(f, "{} {reason}", self.place)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::kind::FailureKind::Misconfigured;
    use super::refusal::refused;
    use super::*;

    #[test]
    fn errors_of_the_client_have_their_kinds() {
        let io = || sqlx::Error::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(statement_failed(io(), "a test").kind, Unknown);
        assert_eq!(connect_failed(io(), "a test").kind, NotApplied);
        assert_eq!(
            statement_failed(sqlx::Error::Protocol(String::new()), "a test").kind,
            Unknown
        );
        assert_eq!(
            statement_failed(sqlx::Error::RowNotFound, "a test").kind,
            Unknown
        );
        assert_eq!(
            statement_failed(sqlx::Error::WorkerCrashed, "a test").kind,
            Unknown
        );
        assert_eq!(
            statement_failed(sqlx::Error::PoolTimedOut, "a test").kind,
            NotApplied
        );
        assert_eq!(
            statement_failed(sqlx::Error::PoolClosed, "a test").kind,
            NotApplied
        );
        let url = || sqlx::Error::Configuration("no".into());
        assert_eq!(connect_failed(url(), "a test").kind, Misconfigured);
        assert_eq!(
            connect_failed(refused("28P01"), "a test").kind,
            Misconfigured
        );
        assert_eq!(connect_failed(refused("57P03"), "a test").kind, NotApplied);
    }
}
