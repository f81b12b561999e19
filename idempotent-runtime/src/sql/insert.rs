//! The last line: a unique index of the caller's own table lets a row in once.

use std::fmt;

use sqlx::error::DatabaseError;
use sqlx::{Decode, Encode, Error, Type};

use super::connection::AsConnection;
use super::database::Database;
use super::row::{Column, Row};

/// Begins an `INSERT` of one row into this table, `user_coupon` or `shop.user_coupon`, unless the row is there.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// # use idempotent_runtime as idempotence;
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
/// The table needs a unique index (or a primary key) on the columns of the [key](InsertOnce::key): it alone lets one of
/// any number of equal inserts in. Without it every one of them is inserted.
///
/// What is a duplicate is decided by the row that is there, not by the index that the database names. A row that is sent again
/// violates each unique index of the table, and the database names the one that it came upon first. A row with
/// another key that has the same telephone number violates an index, too, and is no duplicate but an error.
///
/// It waits for a transaction that inserted the same row and is still open, as long as the database's own lock timeout
/// lets it. A deadlock or a timeout there is an error, and never a duplicate: whether there is one, is not decided.
///
/// PostgreSQL refuses it (55000) for a table that has any unique constraint `DEFERRABLE`. For such a table, and for an
/// `INSERT` of another form, write it yourself, and ask [`duplicate_of`](super::duplicate_of) about its error. A constraint
/// that is deferred is not seen before the commit, which then fails.
pub fn insert_once<DB: Database>(table: &str) -> InsertOnce<'_, DB> {
    InsertOnce {
        row: Row::new(table),
    }
}

/// What became of an `INSERT`, with what [`returning`](InsertOnce::returning) read of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a duplicate inserted nothing"]
pub enum Insertion<R = ()> {
    /// This call inserted the row.
    Inserted(R),
    /// A row with this key was there before; nothing was inserted.
    AlreadyThere(R),
}

impl<R> Insertion<R> {
    /// Whether this call inserted the row.
    pub fn is_inserted(&self) -> bool {
        matches!(self, Self::Inserted(_))
    }

    /// What was read of the row, whoever inserted it.
    pub fn into_row(self) -> R {
        let (Self::Inserted(row) | Self::AlreadyThere(row)) = self;
        row
    }

    fn map<T>(self, read: impl FnOnce(R) -> T) -> Insertion<T> {
        match self {
            Self::Inserted(row) => Insertion::Inserted(read(row)),
            Self::AlreadyThere(row) => Insertion::AlreadyThere(read(row)),
        }
    }
}

impl<R, E> Insertion<Result<R, E>> {
    fn transpose(self) -> Result<Insertion<R>, E> {
        Ok(match self {
            Self::Inserted(row) => Insertion::Inserted(row?),
            Self::AlreadyThere(row) => Insertion::AlreadyThere(row?),
        })
    }
}

/// An `INSERT` in the making.
#[must_use = "nothing is inserted until it is run"]
pub struct InsertOnce<'a, DB: Database> {
    row: Row<'a, DB>,
}

impl<'a, DB: Database> InsertOnce<'a, DB> {
    /// Sets a column of the key: what makes two rows the same. All columns of the key together are those of a unique
    /// index.
    ///
    /// The value is not NULL, because a unique index takes any number of those. It is of the column's own type: MySQL finds the number 12 by the
    /// text `12abc`.
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

    /// Inserts the row, unless it is there.
    ///
    /// Round trips: one; two if the row is there, and two or three if another row is in the way. The user needs `SELECT` on
    /// the table, too.
    ///
    /// # Errors
    ///
    /// Those of the database. A violation of another unique index is one of them, and
    /// [`duplicate_of`](super::duplicate_of) tells which index that is. On PostgreSQL an error ends the transaction.
    ///
    /// In a transaction with `REPEATABLE READ` or `SERIALIZABLE`, PostgreSQL refuses with 40001 if the row was
    /// inserted since the transaction began: run the transaction again. So it is with a deadlock, a lock timeout, and an
    /// SQLite that is busy.
    ///
    /// [`InvalidArgument`](Error::InvalidArgument), before anything is sent: without a `key`, for a name that can be none, and
    /// for a column that is set twice. Also if nothing was inserted and nothing violated, as by a trigger.
    ///
    /// # Cancellation
    ///
    /// Whether a dropped call inserted the row is not known: roll the transaction back, or ask again.
    pub async fn run<C>(self, connection: &mut C) -> sqlx::Result<Insertion>
    where
        C: AsConnection<Database = DB>,
    {
        let insertion = self
            .insert_or_find(connection.as_connection(), None)
            .await?;
        Ok(insertion.map(|_| ()))
    }

    /// As [`run`](Self::run), and reads a column of the row: the number that the database made for it, say. Of a row
    /// that was there before it reads the same.
    ///
    /// Round trips: those of `run`. On MySQL and MariaDB one more for a row that was inserted.
    ///
    /// # Errors
    ///
    /// Those of `run`, and [`ColumnDecode`](Error::ColumnDecode) if the column cannot be read as a `T`.
    /// [`RowNotFound`](Error::RowNotFound) on MySQL and MariaDB if no row has the key that was inserted: a trigger changed it.
    ///
    /// # Cancellation
    ///
    /// As of `run`.
    pub async fn returning<T>(
        self,
        column: &str,
        connection: &mut impl AsConnection<Database = DB>,
    ) -> sqlx::Result<Insertion<T>>
    where
        T: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>,
    {
        let read = Some(Column::read_as::<DB, T>(column));
        let insertion = self
            .insert_or_find(connection.as_connection(), read)
            .await?;
        let read = |row: Option<DB::Row>| self.row.value(column, &row.ok_or(Error::RowNotFound)?);
        insertion.map(read).transpose()
    }

    /// The row comes with a `column`, if one is to be read.
    async fn insert_or_find(
        &self,
        connection: &mut DB::Connection,
        column: Option<Column<'_>>,
    ) -> sqlx::Result<Insertion<Option<DB::Row>>> {
        self.row.check_insert()?;
        let refused = match self.insert(connection, DB::ON_CONFLICT, column).await {
            Ok(Some(row)) => return Ok(Insertion::Inserted(row)),
            Ok(None) => None,
            Err(error) if DB::ON_CONFLICT.is_empty() && is_violation(&error) => Some(error),
            Err(error) => return Err(error),
        };
        if let Some(row) = self.find(connection, column).await? {
            return Ok(Insertion::AlreadyThere(Some(row)));
        }
        // Another row is in the way, and the database says by which index; or the row is gone, and this one goes in.
        if let Some(error) = refused {
            return Err(error);
        }
        match self.insert(connection, "", column).await? {
            Some(row) => Ok(Insertion::Inserted(row)),
            None => Err(Error::InvalidArgument(
                "nothing was inserted, as by a trigger, and no row has the key".into(),
            )),
        }
    }

    /// `None` if nothing was inserted; the row is `None` if no column of it is to be read.
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
