//! What the causes of an error say about a transaction: whether a database refused it, and whether it answered.

use std::error::Error as StdError;
use std::{io, iter};

use crate::adapters;
use crate::code::{Code, is_closed_at_first_message};
use crate::error::{DriverError, DriverErrorKind};

/// An error, and the errors that its `source()` leads to.
pub fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |error| StdError::source(*error))
}

/// Whether a database refused the statement in favour of another transaction.
pub fn is_conflict<'a>(mut causes: impl Iterator<Item = &'a (dyn StdError + 'static)>) -> bool {
    causes
        .find_map(code_of)
        .is_some_and(|code| code.is_conflict())
}

/// Whether a database refused the statement in favour of another transaction, or its connection is lost.
pub fn is_conflict_or_lost<'a>(
    mut causes: impl Iterator<Item = &'a (dyn StdError + 'static)>,
) -> bool {
    let answer = causes.find_map(|cause| {
        if let Some(code) = code_of(cause) {
            return Some(code.is_conflict() || code.is_unanswered());
        }
        match cause.downcast_ref() {
            None if is_lost(cause) => Some(true),
            Some(sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed) => Some(true),
            Some(error) if is_closed_at_first_message(error) => Some(true),
            _ => cause.downcast_ref().map(names_a_lost_connection),
        }
    });
    answer.unwrap_or(false)
}

/// Whether no server has said what happened: the connection is lost, or the answer cannot be read.
pub fn is_unanswered<'a>(mut causes: impl Iterator<Item = &'a (dyn StdError + 'static)>) -> bool {
    let answer = causes.find_map(|cause| {
        if let Some(code) = code_of(cause) {
            return Some(code.is_unanswered());
        }
        match cause.downcast_ref() {
            None if is_lost(cause) || adapters::is_unreadable(cause) => Some(true),
            Some(sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed) => {
                Some(true)
            }
            _ => cause.downcast_ref().map(names_a_lost_connection),
        }
    });
    answer.unwrap_or(false)
}

/// Whether this is the error of a driver or of sqlx, without its causes.
pub fn is_from_database(error: &(dyn StdError + 'static)) -> bool {
    error.is::<sqlx::Error>() || error.is::<DriverError>()
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

    use super::*;
    use crate::failure::refusal::refused;
    use crate::failure::{connect_failed, driver_failed, statement_failed};

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
                assert_eq!(is_conflict(causes(&*error)), again, "{state}: {error:?}");
                assert_eq!(
                    is_conflict_or_lost(causes(&*error)),
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
                assert_eq!(is_conflict(causes(&*error)), again, "{error:?}");
                assert_eq!(is_conflict_or_lost(causes(&*error)), with_row, "{error:?}");
                assert_eq!(is_unanswered(causes(&*error)), is_unknown, "{error:?}");
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
            assert_eq!(is_unanswered(causes(&*error)), is_unknown, "{error:?}");
        }
    }

    #[test]
    fn an_outcome_is_unknown_if_no_server_has_said_what_happened() {
        let is_unknown = |error: &dyn Fn() -> sqlx::Error, expected| {
            for error in forms_of(error) {
                assert_eq!(is_unanswered(causes(&*error)), expected, "{error:?}");
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
            assert!(is_unanswered(causes(&lost)), "{lost:?}");
        }
        is_unknown(&|| sqlx::Error::PoolTimedOut, false);
        is_unknown(&|| sqlx::Error::PoolClosed, false);
        is_unknown(&|| sqlx::Error::RowNotFound, false);
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
                assert!(!is_conflict(causes(&*error)), "{error:?}");
                assert!(is_conflict_or_lost(causes(&*error)), "{error:?}");
            }
        }
        assert!(is_conflict_or_lost(causes(&sqlx::Error::WorkerCrashed)));
        let closed =
            "unexpected response from SSLRequest: 0x00 (sqlx_postgres::connection::tls:95)";
        assert!(is_conflict_or_lost(causes(&sqlx::Error::Protocol(
            closed.into()
        ))));
        let unreadable = sqlx::Error::Protocol("unexpected response from SSLRequest: 0x48".into());
        assert!(!is_conflict_or_lost(causes(&unreadable)));
        let tls = sqlx::Error::Tls(Box::new(io::Error::from(io::ErrorKind::UnexpectedEof)));
        assert!(is_conflict_or_lost(causes(&tls)));
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
            assert!(!is_conflict(causes(&*error)), "{error:?}");
            assert!(!is_conflict_or_lost(causes(&*error)), "{error:?}");
        }
    }
}
