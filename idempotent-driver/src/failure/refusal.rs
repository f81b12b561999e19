//! A fake error of a database, for tests.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use sqlx::error::{DatabaseError, ErrorKind};

/// An error with this state.
#[derive(Debug)]
struct RefusedState(&'static str);

impl fmt::Display for RefusedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

impl StdError for RefusedState {}

impl DatabaseError for RefusedState {
    fn message(&self) -> &'static str {
        "refused"
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.0.into())
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

/// An error of sqlx with this state.
pub(crate) fn refused(state: &'static str) -> sqlx::Error {
    sqlx::Error::Database(Box::new(RefusedState(state)))
}
