//! An error of a database with advice for the reader.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use idempotent_driver::port::failure::is_missing_table;
use sqlx::error::{DatabaseError, ErrorKind};

/// Adds `advice` to the text of a missing table. Any other error stays as it is.
pub(crate) fn explained(error: sqlx::Error, advice: &'static str) -> sqlx::Error {
    if !is_missing_table(&error) {
        return error;
    }
    match error {
        sqlx::Error::Database(refusal) => {
            sqlx::Error::Database(Box::new(Explained { refusal, advice }))
        }
        error => error,
    }
}

/// The error of the database with another text. Its code can be read, and it can be downcast, as before.
#[derive(Debug)]
struct Explained {
    refusal: Box<dyn DatabaseError>,
    advice: &'static str,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.refusal, self.advice)
    }
}

impl StdError for Explained {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.refusal.source()
    }
}

impl DatabaseError for Explained {
    fn message(&self) -> &str {
        self.refusal.message()
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        self.refusal.code()
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self.refusal.as_error()
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self.refusal.as_error_mut()
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self.refusal.into_error()
    }

    fn is_transient_in_connect_phase(&self) -> bool {
        self.refusal.is_transient_in_connect_phase()
    }

    fn constraint(&self) -> Option<&str> {
        self.refusal.constraint()
    }

    fn table(&self) -> Option<&str> {
        self.refusal.table()
    }

    fn kind(&self) -> ErrorKind {
        self.refusal.kind()
    }
}
