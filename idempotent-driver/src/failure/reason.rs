//! Why an operation failed, as the rest of a sentence that begins with "the store".
//!
//! Clients may see a reason, so it contains no address, path, user or statement.

use std::borrow::Cow;
use std::error::Error as _;
use std::time::Duration;
use std::{io, iter};

use sqlx::error::DatabaseError;
use sqlx::{Error, Pool};

use crate::code::{Code, is_closed_at_first_message};
use crate::database::SqlxDatabase;
use crate::error::{DriverError, DriverErrorKind};

/// Why a statement failed. `None`: only its kind is known.
pub(super) fn of_statement(error: &Error) -> Option<&'static str> {
    match error {
        Error::Io(error) => of_lost_connection(error),
        error => of_error(error),
    }
}

/// Why a statement of a driver failed.
pub(super) fn of_driver(error: &DriverError) -> Option<&'static str> {
    match error.code() {
        Some(code) => of_code(code, &error.source()?.to_string()),
        None if error.kind() == DriverErrorKind::Lost => Some(of_lost(error)),
        None => None,
    }
}

/// Why a driver has no connection. Some libraries keep only the text of the cause.
fn of_lost(error: &DriverError) -> &'static str {
    let causes = || iter::successors(error.source(), |cause| (*cause).source());
    let mut reasons = causes().filter_map(|cause| of_lost_connection(cause.downcast_ref()?));
    match reasons.next() {
        Some(reason) => reason,
        None if causes().any(|cause| cause.to_string().contains("Connection refused")) => REFUSED,
        None => LOST,
    }
}

/// Why there is no connection.
pub(super) fn of_connection(error: &Error) -> Option<&'static str> {
    match error {
        Error::Io(error) => of_no_connection(error),
        error => of_error(error),
    }
}

/// Why a pool gave no connection within the time `waited`, or before the caller's deadline.
pub(super) fn of_pool_timeout<DB: SqlxDatabase>(
    pool: &Pool<DB>,
    waited: Option<Duration>,
) -> Cow<'static, str> {
    let (most, open) = (pool.options().get_max_connections(), pool.size());
    let in_time = match waited {
        Some(waited) => format!("within {waited:?}"),
        None => "in time".to_owned(),
    };
    if open < most {
        return format!("accepted no connection {in_time} (is the server running and below its limit of connections?)").into();
    }
    // The pool counts a connection that is being opened, too. A server that is down opens none.
    let (busy, check) = if DB::HAS_SERVER {
        ("in use or being opened", "; is the server running?")
    } else {
        ("in use", "")
    };
    let all = match most {
        1 => "its only one is".to_owned(),
        most => format!("all {most} of the pool are"),
    };
    format!(
        "had no free connection {in_time}: {all} {busy} (raise `max_connections` \
         of the pool, or hold its connections for a shorter time{check})"
    )
    .into()
}

const LOST: &str = "closed the connection before it answered (did the server stop or restart?)";
const REFUSED: &str = "refused the connection (is the server running?)";
const CLOSED_NEW_CONNECTION: &str =
    "closed the new connection (check the port, and whether the server is starting or stopping)";

fn of_error(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Database(refusal) => return of_refusal(&**refusal),
        Error::Tls(error) if error.to_string().contains("built without TLS") => {
            "needs TLS, which sqlx was built without (enable its feature `tls-rustls` or `tls-native-tls`)"
        }
        Error::Tls(_) => "failed the TLS handshake (check the TLS mode and the certificates)",
        error if is_closed_at_first_message(error) => CLOSED_NEW_CONNECTION,
        Error::Protocol(_) => {
            "sent what its client does not understand (check the host and the port)"
        }
        Error::PoolClosed => "has no connection, because its pool was closed",
        Error::Configuration(_) => "has connection settings that its client cannot use",
        Error::WorkerCrashed => "lost the thread that runs its statements",
        _ => return None,
    })
}

fn of_lost_connection(error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof,
    };
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof => {
            Some(LOST)
        }
        TimedOut => Some("did not answer in time"),
        _ => of_no_connection(error),
    }
}

fn of_no_connection(error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkDown, NetworkUnreachable, NotConnected, NotFound, PermissionDenied, TimedOut,
        UnexpectedEof,
    };
    Some(match error.kind() {
        ConnectionRefused => REFUSED,
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof => {
            CLOSED_NEW_CONNECTION
        }
        TimedOut => "did not answer in time (check the host and the firewall)",
        HostUnreachable | NetworkDown | NetworkUnreachable => {
            "cannot be reached over the network (check the host and the firewall)"
        }
        NotFound => {
            "cannot be reached: its socket or a certificate file does not exist (is the server running?)"
        }
        PermissionDenied => {
            "cannot be reached: its socket or a certificate file is closed to this process"
        }
        _ if error.to_string().contains("failed to lookup address") => {
            "cannot be reached: its host name is unknown (check the host and DNS)"
        }
        _ => return None,
    })
}

fn of_refusal(refusal: &dyn DatabaseError) -> Option<&'static str> {
    of_code(&Code::from_refusal(refusal), refusal.message())
}

fn of_code(code: &Code, message: &str) -> Option<&'static str> {
    if code.is_missing_table(message) {
        return Some(of_missing_table(message));
    }
    match code {
        Code::State(state) => of_state(state),
        Code::MySql(number, _) => of_number(*number),
        Code::Sqlite(code) => of_result_code(*code, message),
    }
}

fn of_missing_table(message: &str) -> &'static str {
    if message.contains("idempotence_lock") {
        "has no table `idempotence_lock` (call `sql::migrate` at every start, run `idempotence migrate`, or apply the statements of `sql::schema`)"
    } else if message.contains("idempotence_version") {
        "has no table `idempotence_version` (call `sql::migrate` at every start, run `idempotence migrate`, or apply the statements of `sql::schema`)"
    } else {
        "has no table `idempotence` (call `sql::migrate` at every start, run `idempotence migrate`, or apply the statements of `sql::schema`)"
    }
}

const BAD_LOGIN: &str = "refused the login (check the user and the password)";
const NO_DATABASE: &str =
    "has no such database (create it, or correct its name in the connection settings)";
/// The reason of a missing privilege on the tables.
pub const MISSING_PRIVILEGE: &str = "denies its user a privilege (grant SELECT, INSERT, UPDATE and DELETE on `idempotence` and \
     `idempotence_lock`, and SELECT on `idempotence_version`)";
const OTHER_COLUMNS: &str =
    "has a table `idempotence` with other columns (does another program use that name?)";
const READ_ONLY: &str = "accepts no writes: it is a replica or read-only (connect to the primary)";
const ABORTED: &str = "rolls the transaction back: a statement in it failed, and its error was ignored (return the error of every statement)";
const TOO_MANY_CONNECTIONS: &str = "has too many connections (raise the limit of the server or of its user, or lower \
     `max_connections` of the pools)";
const STOPPED: &str = "ended the session before it answered (did the server stop or restart, or was the session killed?)";
const CONFLICT: &str = "refused the operation in favour of a concurrent transaction";
const LOCKED: &str =
    "did not get a row within the lock timeout, because another transaction has locked it";
const CANCELLED: &str = "cancelled the statement (check its statement timeout)";
const NO_ROOM: &str = "has no room left on its disk or in its table";

fn of_state(state: &str) -> Option<&'static str> {
    Some(match state {
        "28P01" => BAD_LOGIN,
        "28000" => "refused the login (check the user and the password, and `pg_hba.conf`)",
        "3D000" => NO_DATABASE,
        "42501" => MISSING_PRIVILEGE,
        "42703" => OTHER_COLUMNS,
        "42601" | "42883" => "does not know the statement (PostgreSQL 11 or newer is needed)",
        "25006" => READ_ONLY,
        "25P02" => ABORTED,
        "53300" => TOO_MANY_CONNECTIONS,
        "57P01" | "57P02" | "57P05" => STOPPED,
        "57P03" => "is starting or stopping",
        "40001" | "40P01" => CONFLICT,
        "55P03" => LOCKED,
        "57014" => CANCELLED,
        "53100" => NO_ROOM,
        _ => return None,
    })
}

fn of_number(number: u16) -> Option<&'static str> {
    Some(match number {
        1045 | 1698 => BAD_LOGIN,
        1044 => {
            "denies its user the database (grant privileges on it, or correct its name in the connection settings)"
        }
        1046 => "was given no database (end the URL with `/` and the name of one)",
        1049 => NO_DATABASE,
        1054 => OTHER_COLUMNS,
        1064 => "does not know the statement (MySQL 8.0 or MariaDB 10.6 or newer is needed)",
        1142 | 1143 => MISSING_PRIVILEGE,
        1251 | 1524 => "wants a login method that its client lacks",
        1129 | 1130 => {
            "refuses connections from this host (allow the user to connect from it; `FLUSH HOSTS` lifts a block)"
        }
        1040 | 1203 | 1226 => TOO_MANY_CONNECTIONS,
        1053 | 1927 | 4031 => STOPPED,
        1290 | 1792 | 1836 => READ_ONLY,
        1205 => LOCKED,
        1213 | 1020 => CONFLICT,
        1317 | 1969 | 3024 => CANCELLED,
        1021 | 1114 => NO_ROOM,
        1153 => "refused a record that is larger than its `max_allowed_packet`",
        _ => return None,
    })
}

fn of_result_code(code: i32, message: &str) -> Option<&'static str> {
    Some(match code & 0xff {
        1 if message.contains("syntax error") => {
            "does not know the statement (SQLite 3.35 or newer is needed)"
        }
        1 if message.contains("no such column") || message.contains("has no column") => {
            OTHER_COLUMNS
        }
        3 | 23 => "denies access",
        5 | 6 => {
            "is busy, because another connection writes to the file (shorten its transactions, or raise `busy_timeout`)"
        }
        8 => {
            "accepts no writes: the file is read-only (check the permissions of the file and its directory, and `mode` in the URL)"
        }
        9 => CANCELLED,
        10 => "could not read or write its file (check the disk)",
        11 => "has a damaged file (`PRAGMA integrity_check` names the damage)",
        13 => NO_ROOM,
        14 => "cannot open its file (check the path and the permissions)",
        18 => "refused a record that is too large for it",
        26 => "has a file that is no SQLite database",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::refusal::refused;
    use super::*;

    #[test]
    fn an_unknown_host_an_old_server_and_missing_tls_say_what_to_do() {
        let lookup = "failed to lookup address information: Name or service not known";
        for (error, reason) in [
            (
                Error::Io(io::Error::other(lookup)),
                "cannot be reached: its host name is unknown (check the host and DNS)",
            ),
            (
                refused("42883"),
                "does not know the statement (PostgreSQL 11 or newer is needed)",
            ),
            (
                refused("53300"),
                "has too many connections (raise the limit of the server or of its user, or lower `max_connections` of the \
                 pools)",
            ),
            (
                refused("28P01"),
                "refused the login (check the user and the password)",
            ),
            (
                Error::Tls("SQLx was built without TLS support enabled".into()),
                "needs TLS, which sqlx was built without (enable its feature `tls-rustls` or `tls-native-tls`)",
            ),
        ] {
            assert_eq!(of_connection(&error), Some(reason));
        }
        assert_eq!(
            of_number(1064),
            Some("does not know the statement (MySQL 8.0 or MariaDB 10.6 or newer is needed)")
        );
        assert_eq!(
            of_result_code(1, "near \"RETURNING\": syntax error"),
            Some("does not know the statement (SQLite 3.35 or newer is needed)")
        );
    }

    #[test]
    fn a_broken_connection_is_described_by_what_it_was_for() {
        let reset = || Error::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(
            of_statement(&reset()),
            Some("closed the connection before it answered (did the server stop or restart?)")
        );
        assert_eq!(
            of_connection(&reset()),
            Some(
                "closed the new connection (check the port, and whether the server is starting or stopping)"
            )
        );
        assert_eq!(of_statement(&Error::RowNotFound), None);
    }

    #[test]
    fn a_refused_connection_of_a_library_is_not_a_closed_one() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let in_text = io::Error::other("error connecting to server: Connection refused");
        for error in [
            DriverError::lost(refused()),
            DriverError::lost(Error::Io(refused())),
            DriverError::lost(in_text),
        ] {
            assert_eq!(of_driver(&error), Some(REFUSED), "{error:?}");
        }
        assert_eq!(of_driver(&DriverError::lost("closed")), Some(LOST));
    }
}
