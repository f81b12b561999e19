//! Whether a failed transaction should be retried, and whether it may be committed.

use std::error::Error as StdError;
use std::{io, iter};

use super::code::{Code, is_closed_at_first_message};
use crate::sql::adapters;
use crate::sql::driver::{DriverError, DriverErrorKind};
use crate::store::{StoreError, StoreErrorKind};

/// Whether a transaction that failed with `error` certainly did nothing, and should be retried from its beginning.
///
/// A database asks for this when two transactions conflict: after a serialization failure, a deadlock, or a timeout for a
/// lock or for a busy SQLite file. The error may be an error of sqlx, or any error whose `source()` leads to one: a
/// [`StoreError`], an [`Error`](crate::Error), or an error type of the caller.
///
/// `false` after a lost connection, because a `COMMIT` whose reply was lost may be applied. A transaction that writes the dedup
/// row may also be retried then: see [`is_retryable_with_row`].
///
/// Roll back, and never continue the transaction:
///
/// | | the refusal | the transaction afterwards |
/// | --- | --- | --- |
/// | PostgreSQL | 40001, 40P01 (deadlock), 55P03 (lock timeout) | every further statement fails (25P02) until the rollback |
/// | MySQL, MariaDB | 1213 (deadlock), 1020 (an old snapshot) | was rolled back, and *each further statement is committed by itself* |
/// | | 1205 (lock wait timeout) | has its work except the statement, unless `innodb_rollback_on_timeout` is on |
/// | SQLite | `SQLITE_BUSY` | has all its work |
pub fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
    causes(error)
        .take_while(|cause| !may_be_applied(*cause))
        .find_map(code_of)
        .is_some_and(|code| code.is_conflict())
}

/// Whether a transaction that writes the dedup row (the option `tx`, or `run_in`) and failed with `error` should be retried
/// from its beginning, with the same key.
///
/// In addition to [`is_retryable`], this is `true` after a lost connection and after a `COMMIT` whose reply was lost. The
/// transaction may then be committed. If it is, the row exists, the body does not run a second time, and with `replay` the
/// caller gets the first result. If it is not committed, the body runs.
///
/// **Work that the row does not protect may be done twice:** a transaction without a guarded call, statements outside the
/// call, and a call that its `when` left unguarded. Use [`is_retryable`] there.
///
/// `false` if the row was removed from the transaction before its end (`Error::LeaseLost`): later statements may be
/// committed without the row.
///
/// An [`io::Error`] of a lost connection counts even without an error of sqlx around it, because `#[error(transparent)]` leaves
/// only the inner error. So a lost connection to another service also counts. If the body must not call that service again, do
/// not return its error as a `source()`.
pub fn is_retryable_with_row(error: &(dyn StdError + 'static)) -> bool {
    causes(error)
        .take_while(|cause| !is_from_another_store(*cause))
        .find_map(|cause| {
            if let Some(code) = code_of(cause) {
                return Some(code.is_conflict() || code.is_unanswered());
            }
            match cause.downcast_ref() {
                None if is_lost(cause) => Some(true),
                Some(sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed) => Some(true),
                Some(error) if is_closed_at_first_message(error) => Some(true),
                _ => cause.downcast_ref().map(names_a_lost_connection),
            }
        })
        .unwrap_or(false)
}

/// Whether the work of a transaction that failed with `error` may be committed: a judge for the option `hold_err` of a function
/// that commits its transaction itself.
///
/// `true` if no server has said what happened: after a lost or broken connection, an answer that cannot be read, a shutdown of
/// the server, and a state of the class `08` or `40003`. `false` if a server has refused a statement or the `COMMIT`, for example
/// with a deadlock, a serialization failure or a deferred constraint: such a transaction is rolled back. `false` also if there was
/// no connection (`PoolTimedOut`, `PoolClosed`), and for every error that no database made.
///
/// **The error does not say which statement it is about.** So a connection that was lost before the `COMMIT` also counts, although the
/// database then rolls back, and one that could not be opened. A function that knows better judges by itself: only an error of
/// `commit()` can leave the outcome unknown. A refused `COMMIT` of MySQL and MariaDB that names no reason (1180) counts as unknown.
///
/// As with [`is_retryable_with_row`], the error may be an error of sqlx or any error whose `source()` leads to one, and an
/// [`io::Error`] of a lost connection counts even if it is from another service. `#[error(transparent)]` around an error of sqlx hides
/// an answer that cannot be read: write `#[source]`.
///
/// With the option `tx` this judge is not needed: the row says whether the work is committed.
pub fn is_outcome_unknown(error: &(dyn StdError + 'static)) -> bool {
    causes(error)
        .take_while(|cause| !is_from_another_store(*cause))
        .find_map(|cause| {
            if let Some(code) = code_of(cause) {
                return Some(code.is_unanswered());
            }
            match cause.downcast_ref() {
                None if is_lost(cause) || adapters::is_unreadable(cause) => Some(true),
                Some(
                    sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed,
                ) => Some(true),
                _ => cause.downcast_ref().map(names_a_lost_connection),
            }
        })
        .unwrap_or(false)
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |error| StdError::source(*error))
}

/// The code in an error of a driver or of a library, without its causes.
fn code_of(cause: &(dyn StdError + 'static)) -> Option<Code> {
    if let Some(error) = cause.downcast_ref::<DriverError>() {
        return error.code().cloned();
    }
    Code::from_error(cause).or_else(|| adapters::code_of(cause))
}

/// Whether a driver or a library, but sqlx, found the connection lost.
fn is_lost(cause: &(dyn StdError + 'static)) -> bool {
    let error = cause.downcast_ref().map(DriverError::kind);
    error == Some(DriverErrorKind::Lost) || adapters::is_lost(cause)
}

/// Whether a store sent the operation several times. If so, the last answer proves nothing about the earlier sends.
fn may_be_applied(error: &(dyn StdError + 'static)) -> bool {
    let error: Option<&StoreError> = error.downcast_ref();
    error.is_some_and(|error| error.kind() == StoreErrorKind::Unknown)
}

/// Whether the error is from a store that is not a database. Such a store does not use the transaction's connection.
fn is_from_another_store(error: &(dyn StdError + 'static)) -> bool {
    let is_from_a_database = || {
        error
            .source()
            .is_some_and(|source| source.is::<sqlx::Error>() || source.is::<DriverError>())
    };
    error.is::<StoreError>() && !is_from_a_database()
}

fn names_a_lost_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkDown, NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof,
    };
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
            | NotConnected
            | TimedOut
            | UnexpectedEof
    )
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::super::refusal::refused;
    use super::super::{connect_failed, driver_failed, statement_failed};
    use super::*;

    /// Error types of callers.
    #[derive(Debug, Error)]
    enum CallerError {
        #[error(transparent)]
        As(#[from] sqlx::Error),
        #[error("failed")]
        By(#[source] Box<dyn StdError + Send + Sync>),
    }

    /// The same error in the forms in which the caller of a transaction may get it.
    fn forms_of(error: impl Fn() -> sqlx::Error) -> [Box<dyn StdError>; 4] {
        [
            Box::new(error()),
            Box::new(statement_failed(error(), "a test")),
            Box::new(CallerError::As(error())),
            Box::new(CallerError::By(Box::new(CallerError::As(error())))),
        ]
    }

    #[test]
    fn a_retryable_error_is_recognised_in_every_form() {
        for (state, again, with_row) in [
            ("40001", true, true),
            ("40P01", true, true),
            ("55P03", true, true),
            ("08006", false, true),
            ("08007", false, true),
            ("25P03", false, true),
            ("40003", false, true),
            ("57P01", false, true),
            ("57P03", false, true),
            ("23505", false, false),
            ("25P02", false, false),
            ("57P04", false, false),
        ] {
            for error in forms_of(|| refused(state)) {
                assert_eq!(is_retryable(&*error), again, "{state}: {error:?}");
                assert_eq!(
                    is_retryable_with_row(&*error),
                    with_row,
                    "{state}: {error:?}"
                );
            }
        }
    }

    #[test]
    fn an_error_of_a_driver_is_read_by_its_code() {
        type Make = fn() -> DriverError;
        let errors: [(Make, bool, bool, bool); 5] = [
            (|| DriverError::postgres("40P01", "no"), true, true, false),
            (|| DriverError::postgres("57P01", "no"), false, true, true),
            (|| DriverError::postgres("23505", "no"), false, false, false),
            (|| DriverError::lost("no"), false, true, true),
            (|| DriverError::other("no"), false, false, false),
        ];
        for (error, again, with_row, is_unknown) in errors {
            let forms: [Box<dyn StdError>; 3] = [
                Box::new(error()),
                Box::new(driver_failed(error(), "a test")),
                Box::new(CallerError::By(Box::new(error()))),
            ];
            for error in forms {
                assert_eq!(is_retryable(&*error), again, "{error:?}");
                assert_eq!(is_retryable_with_row(&*error), with_row, "{error:?}");
                assert_eq!(is_outcome_unknown(&*error), is_unknown, "{error:?}");
            }
        }
    }

    #[cfg(all(feature = "diesel-async", feature = "sea-orm", feature = "sqlx-08"))]
    #[test]
    fn an_answer_that_a_library_cannot_read_leaves_the_outcome_unknown() {
        use diesel::result::DatabaseErrorKind::Unknown;

        let sea_orm = || {
            let error = sqlx::Error::Protocol("no message".into());
            sea_orm::DbErr::Exec(sea_orm::RuntimeErr::SqlxError(error.into()))
        };
        let diesel = |text: &str| {
            let text: Box<String> = Box::new(text.to_owned());
            diesel::result::Error::DatabaseError(Unknown, text)
        };
        let errors: [(Box<dyn StdError>, bool); 6] = [
            (Box::new(sea_orm()), true),
            (
                Box::new(sqlx_08::Error::Protocol("no message".into())),
                true,
            ),
            (Box::new(sqlx_08::Error::RowNotFound), false),
            (Box::new(diesel("server conn crashed?")), true),
            (
                Box::new(diesel("the database system is shutting down")),
                true,
            ),
            (Box::new(diesel("printer 7 is shutting down")), false),
        ];
        for (error, is_unknown) in errors {
            assert_eq!(is_outcome_unknown(&*error), is_unknown, "{error:?}");
        }
    }

    #[test]
    fn an_outcome_is_unknown_if_no_server_has_said_what_happened() {
        let is_unknown = |error: &dyn Fn() -> sqlx::Error, expected| {
            for error in forms_of(error) {
                assert_eq!(is_outcome_unknown(&*error), expected, "{error:?}");
            }
        };
        for state in ["08006", "08007", "40003", "57P01", "57P02"] {
            is_unknown(&|| refused(state), true);
        }
        for state in [
            "23505", "23503", "40001", "40P01", "55P03", "25P02", "53100",
        ] {
            is_unknown(&|| refused(state), false);
        }
        is_unknown(
            &|| sqlx::Error::Io(io::ErrorKind::ConnectionReset.into()),
            true,
        );
        for lost in [
            sqlx::Error::Protocol("unexpected end".into()),
            sqlx::Error::WorkerCrashed,
        ] {
            assert!(is_outcome_unknown(&lost), "{lost:?}");
        }
        is_unknown(&|| sqlx::Error::PoolTimedOut, false);
        is_unknown(&|| sqlx::Error::PoolClosed, false);
        is_unknown(&|| sqlx::Error::RowNotFound, false);
        for error in crate::Error::samples() {
            assert!(!is_outcome_unknown(&error), "{error}");
        }
    }

    #[test]
    fn a_lost_connection_is_retried_only_with_the_row() {
        let lost = [
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::TimedOut,
            io::ErrorKind::UnexpectedEof,
        ];
        for kind in lost {
            for error in forms_of(|| sqlx::Error::Io(kind.into())) {
                assert!(!is_retryable(&*error), "{error:?}");
                assert!(is_retryable_with_row(&*error), "{error:?}");
            }
        }
        assert!(is_retryable_with_row(&sqlx::Error::WorkerCrashed));
        let closed =
            "unexpected response from SSLRequest: 0x00 (sqlx_postgres::connection::tls:95)";
        assert!(is_retryable_with_row(&sqlx::Error::Protocol(closed.into())));
        let unreadable = sqlx::Error::Protocol("unexpected response from SSLRequest: 0x48".into());
        assert!(!is_retryable_with_row(&unreadable));
        let tls = sqlx::Error::Tls(Box::new(io::Error::from(io::ErrorKind::UnexpectedEof)));
        assert!(is_retryable_with_row(&tls));
    }

    #[test]
    fn a_permanent_error_is_not_retried() {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        let errors: [Box<dyn StdError>; 6] = [
            Box::new(sqlx::Error::PoolTimedOut),
            Box::new(connect_failed(sqlx::Error::PoolClosed, "a test")),
            Box::new(sqlx::Error::RowNotFound),
            Box::new(sqlx::Error::Tls(Box::new(not_found()))),
            Box::new(not_found()),
            Box::new(CallerError::By("declined".into())),
        ];
        for error in errors {
            assert!(!is_retryable(&*error), "{error:?}");
            assert!(!is_retryable_with_row(&*error), "{error:?}");
        }
    }

    #[test]
    fn a_lost_connection_to_another_store_is_not_retried() {
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        let error = StoreError::new(StoreErrorKind::Unknown, reset);
        assert!(!is_retryable_with_row(&error));
    }

    #[test]
    fn a_conflict_after_an_unanswered_send_is_not_retried() {
        let error = StoreError::new(
            StoreErrorKind::Unknown,
            statement_failed(refused("40001"), "a test"),
        );
        assert!(!is_retryable(&error));
        assert!(!is_retryable_with_row(&error));
    }

    #[test]
    fn a_refused_call_is_not_retried_unless_a_database_asks_for_it() {
        for error in crate::Error::samples() {
            assert!(!is_retryable(&error), "{error}");
            assert!(!is_retryable_with_row(&error), "{error}");
        }
    }
}
