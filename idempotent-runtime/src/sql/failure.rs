//! What an error of the client says about the operation.

use sqlx::error::DatabaseError;
use thiserror::Error;

use crate::store::{StoreError, StoreErrorKind};

#[cfg(test)]
pub(super) mod refusal;

use StoreErrorKind::{Full, Misconfigured, NotApplied, Unknown};

/// What a statement was answered with.
pub(crate) fn statement_failed(error: sqlx::Error) -> StoreError {
    let kind = kind_of(&error);
    if is_missing_table(&error) {
        return StoreError::new(kind, NoTables(error));
    }
    if kind == Misconfigured && is_denied(&error) {
        return StoreError::new(kind, Denied(error));
    }
    StoreError::new(kind, error)
}

/// What the statements of `schema`, which make the tables, were answered with.
pub(crate) fn migration_failed(source: sqlx::Error, schema: &'static str) -> StoreError {
    let kind = kind_of(&source);
    if kind != Misconfigured {
        return StoreError::new(kind, source);
    }
    StoreError::new(kind, NotMigrated { source, schema })
}

/// There is no connection: nothing was sent.
pub(crate) fn connect_failed(error: sqlx::Error) -> StoreError {
    let kind = match kind_of(&error) {
        Unknown => NotApplied,
        kind => kind,
    };
    StoreError::new(kind, error)
}

pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    let Some(refusal) = error.as_database_error() else {
        return false;
    };
    match Code::from_refusal(refusal) {
        Code::State(state) => state == "42P01",
        Code::MySql(number, _) => number == 1146,
        Code::Sqlite(code) => code == 1 && refusal.message().starts_with("no such table"),
    }
}

fn is_denied(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .map(Code::from_refusal)
        .is_some_and(|code| match code {
            Code::State(state) => state == "42501",
            Code::MySql(number, _) => matches!(number, 1142 | 1143),
            Code::Sqlite(code) => code & 0xff == 8,
        })
}

#[derive(Debug, Error)]
#[error(
    "the tables are missing: call `store.migrate()`, or have the statements of `sql::schema()` applied"
)]
struct NoTables(#[source] sqlx::Error);

#[derive(Debug, Error)]
#[error(
    "the user of the database may not do that: it needs SELECT, INSERT, UPDATE and DELETE on `idempotence`, and SELECT on `idempotence_version`"
)]
struct Denied(#[source] sqlx::Error);

#[derive(Debug, Error)]
#[error(
    "the tables cannot be made here, so have these statements applied by one who may:\n\n{schema}\n"
)]
struct NotMigrated {
    source: sqlx::Error,
    schema: &'static str,
}

fn kind_of(error: &sqlx::Error) -> StoreErrorKind {
    match error {
        sqlx::Error::Database(refusal) => match Code::from_refusal(&**refusal) {
            Code::State(state) => kind_of_state(&state),
            Code::MySql(number, state) => kind_of_number(number, &state),
            Code::Sqlite(code) => kind_of_result_code(code),
        },
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => NotApplied,
        sqlx::Error::Configuration(_) | sqlx::Error::Tls(_) | sqlx::Error::InvalidArgument(_) => {
            Misconfigured
        }
        _ => Unknown,
    }
}

/// PostgreSQL tells all by the state, whose first two characters are its class.
fn kind_of_state(state: &str) -> StoreErrorKind {
    match state {
        // It may have been committed when the server, or the connection, went away.
        "40003" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => Unknown,
        "53100" => Full,
        _ => match state.get(..2) {
            Some("08") | None => Unknown,
            // A value that is too large for the server.
            Some("54") => Full,
            // No such database, user or schema; a password; a table or column that is missing or denied.
            Some("28" | "3D" | "3F" | "42") => Misconfigured,
            _ => NotApplied,
        },
    }
}

fn kind_of_number(number: u16, state: &str) -> StoreErrorKind {
    match number {
        // A full disk or table; a packet, a result or a row that is too large.
        1021 | 1114 | 1118 | 1153 | 1301 => Full,
        // A failed commit, a shutdown, a killed connection, what came over the network, and "unknown error".
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

/// The low byte is what it is about, the others are where it happened.
fn kind_of_result_code(code: i32) -> StoreErrorKind {
    match code & 0xff {
        // A full disk; a value that is too large.
        13 | 18 => Full,
        // An error (as that a table is missing), permissions, a file that is only to be read, that
        // is damaged, cannot be opened, or is no database.
        1 | 3 | 8 | 11 | 14 | 23 | 26 => Misconfigured,
        // Busy, locked, out of memory, interrupted, a race for the log, a schema that changed: all is undone.
        4..=7 | 9 | 15 | 17 => NotApplied,
        _ => Unknown,
    }
}

/// What a database calls its refusal.
#[cfg_attr(
    not(all(feature = "mysql", feature = "sqlite")),
    expect(dead_code, reason = "each database has its own")
)]
pub(super) enum Code {
    /// A state of the SQL standard, and of PostgreSQL.
    State(String),
    /// A number of MySQL, and the state, which says less.
    MySql(u16, String),
    /// An extended result code.
    Sqlite(i32),
}

impl Code {
    pub(super) fn from_refusal(refusal: &dyn DatabaseError) -> Self {
        let code = refusal.code().unwrap_or_default();
        #[cfg(feature = "mysql")]
        if let Some(error) = refusal.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return Self::MySql(error.number(), code.into_owned());
        }
        #[cfg(feature = "sqlite")]
        if refusal
            .try_downcast_ref::<sqlx::sqlite::SqliteError>()
            .is_some()
        {
            return Self::Sqlite(code.parse().unwrap_or_default());
        }
        Self::State(code.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::refusal::refused;
    use super::*;

    #[test]
    fn states_are_told_apart() {
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
            assert_eq!(statement_failed(refused(state)).kind(), kind, "{state}");
        }
    }

    #[test]
    fn numbers_are_told_apart() {
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
    fn result_codes_are_told_apart() {
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
    fn what_the_client_says_itself() {
        let io = || sqlx::Error::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(statement_failed(io()).kind(), Unknown);
        assert_eq!(connect_failed(io()).kind(), NotApplied);
        assert_eq!(
            statement_failed(sqlx::Error::Protocol(String::new())).kind(),
            Unknown
        );
        assert_eq!(statement_failed(sqlx::Error::RowNotFound).kind(), Unknown);
        assert_eq!(statement_failed(sqlx::Error::WorkerCrashed).kind(), Unknown);
        assert_eq!(
            statement_failed(sqlx::Error::PoolTimedOut).kind(),
            NotApplied
        );
        assert_eq!(statement_failed(sqlx::Error::PoolClosed).kind(), NotApplied);
        let url = || sqlx::Error::Configuration("no".into());
        assert_eq!(connect_failed(url()).kind(), Misconfigured);
        assert_eq!(connect_failed(refused("28P01")).kind(), Misconfigured);
        assert_eq!(connect_failed(refused("57P03")).kind(), NotApplied);
    }
}
