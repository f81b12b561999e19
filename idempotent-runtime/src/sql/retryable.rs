//! Whether a failed transaction should be retried, and whether it may be committed.

use std::error::Error as StdError;

use idempotent_driver::port::chain;

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
    let causes = chain::causes(error);
    chain::is_conflict(causes.take_while(|cause| !may_be_applied(*cause)))
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
/// An [`io::Error`](std::io::Error) of a lost connection counts even without an error of sqlx around it, because `#[error(transparent)]` leaves
/// only the inner error. So a lost connection to another service also counts. If the body must not call that service again, do
/// not return its error as a `source()`.
pub fn is_retryable_with_row(error: &(dyn StdError + 'static)) -> bool {
    let causes = chain::causes(error);
    chain::is_conflict_or_lost(causes.take_while(|cause| !is_from_another_store(*cause)))
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
/// [`io::Error`](std::io::Error) of a lost connection counts even if it is from another service. `#[error(transparent)]` around an error of sqlx hides
/// an answer that cannot be read: write `#[source]`.
///
/// With the option `tx` this judge is not needed: the row says whether the work is committed.
pub fn is_outcome_unknown(error: &(dyn StdError + 'static)) -> bool {
    let causes = chain::causes(error);
    chain::is_unanswered(causes.take_while(|cause| !is_from_another_store(*cause)))
}

/// Whether a store sent the operation several times. If so, the last answer proves nothing about the earlier sends.
fn may_be_applied(error: &(dyn StdError + 'static)) -> bool {
    let error: Option<&StoreError> = error.downcast_ref();
    error.is_some_and(|error| error.kind() == StoreErrorKind::Unknown)
}

/// Whether the error is from a store that is not a database. Such a store does not use the transaction's connection.
fn is_from_another_store(error: &(dyn StdError + 'static)) -> bool {
    error.is::<StoreError>() && !error.source().is_some_and(chain::is_from_database)
}

#[cfg(test)]
mod tests {
    use std::io;

    use idempotent_driver::port::failure::{driver_failed, statement_failed};
    use idempotent_driver::sql::driver::DriverError;
    use idempotent_driver::sql::sqlx;

    use super::*;

    fn conflict() -> StoreError {
        driver_failed(DriverError::postgres("40001", "no"), "a test").into()
    }

    #[test]
    fn an_error_of_a_database_is_read_through_the_error_of_its_store() {
        let lost = || sqlx::Error::Io(io::ErrorKind::ConnectionReset.into());
        let errors: [(StoreError, bool, bool, bool); 4] = [
            (conflict(), true, true, false),
            (statement_failed(lost(), "a test").into(), false, true, true),
            (
                driver_failed(DriverError::lost("no"), "a test").into(),
                false,
                true,
                true,
            ),
            (
                driver_failed(DriverError::other("no"), "a test").into(),
                false,
                false,
                false,
            ),
        ];
        for (error, again, with_row, is_unknown) in errors {
            assert_eq!(is_retryable(&error), again, "{error:?}");
            assert_eq!(is_retryable_with_row(&error), with_row, "{error:?}");
            assert_eq!(is_outcome_unknown(&error), is_unknown, "{error:?}");
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
        let error = StoreError::new(StoreErrorKind::Unknown, conflict());
        assert!(!is_retryable(&error));
        assert!(!is_retryable_with_row(&error));
    }

    #[test]
    fn a_refused_call_is_not_retried_unless_a_database_asks_for_it() {
        for error in crate::Error::samples() {
            assert!(!is_retryable(&error), "{error}");
            assert!(!is_retryable_with_row(&error), "{error}");
            assert!(!is_outcome_unknown(&error), "{error}");
        }
    }
}
