//! A transaction or a connection, as the argument of a function that sends statements.

use sqlx::Transaction;
use sqlx::pool::PoolConnection;

use super::SqlxDatabase;

/// A transaction or a connection, from a pool or not. A `&mut` reference to it also implements this trait.
///
/// So `tx`, `&mut tx` and `&mut *tx` are all accepted. A function for any database that calls `sql::insert_once`, `sql::transition` or
/// `sql::versioned_update` needs the bound `C: AsConnection<Database: sql::Database>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction or a connection of sqlx 0.9, which this function needs",
    note = "with another library write the statement yourself, as the docs of `idempotence::sql` show; a transaction of another version of sqlx has the same name",
    note = "pass a `&mut Transaction<'_, Postgres | MySql | Sqlite>` or a `&mut PgConnection | MySqlConnection | SqliteConnection`: call `pool.begin().await?` for a transaction",
    note = "each database needs its feature of the crate `idempotence`: `postgres`, `mysql` or `sqlite`"
)]
pub trait AsConnection: Send {
    /// The database of the connection.
    type Database: SqlxDatabase;

    /// The connection that sends the statements.
    fn as_connection(&mut self) -> &mut <Self::Database as sqlx::Database>::Connection;
}

impl<DB: SqlxDatabase> AsConnection for Transaction<'_, DB> {
    type Database = DB;

    fn as_connection(&mut self) -> &mut DB::Connection {
        self
    }
}

impl<DB: SqlxDatabase> AsConnection for PoolConnection<DB> {
    type Database = DB;

    fn as_connection(&mut self) -> &mut DB::Connection {
        self
    }
}

impl<C: AsConnection> AsConnection for &mut C {
    type Database = C::Database;

    fn as_connection(&mut self) -> &mut <Self::Database as sqlx::Database>::Connection {
        C::as_connection(self)
    }
}

macro_rules! as_connection {
    ($feature:literal, $database:ty, $connection:ty) => {
        #[cfg(feature = $feature)]
        impl AsConnection for $connection {
            type Database = $database;

            fn as_connection(&mut self) -> &mut $connection {
                self
            }
        }
    };
}

as_connection!("postgres", sqlx::Postgres, sqlx::PgConnection);
as_connection!("mysql", sqlx::MySql, sqlx::MySqlConnection);
as_connection!("sqlite", sqlx::Sqlite, sqlx::SqliteConnection);
