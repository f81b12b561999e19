//! Why the tables were not made.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use idempotent_driver::port::failure::{FailureKind, MISSING_PRIVILEGE, statement_failed};
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use thiserror::Error;

/// The failure of the statements of `schema` that make the tables.
pub(super) fn migration_failed(
    error: sqlx::Error,
    schema: &'static str,
    place: &str,
) -> StoreError {
    let failure = statement_failed(error, place.to_owned());
    if failure.kind != FailureKind::Misconfigured {
        return failure.into();
    }
    let reason = match failure.reason.as_deref() {
        None | Some(MISSING_PRIVILEGE) => Cow::Borrowed(
            "has no tables, and its user may not make them (have the statements of `sql::schema` applied by a user who may)",
        ),
        Some(reason) => format!("has no tables, and could not make them: it {reason}").into(),
    };
    let source = failure.source;
    StoreError::new(
        StoreErrorKind::Misconfigured,
        NotMigrated { source, schema },
    )
    .reason(reason)
    .place(failure.place)
}

#[derive(Error)]
#[error("these statements make the tables:\n\n{schema}\n")]
struct NotMigrated {
    source: Box<dyn StdError + Send + Sync>,
    schema: &'static str,
}

impl fmt::Debug for NotMigrated {
    /// Does not print the statements: they have many lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotMigrated")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
