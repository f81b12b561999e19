//! What a failed statement has changed.

use FailureKind::{Full, Misconfigured, NotApplied, Unknown};

use crate::code::Code;

/// What the database says about a statement that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// It changed nothing, and may be sent again.
    NotApplied,
    /// There is no conclusive answer: it was applied, or will be, or never will.
    Unknown,
    /// There is no room for new data, or the value is too large. It changed nothing.
    Full,
    /// The database is not set up for it: a login, a privilege, a table. It changed nothing.
    Misconfigured,
}

/// The kind of an error of sqlx.
pub(super) fn of(error: &sqlx::Error) -> FailureKind {
    match error {
        sqlx::Error::Database(refusal) => of_code(&Code::from_refusal(&**refusal)),
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => NotApplied,
        sqlx::Error::Configuration(_) | sqlx::Error::Tls(_) | sqlx::Error::InvalidArgument(_) => {
            Misconfigured
        }
        _ => Unknown,
    }
}

/// The kind of a code.
pub(super) fn of_code(code: &Code) -> FailureKind {
    match code {
        Code::State(state) => of_state(state),
        Code::MySql(number, state) => of_number(*number, state),
        Code::Sqlite(code) => of_result_code(*code),
    }
}

/// The kind for a state of PostgreSQL. Its first two characters are its class.
fn of_state(state: &str) -> FailureKind {
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

fn of_number(number: u16, state: &str) -> FailureKind {
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
fn of_result_code(code: i32) -> FailureKind {
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
            assert_eq!(of_state(state), kind, "{state}");
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
            assert_eq!(of_number(number, state), kind, "{number}");
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
            assert_eq!(of_result_code(code), kind, "{code}");
        }
    }
}
