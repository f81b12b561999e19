//! What a statement has to say differently on each database, and what it hears.

use std::future::Future;

use sqlx::query::Query;
use sqlx::{Decode, Executor, Row, Type};

/// One database's way.
pub trait Syntax: sqlx::Database {
    /// What a name is quoted with. SQLite takes `"no_such_column"` for a string, but not with these.
    const QUOTE: char;

    /// The type to which any integer can be cast that a column may have.
    const INTEGER: &'static str;

    /// What makes a `SELECT` take the lock that an `UPDATE` takes. SQLite has one for all, and an update has taken it.
    const LOCKING: &'static str;

    /// Whether a statement that fails ends the transaction around it.
    const FAILURE_ENDS_TRANSACTION: bool;

    /// A column of a row.
    fn column<T>(row: &Self::Row, index: usize) -> sqlx::Result<T>
    where
        T: for<'r> Decode<'r, Self> + Type<Self>;

    /// Runs a statement of the caller's. One round trip.
    fn execute_query(
        connection: &mut Self::Connection,
        statement: Query<'_, Self, Self::Arguments>,
    ) -> impl Future<Output = sqlx::Result<Self::QueryResult>> + Send;

    /// How many rows a statement touched.
    fn rows(result: &Self::QueryResult) -> u64;

    /// What a violation of this index calls it, if that is not the index's own name.
    fn violated_name(
        _connection: &mut Self::Connection,
        _index: &str,
    ) -> impl Future<Output = sqlx::Result<Option<String>>> + Send {
        async { Ok(None) }
    }
}

macro_rules! answers {
    ($connection:ty) => {
        fn column<T>(row: &Self::Row, index: usize) -> sqlx::Result<T>
        where
            T: for<'r> Decode<'r, Self> + Type<Self>,
        {
            row.try_get(index)
        }

        async fn execute_query(
            connection: &mut $connection,
            statement: Query<'_, Self, Self::Arguments>,
        ) -> sqlx::Result<Self::QueryResult> {
            connection.execute(statement).await
        }

        fn rows(result: &Self::QueryResult) -> u64 {
            result.rows_affected()
        }
    };
}

#[cfg(feature = "postgres")]
impl Syntax for sqlx::Postgres {
    const QUOTE: char = '"';
    const INTEGER: &'static str = "bigint";
    // What an update takes that changes no key: rows that point here can still be inserted.
    const LOCKING: &'static str = " FOR NO KEY UPDATE";
    const FAILURE_ENDS_TRANSACTION: bool = true;

    answers!(sqlx::PgConnection);
}

#[cfg(feature = "mysql")]
impl Syntax for sqlx::MySql {
    const QUOTE: char = '`';
    const INTEGER: &'static str = "SIGNED";
    const LOCKING: &'static str = " FOR UPDATE";
    const FAILURE_ENDS_TRANSACTION: bool = false;

    answers!(sqlx::MySqlConnection);
}

#[cfg(feature = "sqlite")]
impl Syntax for sqlx::Sqlite {
    const QUOTE: char = '`';
    const INTEGER: &'static str = "INTEGER";
    const LOCKING: &'static str = "";
    const FAILURE_ENDS_TRANSACTION: bool = false;

    answers!(sqlx::SqliteConnection);

    async fn violated_name(
        connection: &mut sqlx::SqliteConnection,
        index: &str,
    ) -> sqlx::Result<Option<String>> {
        // Of an index with expressions, the violation has the name.
        let columns = "SELECT group_concat(m.tbl_name || '.' || i.name, ', ') \
                       FROM sqlite_schema m, pragma_index_info(m.name) i \
                       WHERE m.type = 'index' AND m.name = ? HAVING count(i.name) = count(*)";
        let columns = sqlx::query_scalar(columns).bind(index);
        Ok(columns.fetch_optional(connection).await?.flatten())
    }
}
