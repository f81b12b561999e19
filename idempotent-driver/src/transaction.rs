//! What a dedup row needs of a transaction.

use std::future::Future;

use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::value::{ColumnType, Field, Value};

/// A transaction of a library, in which a call writes its dedup row: what the option `tx` and [`run_in`]
/// need of it.
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
/// # use idempotent_driver as idempotence;
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
///
/// [`run_in`]: https://docs.rs/idempotence/latest/idempotence/struct.GuardedCall.html#method.run_in
pub trait Driver: Send {
    /// What the body of [`run_in`](https://docs.rs/idempotence/latest/idempotence/struct.GuardedCall.html#method.run_in) gets: the type
    /// itself, or the connection in it.
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
