//! The failure of a database, as the error of a store.

use idempotent_driver::port::failure::{Failure, FailureKind};

use crate::store::{StoreError, StoreErrorKind};

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let Failure {
            kind,
            reason,
            place,
            source,
        } = failure;
        let error = Self::of_server(kind.into(), source).place(place);
        match reason {
            Some(reason) => error.reason(reason),
            None => error,
        }
    }
}

impl From<FailureKind> for StoreErrorKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::NotApplied => Self::NotApplied,
            FailureKind::Unknown => Self::Unknown,
            FailureKind::Full => Self::Full,
            FailureKind::Misconfigured => Self::Misconfigured,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use idempotent_driver::port::failure::{connect_failed, statement_failed};
    use idempotent_driver::sql::sqlx;

    use super::*;

    #[test]
    fn a_long_or_unprintable_text_of_the_database_is_cut_and_escaped() {
        let long = || sqlx::Error::Protocol("x".repeat(1_000_000));
        for failure in [
            statement_failed(long(), "a test"),
            connect_failed(long(), "a test"),
        ] {
            let error = StoreError::from(failure);
            assert!(format!("{error:?}").len() < 2_000);
        }
        let failure = statement_failed(sqlx::Error::Protocol("a\x1b[31m".to_owned()), "a test");
        let error = StoreError::from(failure);
        let text = error.source().expect("an error").to_string();
        assert!(text.contains("a\\u{1b}[31m"), "{text}");
    }
}
