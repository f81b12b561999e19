//! Turns an error of sqlx into an error of the store: its kind, its reason and its place.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use sqlx::{Connection, Pool};
use thiserror::Error;

use self::code::Code;
use super::database::SqlxDatabase;
use super::driver::DriverError;
use crate::store::{StoreError, StoreErrorKind};

pub(crate) mod causes;
pub(super) mod code;
mod reason;
#[cfg(test)]
pub(super) mod refusal;
pub(super) mod retryable;

pub use self::code::{is_broken, is_missing_table};

use StoreErrorKind::{Full, Misconfigured, NotApplied, Unknown};

/// The failure of a statement that ran at `place`.
pub fn statement_failed(error: sqlx::Error, place: impl Into<Cow<'static, str>>) -> StoreError {
    let (kind, reason) = (kind_of(&error), reason::of_statement(&error));
    store_error(kind, reason, error).place(place)
}

/// The failure of a statement that a driver ran at `place`.
pub(crate) fn driver_failed(error: DriverError, place: impl Into<Cow<'static, str>>) -> StoreError {
    match error.into_source() {
        Ok(error) => statement_failed(error, place),
        Err(error) => {
            let kind = error.code().map_or(Unknown, kind_of_code);
            store_error(kind, reason::of_driver(&error), error).place(place)
        }
    }
}

/// The failure of a [`begin`](crate::sql::driver::TransactionPool::begin), which changed nothing.
pub(crate) fn begin_failed(error: DriverError) -> StoreError {
    let error = match error.into_source() {
        Ok(failure) => return failure,
        Err(error) => error,
    };
    let failure = driver_failed(error, "the database of the pool");
    match failure.kind() {
        Unknown => failure.with_kind(NotApplied),
        _ => failure,
    }
}

/// The failure of a new connection to `place`: no statement was sent.
pub fn connect_failed(error: sqlx::Error, place: impl Into<Cow<'static, str>>) -> StoreError {
    let kind = match kind_of(&error) {
        Unknown => NotApplied,
        kind => kind,
    };
    let reason = reason::of_connection(&error);
    store_error(kind, reason, error).place(place)
}

/// The failure to open a connection with `options`.
pub fn open_failed<DB: SqlxDatabase>(
    error: sqlx::Error,
    options: &<DB::Connection as Connection>::Options,
) -> StoreError {
    let diagnosis = is_unopened_file(&error)
        .then(|| DB::diagnose(options))
        .flatten();
    let failure = connect_failed(error, DB::place(options));
    match diagnosis {
        Some(reason) => failure.reason(reason),
        None => failure,
    }
}

/// The failure to get a connection of `pool`.
pub fn acquire_failed<DB: SqlxDatabase>(error: sqlx::Error, pool: &Pool<DB>) -> StoreError {
    let timed_out = matches!(error, sqlx::Error::PoolTimedOut);
    let failure = open_failed::<DB>(error, &pool.connect_options());
    if timed_out {
        let waited = pool.options().get_acquire_timeout();
        failure.reason(reason::of_pool_timeout(pool, Some(waited)))
    } else {
        failure
    }
}

/// The failure to get a connection of `pool` before the caller's deadline.
pub fn acquire_overdue<DB: SqlxDatabase>(pool: &Pool<DB>) -> StoreError {
    let failure = acquire_failed(sqlx::Error::PoolTimedOut, pool);
    failure.reason(reason::of_pool_timeout(pool, None))
}

/// The failure of the statements of `schema` that make the tables.
pub fn migration_failed(
    source: sqlx::Error,
    schema: &'static str,
    place: impl Into<Cow<'static, str>>,
) -> StoreError {
    if kind_of(&source) != Misconfigured {
        return statement_failed(source, place);
    }
    let reason = reason::of_migration(&source);
    StoreError::new(Misconfigured, NotMigrated { source, schema })
        .reason(reason)
        .place(place)
}

/// The place of the database that `pool` connects to.
pub fn place<DB: SqlxDatabase>(pool: &Pool<DB>) -> String {
    DB::place(&pool.connect_options())
}

fn store_error(
    kind: StoreErrorKind,
    reason: Option<&'static str>,
    source: impl StdError + Send + Sync + 'static,
) -> StoreError {
    let failure = StoreError::of_server(kind, source);
    match reason {
        Some(reason) => failure.reason(reason),
        None => failure,
    }
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

#[derive(Error)]
#[error("these statements make the tables:\n\n{schema}\n")]
struct NotMigrated {
    source: sqlx::Error,
    schema: &'static str,
}

impl fmt::Debug for NotMigrated {
    /// Does not print the statements: they have many lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotMigrated")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

fn kind_of(error: &sqlx::Error) -> StoreErrorKind {
    match error {
        sqlx::Error::Database(refusal) => kind_of_code(&Code::from_refusal(&**refusal)),
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => NotApplied,
        sqlx::Error::Configuration(_) | sqlx::Error::Tls(_) | sqlx::Error::InvalidArgument(_) => {
            Misconfigured
        }
        _ => Unknown,
    }
}

fn kind_of_code(code: &Code) -> StoreErrorKind {
    match code {
        Code::State(state) => kind_of_state(state),
        Code::MySql(number, state) => kind_of_number(*number, state),
        Code::Sqlite(code) => kind_of_result_code(*code),
    }
}

/// The kind for a state of PostgreSQL. Its first two characters are its class.
fn kind_of_state(state: &str) -> StoreErrorKind {
    match state {
        // The server or the connection ended. The statement may be committed.
        "40003" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => Unknown,
        "53100" => Full,
        _ => match state.get(..2) {
            Some("08") | None => Unknown,
            // The value is too large for the server.
            Some("54") => Full,
            // An unknown database, user or schema; a wrong password; a missing or forbidden table or column.
            Some("28" | "3D" | "3F" | "42") => Misconfigured,
            _ => NotApplied,
        },
    }
}

fn kind_of_number(number: u16, state: &str) -> StoreErrorKind {
    match number {
        // A full disk or table; a packet, a result or a row that is too large.
        1021 | 1114 | 1118 | 1153 | 1301 => Full,
        // A failed commit, a shutdown, a killed connection, a network error, "unknown error".
        1053 | 1105 | 1158..=1161 | 1180 | 1927 | 4031 => Unknown,
        // Users and passwords, databases, tables, columns, privileges, syntax, engines.
        1044..=1046
        | 1049
        | 1054
        | 1064
        | 1142
        | 1143
        | 1146
        | 1227
        | 1251
        | 1286
        | 1364
        | 1370
        | 1524
        | 1698
        | 1932 => Misconfigured,
        _ if state.starts_with("08") => Unknown,
        _ => NotApplied,
    }
}

/// The kind for a result code of SQLite. The low byte is the error; the other bytes are the place in SQLite.
fn kind_of_result_code(code: i32) -> StoreErrorKind {
    match code & 0xff {
        // A full disk; a value that is too large.
        13 | 18 => Full,
        // A general error (for example a missing table), permissions, and a file that is read-only, damaged, cannot be
        // opened, or is no database.
        1 | 3 | 8 | 11 | 14 | 23 | 26 => Misconfigured,
        // Busy, locked, out of memory, interrupted, a race for the write-ahead log, a changed schema: SQLite undid everything.
        4..=7 | 9 | 15 | 17 => NotApplied,
        _ => Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::refusal::refused;
    use super::*;

    #[test]
    fn every_state_has_its_kind() {
        for (state, kind) in [
            ("40001", NotApplied),
            ("40P01", NotApplied),
            ("55P03", NotApplied),
            ("57014", NotApplied),
            ("25006", NotApplied),
            ("25P02", NotApplied),
            ("53300", NotApplied),
            ("53200", NotApplied),
            ("0A000", NotApplied),
            ("26000", NotApplied),
            ("XX000", NotApplied),
            ("53100", Full),
            ("54000", Full),
            ("42P01", Misconfigured),
            ("42501", Misconfigured),
            ("42703", Misconfigured),
            ("3D000", Misconfigured),
            ("3F000", Misconfigured),
            ("28P01", Misconfigured),
            ("28000", Misconfigured),
            ("08006", Unknown),
            ("08P01", Unknown),
            ("40003", Unknown),
            ("57P01", Unknown),
            ("57P02", Unknown),
            ("57P03", Unknown),
            ("57P05", Unknown),
            ("", Unknown),
        ] {
            assert_eq!(
                statement_failed(refused(state), "a test").kind(),
                kind,
                "{state}"
            );
        }
    }

    #[test]
    fn every_number_has_its_kind() {
        for (number, state, kind) in [
            (1213, "40001", NotApplied),
            (1205, "HY000", NotApplied),
            (1290, "HY000", NotApplied),
            (1836, "HY000", NotApplied),
            (1792, "25006", NotApplied),
            (1040, "08004", Unknown),
            (1317, "70100", NotApplied),
            (1969, "70100", NotApplied),
            (1114, "HY000", Full),
            (1021, "HY000", Full),
            (1153, "08S01", Full),
            (1146, "42S02", Misconfigured),
            (1142, "42000", Misconfigured),
            (1045, "28000", Misconfigured),
            (1044, "42000", Misconfigured),
            (1046, "3D000", Misconfigured),
            (1049, "42000", Misconfigured),
            (1053, "08S01", Unknown),
            (1047, "08S01", Unknown),
            (1180, "HY000", Unknown),
            (1927, "70100", Unknown),
        ] {
            assert_eq!(kind_of_number(number, state), kind, "{number}");
        }
    }

    #[test]
    fn every_result_code_has_its_kind() {
        for (code, kind) in [
            (5, NotApplied),
            (517, NotApplied),
            (261, NotApplied),
            (6, NotApplied),
            (262, NotApplied),
            (7, NotApplied),
            (9, NotApplied),
            (15, NotApplied),
            (13, Full),
            (18, Full),
            (1, Misconfigured),
            (8, Misconfigured),
            (1032, Misconfigured),
            (14, Misconfigured),
            (11, Misconfigured),
            (26, Misconfigured),
            (10, Unknown),
            (1034, Unknown),
            (0, Unknown),
        ] {
            assert_eq!(kind_of_result_code(code), kind, "{code}");
        }
    }

    #[test]
    fn a_long_or_unprintable_text_of_the_database_is_cut_and_escaped() {
        let long = || sqlx::Error::Protocol("x".repeat(1_000_000));
        for error in [
            statement_failed(long(), "a test"),
            connect_failed(long(), "a test"),
        ] {
            assert!(format!("{error:?}").len() < 2_000);
        }
        let error = statement_failed(sqlx::Error::Protocol("a\x1b[31m".to_owned()), "a test");
        let text = error.source().expect("an error").to_string();
        assert!(text.contains("a\\u{1b}[31m"), "{text}");
    }

    #[test]
    fn errors_of_the_client_have_their_kinds() {
        let io = || sqlx::Error::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(statement_failed(io(), "a test").kind(), Unknown);
        assert_eq!(connect_failed(io(), "a test").kind(), NotApplied);
        assert_eq!(
            statement_failed(sqlx::Error::Protocol(String::new()), "a test").kind(),
            Unknown
        );
        assert_eq!(
            statement_failed(sqlx::Error::RowNotFound, "a test").kind(),
            Unknown
        );
        assert_eq!(
            statement_failed(sqlx::Error::WorkerCrashed, "a test").kind(),
            Unknown
        );
        assert_eq!(
            statement_failed(sqlx::Error::PoolTimedOut, "a test").kind(),
            NotApplied
        );
        assert_eq!(
            statement_failed(sqlx::Error::PoolClosed, "a test").kind(),
            NotApplied
        );
        let url = || sqlx::Error::Configuration("no".into());
        assert_eq!(connect_failed(url(), "a test").kind(), Misconfigured);
        assert_eq!(
            connect_failed(refused("28P01"), "a test").kind(),
            Misconfigured
        );
        assert_eq!(
            connect_failed(refused("57P03"), "a test").kind(),
            NotApplied
        );
    }
}
