//! Inserts a row once, with a unique index of the caller's table.

use std::fmt;

use idempotent_driver::sql::AsConnection;
use sqlx::error::DatabaseError;
use sqlx::{Decode, Encode, Error, Type};

use super::row::{Column, RowValues, explain_table};
use crate::database::Database;

/// Begins an `INSERT` of one row into a table (`user_coupon` or `shop.user_coupon`), unless the row exists.
///
/// **On PostgreSQL an error ends the caller's transaction** (a duplicate is no error): every later statement fails, and the commit rolls
/// back. To go on after an error, run the insert behind a savepoint, which sqlx sets for a transaction in a transaction:
/// `let mut part = tx.begin().await?`, then the insert on `part`, then `part.commit()` or `part.rollback()`. That costs two more round
/// trips.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// use idempotence::sql::{self, Insertion, sqlx};
///
/// # async fn take(tx: &mut sqlx::Transaction<'_, sqlx::Postgres>, user: i64, coupon: i64) -> sqlx::Result<()> {
/// let insertion = sql::insert_once("user_coupon")
///     .key("user_id", user)
///     .key("coupon_id", coupon)
///     .set("taken_at", "2026-11-22")
///     .returning::<i64>("id", tx)
///     .await?;
/// match insertion {
///     Insertion::Inserted(id) => println!("coupon {id} is yours"),
///     Insertion::AlreadyThere(id) => println!("coupon {id} was yours before"),
/// }
/// # Ok(()) }
/// # }
/// ```
///
/// The table needs a unique index (or a primary key) on the columns of the [key](InsertOnce::key). Only this index makes one
/// of several equal inserts succeed. So the first insert of a process into a table asks the database for it, and is refused without
/// it. A view, a virtual table, and on SQLite the table of another file are not checked.
///
/// A duplicate has the key of an existing row, whatever index the error names. A row that is sent again violates every
/// unique index of the table, and the database names the first one that it checks. A row with another key but, for example, the
/// same telephone number also violates an index: this is an error, not a duplicate.
///
/// The insert waits for an open transaction that inserted the same row, up to the lock timeout of the database. A deadlock or a
/// timeout is an error, never a duplicate, because the outcome of that transaction is not known.
///
/// PostgreSQL refuses the statement (55000) for a table with a `DEFERRABLE` unique constraint. For such a table, and for
/// other forms of `INSERT`, write the statement yourself and pass its error to [`duplicate_of`](crate::sql::duplicate_of). A
/// deferred constraint is checked at the commit, which then fails.
#[doc(alias("去重表", "dedup"))]
pub fn insert_once<DB: Database>(table: &str) -> InsertOnce<'_, DB> {
    InsertOnce {
        row: RowValues::new(table),
    }
}

/// The outcome of an `INSERT`, with the column that [`returning`](InsertOnce::returning) read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a duplicate inserted nothing"]
pub enum Insertion<R = ()> {
    /// This call inserted the row.
    Inserted(R),
    /// A row with this key existed; nothing was inserted.
    AlreadyThere(R),
}

impl<R> Insertion<R> {
    /// Whether this call inserted the row.
    pub fn is_inserted(&self) -> bool {
        matches!(self, Self::Inserted(_))
    }

    /// The value of the column that was read, from a new or an existing row.
    pub fn into_value(self) -> R {
        let (Self::Inserted(value) | Self::AlreadyThere(value)) = self;
        value
    }

    fn map<T>(self, read: impl FnOnce(R) -> T) -> Insertion<T> {
        match self {
            Self::Inserted(value) => Insertion::Inserted(read(value)),
            Self::AlreadyThere(value) => Insertion::AlreadyThere(read(value)),
        }
    }
}

impl<R, E> Insertion<Result<R, E>> {
    fn transpose(self) -> Result<Insertion<R>, E> {
        Ok(match self {
            Self::Inserted(value) => Insertion::Inserted(value?),
            Self::AlreadyThere(value) => Insertion::AlreadyThere(value?),
        })
    }
}

/// An `INSERT` that is being built.
#[must_use = "nothing is inserted until it is run"]
pub struct InsertOnce<'a, DB: Database> {
    row: RowValues<'a, DB>,
}

impl<'a, DB: Database> InsertOnce<'a, DB> {
    /// Sets a column of the key. The columns of the key must be the columns of a unique index.
    ///
    /// The value must not be NULL, because a unique index accepts any number of NULLs. It must have the type of the column:
    /// for MySQL the text `12abc` equals the number 12.
    pub fn key<T>(mut self, column: &'a str, value: T) -> Self
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync + 'a,
    {
        self.row.id(column, value);
        self
    }

    /// Sets another column.
    pub fn set<T>(mut self, column: &'a str, value: T) -> Self
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync + 'a,
    {
        self.row.set(column, value);
        self
    }

    /// Inserts the row, unless it exists.
    ///
    /// Round trips: one, and one more for the first insert of a process; two if the row exists; two or three if the row violates another index. The user of the database also
    /// needs `SELECT` on the table.
    ///
    /// # Errors
    ///
    /// The errors of the database. A violation of another unique index is an error, and
    /// [`duplicate_of`](crate::sql::duplicate_of) identifies the index. On PostgreSQL an error ends the transaction.
    ///
    /// In a transaction with `REPEATABLE READ` or `SERIALIZABLE`, PostgreSQL refuses the statement with 40001 if the row was
    /// inserted after the transaction began: run the transaction again. Do the same after a deadlock, a lock timeout or a busy
    /// SQLite file.
    ///
    /// [`InvalidArgument`](Error::InvalidArgument) before anything is inserted: without a `key`, for an invalid name, for a
    /// column that is set twice, and for a key without a unique index. Also if nothing was inserted and no index was violated, for example because of a trigger.
    ///
    /// # Cancellation
    ///
    /// A dropped call may have inserted the row: roll back the transaction, or call again.
    pub async fn run<C>(self, connection: &mut C) -> sqlx::Result<Insertion>
    where
        C: AsConnection<Database = DB>,
    {
        let insertion = self.insert_or_find(connection.as_connection(), None).await;
        Ok(insertion.map_err(explain_table)?.map(|_| ()))
    }

    /// Does the same as [`run`](Self::run), and reads a column of the new or the existing row, for example the number that the
    /// database generated.
    ///
    /// Round trips: as for `run`. On MySQL and MariaDB one more for a new row.
    ///
    /// # Errors
    ///
    /// As for `run`, and [`ColumnDecode`](Error::ColumnDecode) if the column cannot be read as a `T`. On MySQL and MariaDB
    /// [`RowNotFound`](Error::RowNotFound) if a trigger changed the key of the new row.
    ///
    /// # Cancellation
    ///
    /// As for `run`.
    pub async fn returning<T>(
        self,
        column: &str,
        connection: &mut impl AsConnection<Database = DB>,
    ) -> sqlx::Result<Insertion<T>>
    where
        T: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>,
    {
        let read = Some(Column::read_as::<DB, T>(column));
        let insertion = self.insert_or_find(connection.as_connection(), read).await;
        let read = |row: Option<DB::Row>| self.row.value(column, &row.ok_or(Error::RowNotFound)?);
        insertion.map_err(explain_table)?.map(read).transpose()
    }

    /// Inserts the row or finds the existing one. The row is returned if a `column` must be read.
    async fn insert_or_find(
        &self,
        connection: &mut DB::Connection,
        column: Option<Column<'_>>,
    ) -> sqlx::Result<Insertion<Option<DB::Row>>> {
        self.row.check_insert()?;
        self.row.check_key(connection).await?;
        let refused = match self.insert(connection, DB::ON_CONFLICT, column).await {
            Ok(Some(row)) => return Ok(Insertion::Inserted(row)),
            Ok(None) => None,
            Err(error) if DB::ON_CONFLICT.is_empty() && is_violation(&error) => Some(error),
            Err(error) => return Err(error),
        };
        if let Some(row) = self.find(connection, column).await? {
            return Ok(Insertion::AlreadyThere(Some(row)));
        }
        // Either the row violates another index, or the existing row was removed in the meantime.
        if let Some(error) = refused {
            return Err(error);
        }
        // This insert names the other index in its error, or inserts the row.
        match self.insert(connection, "", column).await? {
            Some(row) => Ok(Insertion::Inserted(row)),
            None => Err(Error::InvalidArgument(
                "nothing was inserted and no row has the key: check the triggers of the table"
                    .into(),
            )),
        }
    }

    /// `None` if nothing was inserted. The inner row is `None` if no column must be read.
    async fn insert(
        &self,
        connection: &mut DB::Connection,
        on_conflict: &'static str,
        column: Option<Column<'_>>,
    ) -> sqlx::Result<Option<Option<DB::Row>>> {
        let insert = self.row.insert(on_conflict, column)?;
        if DB::HAS_RETURNING && column.is_some() {
            let row = DB::fetch_optional(connection, insert).await?;
            return Ok(row.map(Some));
        }
        if DB::execute(connection, insert).await? == 0 {
            return Ok(None);
        }
        Ok(Some(match column {
            Some(_) => self.find(connection, column).await?,
            None => None,
        }))
    }

    async fn find(
        &self,
        connection: &mut DB::Connection,
        column: Option<Column<'_>>,
    ) -> sqlx::Result<Option<DB::Row>> {
        let find = self.row.select(column, DB::FOR_SHARE)?;
        DB::fetch_optional(connection, find).await
    }
}

impl<DB: Database> fmt::Debug for InsertOnce<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InsertOnce")
            .field("row", &self.row)
            .finish()
    }
}

fn is_violation(error: &Error) -> bool {
    let error = error.as_database_error();
    error.is_some_and(DatabaseError::is_unique_violation)
}
