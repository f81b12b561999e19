//! Optimistic concurrency control: updates a row only if it has the version that was read.

use std::fmt;

use idempotent_driver::sql::AsConnection;
use sqlx::{Decode, Encode, Error, Type};

use super::row::{Condition, RowChange, RowValues, explain_table};
use crate::database::Database;

/// Begins an update of a row of a table (`goods` or `shop.goods`). It changes the row only if the row still has the version
/// that the caller read.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// use idempotence::sql::{self, Versioned, sqlx};
///
/// # async fn buy(connection: &mut sqlx::PgConnection, version_that_was_read: i64) -> sqlx::Result<()> {
/// let update = sql::versioned_update("goods")
///     .id("good_id", 2)
///     .version("version", version_that_was_read)
///     .add("count", -1)
///     .run(connection)
///     .await?;
/// match update {
///     Versioned::Applied { version } => println!("now at {version}"),
///     Versioned::Conflict { current } => println!("another update was faster: now at {current}"),
///     Versioned::NotFound => println!("no such good"),
/// }
/// # Ok(()) }
/// # }
/// ```
///
/// This is concurrency control, not idempotency. An update that is sent twice **with the version that was read first** is
/// applied once. The usual mistake is to read again after a conflict, and to send the same deduction with the new version: if
/// the first update was applied and only its answer was lost, the second update deducts again. Also, two different orders that
/// read version 1 conflict, although both are valid. Work that must happen once needs a [transition](crate::sql::transition) or its
/// own key in the same transaction. So this never retries with another version.
pub fn versioned_update<DB: Database>(table: &str) -> VersionedUpdate<'_, DB> {
    VersionedUpdate {
        row: RowValues::new(table),
        version: None,
    }
}

/// The outcome of a versioned update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only `Applied` changed the row"]
pub enum Versioned {
    /// The row was changed.
    Applied {
        /// The new version.
        version: i64,
    },
    /// The row has another version and was not changed.
    Conflict {
        /// The version of the row.
        current: i64,
    },
    /// The row does not exist.
    NotFound,
}

/// A versioned update that is being built.
#[must_use = "an update does nothing until it is run"]
pub struct VersionedUpdate<'a, DB: Database> {
    row: RowValues<'a, DB>,
    version: Option<(&'a str, i64)>,
}

impl<'a, DB: Database> VersionedUpdate<'a, DB> {
    /// Selects the row by the value of a column. With several calls, all columns must match, and select one row: use a
    /// primary key or unique columns.
    ///
    /// The value must have the type of the column: for MySQL the text `12abc` equals the number 12.
    pub fn id<T>(mut self, column: &'a str, value: T) -> Self
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync + 'a,
    {
        self.row.id(column, value);
        self
    }

    /// Sets the integer column of the version, and the version that was read. The update adds 1 to the version.
    pub fn version(mut self, column: &'a str, read: i64) -> Self {
        self.version = Some((column, read));
        self
    }

    /// Sets a column.
    pub fn set<T>(mut self, column: &'a str, value: T) -> Self
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync + 'a,
    {
        self.row.set(column, value);
        self
    }

    /// Adds to the current value of a column, not to the value that the caller read.
    pub fn add<T>(mut self, column: &'a str, value: T) -> Self
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync + 'a,
    {
        self.row.add(column, value);
        self
    }

    /// Changes the row, or returns why it did not change.
    ///
    /// One round trip if the row is changed, two if not, as for a [transition](crate::sql::transition).
    ///
    /// # Errors
    ///
    /// As for a [transition](crate::sql::TransitionUpdate::run): the errors of the database, and
    /// [`InvalidArgument`](Error::InvalidArgument), also if the version is missing or is the largest integer.
    ///
    /// # Cancellation
    ///
    /// A dropped call may have changed the row: roll back the transaction, or call again with the same version.
    pub async fn run<C>(mut self, connection: &mut C) -> sqlx::Result<Versioned>
    where
        C: AsConnection<Database = DB>,
        i64: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>,
    {
        let Some((column, read)) = self.version else {
            return Err(Error::InvalidArgument(
                "a versioned update needs the version that was read: call `version`".into(),
            ));
        };
        let Some(version) = read.checked_add(1) else {
            return Err(Error::InvalidArgument(
                "the version is the largest integer, so it cannot grow".into(),
            ));
        };
        let condition = Condition {
            column,
            values: &[read],
        };
        self.row.add(column, 1_i64);
        let connection = connection.as_connection();
        let change = self.row.change(connection, condition).await;
        Ok(match change.map_err(explain_table)? {
            RowChange::Yes => Versioned::Applied { version },
            RowChange::No(current) => Versioned::Conflict { current },
            RowChange::NotFound => Versioned::NotFound,
        })
    }
}

impl<DB: Database> fmt::Debug for VersionedUpdate<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionedUpdate")
            .field("row", &self.row)
            .field("version", &self.version)
            .finish()
    }
}
