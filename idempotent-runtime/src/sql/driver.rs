//! What a dedup row needs of a transaction, and `begin` of a pool: the port to any library of a database.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;

mod error;

pub use self::error::{DriverError, DriverErrorKind};

/// A transaction of a library, in which a call writes its dedup row: what the option `tx` and
/// [`run_in`](crate::GuardedCall::run_in) need of it.
///
/// The transactions and connections of sqlx 0.9 implement it, and with their features those of other libraries. Implement it for
/// the type of another library, or for your own type around a connection. The caller begins, commits and rolls back the
/// transaction: the statements that a driver gets do none of that, and use only the savepoint `idempotence`.
///
/// A statement and its values must reach the server unchanged. Each value has the type of its variant: PostgreSQL must not infer
/// another one. Each method is one round trip if the library allows it.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// # use idempotent_runtime as idempotence;
/// use idempotence::sql::driver::{ColumnType, Dialect, Driver, DriverError, Field, Value};
/// # pub struct Shop; pub struct Answer; pub struct Failure;
/// # impl Failure { fn sqlstate(&self) -> Option<&str> { None } }
/// # impl From<Failure> for std::io::Error { fn from(_: Failure) -> Self { Self::other("failed") } }
/// # impl Answer { fn text(&self, _: usize) -> Option<String> { None } fn bytes(&self, _: usize) -> Option<Vec<u8>> { None }
/// #     fn integer(&self, _: usize) -> Option<i64> { None } fn float(&self, _: usize) -> Option<f64> { None } }
/// # impl Shop {
/// #     async fn send(&mut self, _: &str, _: &[Value<'_>]) -> Result<u64, Failure> { Ok(1) }
/// #     async fn read(&mut self, _: &str, _: &[Value<'_>]) -> Result<Option<Answer>, Failure> { Ok(None) }
/// #     async fn batch(&mut self, _: &str) -> Result<(), Failure> { Ok(()) }
/// # }
///
/// impl Driver for Shop {
///     type Connection = Self;
///
///     fn connection(&mut self) -> &mut Self {
///         self
///     }
///
///     fn dialect(&self) -> Dialect {
///         Dialect::Postgres
///     }
///
///     async fn execute(&mut self, statement: &str, values: &[Value<'_>]) -> Result<u64, DriverError> {
///         self.send(statement, values).await.map_err(failed)
///     }
///
///     async fn first_row(
///         &mut self,
///         statement: &str,
///         values: &[Value<'_>],
///         columns: &[ColumnType],
///     ) -> Result<Option<Vec<Field>>, DriverError> {
///         let row = self.read(statement, values).await.map_err(failed)?;
///         Ok(row.map(|row| {
///             let read = |(i, column): (usize, &ColumnType)| match column {
///                 ColumnType::Text => row.text(i).into(),
///                 ColumnType::Bytes => row.bytes(i).into(),
///                 ColumnType::Integer => row.integer(i).into(),
///                 ColumnType::Float => row.float(i).into(),
///             };
///             columns.iter().enumerate().map(read).collect()
///         }))
///     }
///
///     async fn execute_all(&mut self, statements: &str) -> Result<(), DriverError> {
///         self.batch(statements).await.map_err(failed)
///     }
/// }
///
/// fn failed(error: Failure) -> DriverError {
///     match error.sqlstate().map(str::to_owned) {
///         Some(state) => DriverError::postgres(state, std::io::Error::from(error)),
///         None => DriverError::lost(std::io::Error::from(error)),
///     }
/// }
/// # }
/// ```
pub trait Driver: Send {
    /// What the body of [`run_in`](crate::GuardedCall::run_in) gets: the type itself, or the connection in it.
    type Connection: ?Sized;

    /// The connection for the body.
    fn connection(&mut self) -> &mut Self::Connection;

    /// The database, which decides which statements are sent.
    fn dialect(&self) -> Dialect;

    /// Whether the connection is in a transaction: implement it if your type can be outside of one. Such a call is refused, because its row
    /// would be committed before the work. Sends nothing.
    fn is_in_transaction(&mut self) -> bool {
        true
    }

    /// Runs a statement. Returns the number of changed rows, or on MySQL of matched rows.
    ///
    /// # Errors
    ///
    /// Why the statement failed.
    fn execute(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, DriverError>> + Send;

    /// Runs a statement to its end. Returns the first row: one field for each of `columns`, in their order.
    ///
    /// # Errors
    ///
    /// Why the statement failed, or why the row could not be read.
    fn first_row(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
        columns: &[ColumnType],
    ) -> impl Future<Output = Result<Option<Vec<Field>>, DriverError>> + Send;

    /// Runs statements without values, separated by semicolons, until one fails.
    ///
    /// # Errors
    ///
    /// Why a statement failed.
    fn execute_all(
        &mut self,
        statements: &str,
    ) -> impl Future<Output = Result<(), DriverError>> + Send;
}

/// A pool of a library, on which the guard begins the transaction of a call: what the option `begin` and
/// [`run_in_new`](crate::GuardedCall::run_in_new) need of it.
///
/// The pools of sqlx 0.9 implement it, and with their features those of other libraries. Implement it for your own type around the pool of
/// another library.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a pool on which this crate can begin a transaction",
    label = "not a pool",
    note = "use a `PgPool`, `MySqlPool` or `SqlitePool` of sqlx 0.9, a reference to it or an `Arc` of it: each database needs its feature of the crate `idempotence`",
    note = "with its feature another library works as well: `sqlx-08`, `sea-orm` (`DatabaseConnection`), `deadpool-postgres`, `diesel-async-deadpool`, `diesel-async-bb8`; your own pool implements `sql::driver::TransactionPool`"
)]
pub trait TransactionPool: Clone + Send + Sync {
    /// The transaction. If it is dropped before its end, it must be rolled back, or its connection closed.
    type Transaction: Driver;

    /// The error of the library.
    type Error: StdError + 'static;

    /// Takes a connection, and begins a transaction that writes.
    ///
    /// # Errors
    ///
    /// Why there is no connection, or why `BEGIN` failed. After a lost connection it may be called again.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction, DriverError>> + Send;

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// The error of the `COMMIT`. The caller's error type needs `From` of it, and reads its causes.
    fn commit(
        transaction: Self::Transaction,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Rolls the transaction back.
    ///
    /// # Errors
    ///
    /// If the connection is lost. Then the server rolls back.
    fn roll_back(
        transaction: Self::Transaction,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// A number that clones of the pool share, and that no other pool has while a clone lives, such as the address of a value in the
    /// pool. With it equal calls of this process wait without a connection. `None`: they wait in the database.
    fn identity(&self) -> Option<usize> {
        None
    }
}

macro_rules! pointer {
    ($pointer:ty) => {
        impl<P: TransactionPool> TransactionPool for $pointer {
            type Transaction = P::Transaction;
            type Error = P::Error;

            fn begin(&self) -> impl Future<Output = Result<P::Transaction, DriverError>> + Send {
                P::begin(self)
            }

            fn commit(
                transaction: P::Transaction,
            ) -> impl Future<Output = Result<(), P::Error>> + Send {
                P::commit(transaction)
            }

            fn roll_back(
                transaction: P::Transaction,
            ) -> impl Future<Output = Result<(), P::Error>> + Send {
                P::roll_back(transaction)
            }

            fn identity(&self) -> Option<usize> {
                P::identity(self)
            }
        }
    };
}

pointer!(&P);
pointer!(Arc<P>);

/// The database of a [`Driver`]. Without its feature of this crate its statements fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL, whose placeholders are `$1`, `$2`. Feature `postgres`.
    Postgres,
    /// MySQL and MariaDB, whose placeholder is `?`. Feature `mysql`.
    MySql,
    /// SQLite, whose placeholders are `?1`, `?2`. Feature `sqlite`.
    Sqlite,
}

impl Dialect {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MySql => "MySQL",
            Self::Sqlite => "SQLite",
        }
    }
}

/// A value of a statement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A text: `TEXT`.
    Text(&'a str),
    /// Bytes: `BYTEA`, `VARBINARY`, `BLOB`.
    Bytes(&'a [u8]),
    /// An integer of 64 bits: `BIGINT`.
    Integer(i64),
    /// A floating-point number of 64 bits: `DOUBLE PRECISION`.
    Float(f64),
}

/// How a column is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// As a text.
    Text,
    /// As bytes.
    Bytes,
    /// As an integer of 64 bits.
    Integer,
    /// As a floating-point number of 64 bits.
    Float,
}

/// A column of a row that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// NULL.
    Null,
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
}

macro_rules! field {
    ($variant:ident, $type:ty) => {
        impl From<Option<$type>> for Field {
            fn from(value: Option<$type>) -> Self {
                value.map_or(Self::Null, Self::$variant)
            }
        }
    };
}

field!(Text, String);
field!(Bytes, Vec<u8>);
field!(Integer, i64);
field!(Float, f64);

/// The columns of a row, read one after the other.
#[derive(Debug)]
pub(crate) struct Fields(std::vec::IntoIter<Field>);

impl Fields {
    /// The only row of a statement.
    pub(crate) fn of(row: Option<Vec<Field>>) -> Result<Self, DriverError> {
        match row {
            Some(row) => Ok(Self(row.into_iter())),
            None => Err(DriverError::other("the statement returned no row")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Option<Vec<u8>>, DriverError> {
        match self.0.next() {
            Some(Field::Null) => Ok(None),
            Some(Field::Bytes(bytes)) => Ok(Some(bytes)),
            field => Err(unexpected("bytes", field.as_ref())),
        }
    }

    pub(crate) fn integer(&mut self) -> Result<i64, DriverError> {
        match self.0.next() {
            Some(Field::Integer(number)) => Ok(number),
            field => Err(unexpected("an integer", field.as_ref())),
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn text(&mut self) -> Result<String, DriverError> {
        match self.0.next() {
            Some(Field::Text(text)) => Ok(text),
            field => Err(unexpected("a text", field.as_ref())),
        }
    }
}

/// The value is not in the error, because it may be a secret.
fn unexpected(wanted: &str, field: Option<&Field>) -> DriverError {
    let found = match field {
        None => "no column",
        Some(Field::Null) => "NULL",
        Some(Field::Text(_)) => "a text",
        Some(Field::Bytes(_)) => "bytes",
        Some(Field::Integer(_)) => "an integer",
        Some(Field::Float(_)) => "a floating-point number",
    };
    DriverError::other(format!("the driver read {found} instead of {wanted}"))
}
