//! Turns an error of sqlx into the error of a driver.

use std::error::Error as StdError;

use crate::code::{Code, is_broken};
use crate::error::DriverError;

/// What an error of sqlx says.
pub(crate) enum Reading {
    Refused(Code, Option<String>),
    Lost,
    Other,
}

impl Reading {
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        if let Some(refusal) = error.as_database_error() {
            let constraint = refusal.constraint().map(str::to_owned);
            return Self::Refused(Code::from_refusal(refusal), constraint);
        }
        if is_broken(error) || matches!(error, sqlx::Error::WorkerCrashed) {
            return Self::Lost;
        }
        Self::Other
    }

    /// The error of a driver with this source.
    pub(crate) fn with(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> DriverError {
        match self {
            Self::Refused(code, Some(name)) => {
                DriverError::refused(code, source).of_constraint(name)
            }
            Self::Refused(code, None) => DriverError::refused(code, source),
            Self::Lost => DriverError::lost(source),
            Self::Other => DriverError::other(source),
        }
    }
}
