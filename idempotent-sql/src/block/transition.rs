//! Moves a row from one state to the next once: only one of several equal transitions moves the row.

use std::fmt;

use idempotent_driver::sql::AsConnection;
use sqlx::{Decode, Encode, Error, Type};

use super::row::{Condition, RowChange, RowValues, explain_table};
use crate::database::Database;

/// Begins a transition of a row of a table (`orders` or `shop.orders`) from one state to another.
///
/// The database compares and sets in one statement, so exactly one of several equal transitions is
/// [`Applied`](Transition::Applied), even on several machines. If the row was not moved, it is read to find the reason: the
/// work is already done, the transition is not allowed, or the row does not exist.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// # async fn ship() {}
/// use idempotence::sql::{self, Transition, sqlx};
///
/// # async fn paid(tx: &mut sqlx::Transaction<'_, sqlx::Postgres>, id: i64, now: &str) -> sqlx::Result<()> {
/// let transition = sql::transition("orders")
///     .id("order_id", id)
///     .from(["PAYING".to_owned()])
///     .to("PAID".to_owned())
///     .set("pay_time", now)
///     .run(tx)
///     .await?;
/// match transition {
///     Transition::Applied => { /* this call moved it: do the work in this transaction */ }
///     Transition::AlreadyThere => { /* another call moved it: nothing to do */ }
///     Transition::Illegal { actual } => println!("cannot be paid: {actual}"),
///     Transition::NotFound => println!("no such order"),
/// }
/// # Ok(()) }
/// # }
/// ```
///
/// Work that follows from the transition belongs in the same transaction, for example as a row in an outbox. If a shipment is
/// ordered after the commit and the process dies in between, the shipment is lost, because the next attempt finds the row
/// already moved.
///
/// Names are quoted, so they must match the table exactly: PostgreSQL does not fold their case.
///
/// A state is a type that sqlx can bind and read and Rust can compare: an enum with `#[derive(sqlx::Type, PartialEq)]`, a
/// `String`, or a number. A `&str` is not possible, because the state of the row is also read. The column may have any text
/// type or any integer type, with or without `NOT NULL`. On PostgreSQL a derived enum names the type of its column:
/// `#[sqlx(type_name = "text")]` for any text, `#[sqlx(type_name = "order_status")]` for a type made by `CREATE TYPE`. If the
/// column may be NULL, the states are `Option`s, and `None` is a state like any other. The database compares states by the
/// collation of the column, which ignores case by default on MySQL.
#[doc(alias("状态机"))]
pub fn transition<DB: Database, S>(table: &str) -> TransitionUpdate<'_, DB, S> {
    TransitionUpdate {
        row: RowValues::new(table),
        column: "status",
        from: Vec::new(),
        to: None,
    }
}

/// The outcome of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only `Applied` moved the row"]
pub enum Transition<S> {
    /// The row was in one of the states `from`, and this call moved it.
    Applied,
    /// The row was in the state `to` before this call, which changed nothing.
    AlreadyThere,
    /// The row is in another state; this call changed nothing.
    Illegal {
        /// The state of the row.
        actual: S,
    },
    /// The row does not exist.
    NotFound,
}

/// A transition that is being built.
#[must_use = "a transition does nothing until it is run"]
pub struct TransitionUpdate<'a, DB: Database, S> {
    row: RowValues<'a, DB>,
    column: &'a str,
    from: Vec<S>,
    to: Option<S>,
}

impl<'a, DB: Database, S> TransitionUpdate<'a, DB, S> {
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

    /// Adds states from which the row may move. The state `to` must not be among them. Without any such state the row is only
    /// read.
    pub fn from(mut self, states: impl IntoIterator<Item = S>) -> Self {
        self.from.extend(states);
        self
    }

    /// Sets the new state of the row.
    pub fn to(mut self, state: S) -> Self {
        self.to = Some(state);
        self
    }

    /// Sets a column together with the state, if the row moves.
    pub fn set<T>(mut self, column: &'a str, value: T) -> Self
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync + 'a,
    {
        self.row.set(column, value);
        self
    }

    /// Names the column that holds the state. Default: `status`.
    pub fn column(mut self, column: &'a str) -> Self {
        self.column = column;
        self
    }

    /// Moves the row, or returns why it did not move.
    ///
    /// One round trip if the row moves, two if not: the row is read under its lock, so that the answer holds until the
    /// transaction ends and cannot come from an old snapshot. The statement waits for another transaction that has changed the
    /// row, up to the lock timeout of the database.
    ///
    /// # Errors
    ///
    /// The errors of the database. In a transaction with `REPEATABLE READ` or `SERIALIZABLE`, PostgreSQL refuses the statement
    /// with 40001 if another transaction changed the row after this transaction began: run the transaction again. Do the same
    /// after a deadlock, a lock timeout or a busy SQLite file.
    ///
    /// [`InvalidArgument`](Error::InvalidArgument) before anything is sent: without `id` or `to`, with `to` among `from` (then
    /// all equal transitions would be applied), for an invalid name, and for a column that is set twice. Also if the `id`
    /// matched several rows: roll back.
    ///
    /// [`ColumnDecode`](Error::ColumnDecode), with the table and the column, if the row did not move and its state cannot be
    /// read as an `S`: the state is NULL and `S` is not an `Option`, or the enum does not have the state.
    ///
    /// # Cancellation
    ///
    /// A dropped call may have moved the row: roll back the transaction, or call again.
    pub async fn run<C>(self, connection: &mut C) -> sqlx::Result<Transition<S>>
    where
        C: AsConnection<Database = DB>,
        S: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB> + PartialEq + Send + Sync,
    {
        let Some(to) = self.to else {
            return Err(Error::InvalidArgument(
                "a transition needs its new state: call `to`".into(),
            ));
        };
        if self.from.contains(&to) {
            let why =
                "`to` must not be among `from`, or several equal transitions would be applied";
            return Err(Error::InvalidArgument(why.into()));
        }
        let condition = Condition {
            column: self.column,
            values: &self.from,
        };
        let mut row = self.row;
        row.set(self.column, &to);
        let change = row.change(connection.as_connection(), condition).await;
        Ok(match change.map_err(explain_table)? {
            RowChange::Yes => Transition::Applied,
            RowChange::No(actual) if actual == to => Transition::AlreadyThere,
            RowChange::No(actual) => Transition::Illegal { actual },
            RowChange::NotFound => Transition::NotFound,
        })
    }
}

impl<DB: Database, S> fmt::Debug for TransitionUpdate<'_, DB, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransitionUpdate")
            .field("row", &self.row)
            .field("column", &self.column)
            .finish_non_exhaustive()
    }
}
