//! An update of what was read, and of nothing newer: a version in the row says which it is.

use std::fmt;

use sqlx::{Decode, Encode, Error, Type};

use super::connection::AsConnection;
use super::database::Database;
use super::row::{Condition, Row, RowChange};

/// Begins an update of a row of this table, `goods` or `shop.goods`, that is lost if the row has another version than
/// the one that the caller read.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// # use idempotent_runtime as idempotence;
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
///     Versioned::Conflict { current } => println!("somebody was faster, and it is at {current}"),
///     Versioned::NotFound => println!("no such good"),
/// }
/// # Ok(()) }
/// # }
/// ```
///
/// This is concurrency control, not idempotency. Sent twice **with the version that was read first**, it is applied
/// once. The usual mistake is to read again after a conflict, and to send the same deduction with the new version: if
/// the first one was applied and only its answer was lost, the second deducts again. And two different orders that read
/// version 1 conflict, although both are welcome. What must happen once needs a [transition](super::transition) or a key
/// of its own in the same transaction. So this never tries again with another version.
pub fn versioned_update<DB: Database>(table: &str) -> VersionedUpdate<'_, DB> {
    VersionedUpdate {
        row: Row::new(table),
        version: None,
    }
}

/// What became of a versioned update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only `Applied` changed the row"]
pub enum Versioned {
    /// The row was changed.
    Applied {
        /// The version that it has now.
        version: i64,
    },
    /// The row has another version, and was not changed.
    Conflict {
        /// The version that it has.
        current: i64,
    },
    /// There is no such row.
    NotFound,
}

/// A versioned update in the making.
#[must_use = "an update does nothing until it is run"]
pub struct VersionedUpdate<'a, DB: Database> {
    row: Row<'a, DB>,
    version: Option<(&'a str, i64)>,
}

impl<'a, DB: Database> VersionedUpdate<'a, DB> {
    /// Says which row: the one that has this value in this column. Of several, all must fit, and together they must
    /// name one row: a primary key, or unique columns.
    ///
    /// The value is of the column's own type: MySQL finds the number 12 by the text `12abc`.
    pub fn id<T>(mut self, column: &'a str, value: T) -> Self
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync + 'a,
    {
        self.row.id(column, value);
        self
    }

    /// Says which version was read, and in which column of integers it stands. An update adds 1 to it.
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

    /// Adds to a column: what the row has, not what the caller read.
    pub fn add<T>(mut self, column: &'a str, value: T) -> Self
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync + 'a,
    {
        self.row.add(column, value);
        self
    }

    /// Changes the row, or tells why not.
    ///
    /// One round trip if the row is changed, two if not, as with a [transition](super::transition).
    ///
    /// # Errors
    ///
    /// As of a [transition](super::TransitionUpdate::run): those of the database, and
    /// [`InvalidArgument`](Error::InvalidArgument), also without `version` and for the last one there is.
    ///
    /// # Cancellation
    ///
    /// Whether a dropped call changed the row is not known: roll the transaction back, or ask again with the same version.
    pub async fn run<C>(mut self, connection: &mut C) -> sqlx::Result<Versioned>
    where
        C: AsConnection<Database = DB>,
        i64: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>,
    {
        let Some((column, read)) = self.version else {
            return Err(Error::InvalidArgument(
                "no `version` says what was read".into(),
            ));
        };
        let Some(version) = read.checked_add(1) else {
            return Err(Error::InvalidArgument(
                "no version comes after this one".into(),
            ));
        };
        let condition = Condition {
            column,
            values: &[read],
        };
        self.row.add(column, 1_i64);
        let connection = connection.as_connection();
        Ok(match self.row.change(connection, condition).await? {
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
