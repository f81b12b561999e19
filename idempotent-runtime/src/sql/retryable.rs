//! Whether a transaction that failed does well to be run again.

use std::error::Error as StdError;
use std::{io, iter};

use sqlx::error::DatabaseError;

use super::failure::Code;
use crate::store::{StoreError, StoreErrorKind};

/// Whether a transaction that failed with `error` did certainly nothing, and would do well if it were run again, from its
/// beginning.
///
/// That is what a database asks for when two transactions stand in each other's way: a serialization failure, a
/// deadlock, a lock or a whole SQLite file that was not to be had in time. The error may be one of sqlx, or one
/// that was caused by it, such as a [`StoreError`], an [`Error`](crate::Error), or an error type of the caller's own that
/// names it as its `source()`.
///
/// `false` after a lost connection: a `COMMIT` whose reply was lost may have been carried out. A transaction that writes
/// the dedup row may be run again then, too: [`is_retryable_with_row`].
pub fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
    causes(error)
        .take_while(|cause| !may_be_applied(*cause))
        .find_map(refusal)
        .is_some_and(is_conflict)
}

/// Whether a transaction that writes the dedup row (the option `tx`, or `run_in`), and failed with `error`, would do
/// well if it were run again, from its beginning, with the same key.
///
/// Besides what [`is_retryable`] finds, that is a lost connection and a `COMMIT` whose reply was lost. Whether the
/// transaction was committed is not known then, and need not be: if it was, the row is there, the body does not run a
/// second time, and with `replay` the caller gets the result of the first; if it was not, the body runs.
///
/// **What the row does not protect may be done twice:** a transaction without a guarded call, what is written beside the
/// call, and a call that its `when` left unguarded. Use [`is_retryable`] there.
///
/// `false` if the row vanished from the transaction before its end (`Error::LeaseLost`): what was sent later
/// may be committed without the row.
///
/// An [`io::Error`] whose kind names a lost connection counts also without an error of sqlx around it, because
/// `#[error(transparent)]` leaves nothing else of it. So the lost connection of another service that the body called counts,
/// too: if that call must not be made again, do not name its error as a `source()`.
pub fn is_retryable_with_row(error: &(dyn StdError + 'static)) -> bool {
    causes(error)
        .take_while(|cause| !is_from_another_store(*cause))
        .find_map(|cause| {
            if let Some(refusal) = refusal(cause) {
                return Some(is_conflict(refusal) || is_unanswered(refusal));
            }
            match cause.downcast_ref() {
                Some(sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed) => Some(true),
                _ => cause.downcast_ref().map(names_a_lost_connection),
            }
        })
        .unwrap_or(false)
}

/// Whether the connection is of no more use: perhaps only the reply is lost.
pub(crate) fn is_broken(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(refusal) => is_unanswered(&**refusal),
        _ => false,
    }
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |error| StdError::source(*error))
}

fn refusal<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a dyn DatabaseError> {
    let refusal = match error.downcast_ref() {
        Some(sqlx::Error::Database(refusal)) => Some(refusal),
        // What is left of an error of sqlx where one is passed on as if it were another.
        _ => error.downcast_ref::<Box<dyn DatabaseError>>(),
    };
    refusal.map(|refusal| &**refusal)
}

/// The database undid the statement or the transaction in favour of another.
fn is_conflict(refusal: &dyn DatabaseError) -> bool {
    match Code::from_refusal(refusal) {
        Code::State(state) => matches!(&*state, "40001" | "40P01" | "55P03"),
        Code::MySql(number, _) => matches!(number, 1020 | 1205 | 1213),
        // Busy, and locked by another connection to the same cache.
        Code::Sqlite(code) => matches!(code & 0xff, 5 | 6),
    }
}

/// The last word on a connection, or on a `COMMIT`: what came of the statement it does not say.
fn is_unanswered(refusal: &dyn DatabaseError) -> bool {
    match Code::from_refusal(refusal) {
        Code::State(state) => {
            // Idle in a transaction for too long, an unknown end, shutdowns, a server that is just starting.
            let ends = ["25P03", "40003", "57P01", "57P02", "57P03", "57P05"];
            ends.contains(&&*state) || state.starts_with("08")
        }
        Code::MySql(number, state) => {
            matches!(number, 1053 | 1180 | 1927 | 4031) || state.starts_with("08")
        }
        Code::Sqlite(_) => false,
    }
}

/// A store sent it more than once, and what the last send was answered with says nothing of those before it.
fn may_be_applied(error: &(dyn StdError + 'static)) -> bool {
    let error: Option<&StoreError> = error.downcast_ref();
    error.is_some_and(|error| error.kind() == StoreErrorKind::Unknown)
}

/// A store that is no database has connections of its own.
fn is_from_another_store(error: &(dyn StdError + 'static)) -> bool {
    let is_from_a_database = || {
        error
            .source()
            .is_some_and(<dyn StdError>::is::<sqlx::Error>)
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

    use super::super::failure::refusal::refused;
    use super::super::failure::{connect_failed, statement_failed};
    use super::*;

    /// Errors of callers.
    #[derive(Debug, Error)]
    enum Passed {
        #[error(transparent)]
        As(#[from] sqlx::Error),
        #[error("failed")]
        By(#[source] Box<dyn StdError + Send + Sync>),
    }

    /// The same error, as it may come to the caller of a transaction.
    fn passed_on(error: impl Fn() -> sqlx::Error) -> [Box<dyn StdError>; 4] {
        [
            Box::new(error()),
            Box::new(statement_failed(error(), "a test")),
            Box::new(Passed::As(error())),
            Box::new(Passed::By(Box::new(Passed::As(error())))),
        ]
    }

    #[test]
    fn what_to_run_again_is_found_whoever_passed_it_on() {
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
            for error in passed_on(|| refused(state)) {
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
    fn a_lost_connection_is_run_again_with_the_row_alone() {
        let lost = [
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::TimedOut,
            io::ErrorKind::UnexpectedEof,
        ];
        for kind in lost {
            for error in passed_on(|| sqlx::Error::Io(kind.into())) {
                assert!(!is_retryable(&*error), "{error:?}");
                assert!(is_retryable_with_row(&*error), "{error:?}");
            }
        }
        assert!(is_retryable_with_row(&sqlx::Error::WorkerCrashed));
        let tls = sqlx::Error::Tls(Box::new(io::Error::from(io::ErrorKind::UnexpectedEof)));
        assert!(is_retryable_with_row(&tls));
    }

    #[test]
    fn what_no_other_try_mends_is_not_run_again() {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        let errors: [Box<dyn StdError>; 6] = [
            Box::new(sqlx::Error::PoolTimedOut),
            Box::new(connect_failed(sqlx::Error::PoolClosed, "a test")),
            Box::new(sqlx::Error::RowNotFound),
            Box::new(sqlx::Error::Tls(Box::new(not_found()))),
            Box::new(not_found()),
            Box::new(Passed::By("declined".into())),
        ];
        for error in errors {
            assert!(!is_retryable(&*error), "{error:?}");
            assert!(!is_retryable_with_row(&*error), "{error:?}");
        }
    }

    #[test]
    fn a_lost_connection_to_another_store_is_not_the_databases() {
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        let error = StoreError::new(StoreErrorKind::Unknown, reset);
        assert!(!is_retryable_with_row(&error));
    }

    #[test]
    fn a_conflict_after_a_send_without_an_answer_does_not_say_that_nothing_was_done() {
        let error = StoreError::new(
            StoreErrorKind::Unknown,
            statement_failed(refused("40001"), "a test"),
        );
        assert!(!is_retryable(&error));
        assert!(!is_retryable_with_row(&error));
    }

    #[test]
    fn no_refusal_of_a_call_is_run_again_unless_a_database_asks_for_it() {
        for error in crate::Error::samples() {
            assert!(!is_retryable(&error), "{error}");
            assert!(!is_retryable_with_row(&error), "{error}");
        }
    }
}
