//! From one state to the next, once: of any number of equal transitions one moves the row.

use std::fmt;

use sqlx::{Decode, Encode, Error, Type};

use super::connection::AsConnection;
use super::database::Database;
use super::row::{Condition, Row, RowChange};

/// Begins a transition of a row of this table, `orders` or `shop.orders`, from one state to another.
///
/// The database compares and sets in one statement, so of any number of equal transitions, on any number of machines,
/// one is [`Applied`](Transition::Applied). A row that was not moved is read again to tell why: an `UPDATE` of no rows
/// may mean that the work is done, that it must not be done, or that there is no such row.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// # use idempotent_runtime as idempotence;
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
///     Transition::Applied => { /* this call moved it: what follows from that is done in this transaction */ }
///     Transition::AlreadyThere => { /* another call did: nothing is left to do */ }
///     Transition::Illegal { actual } => println!("cannot be paid: {actual}"),
///     Transition::NotFound => println!("no such order"),
/// }
/// # Ok(()) }
/// # }
/// ```
///
/// What must follow from the transition belongs into the same transaction, as a row that says so: a shipment that is
/// ordered after the commit is lost when the process dies between the two, and the next try finds the row moved.
///
/// Names are quoted, so they are the table's own to the letter: PostgreSQL folds no case of them.
///
/// A state is what sqlx can bind and read and Rust can compare: an enum with `#[derive(sqlx::Type, PartialEq)]`, a
/// `String`, a number; not a `&str`, because the row's state is read, too. The column may have any text type or any
/// integer type, with or without `NOT NULL`. On PostgreSQL a derived enum names the type of its column:
/// `#[sqlx(type_name = "text")]` for any text, `#[sqlx(type_name = "order_status")]` for a type that `CREATE TYPE` made.
/// Where the column may be NULL, the states are `Option`s, and `None` is a state like the others.
/// The database compares states by the column's collation, which on MySQL is often blind to case.
pub fn transition<DB: Database, S>(table: &str) -> TransitionUpdate<'_, DB, S> {
    TransitionUpdate {
        row: Row::new(table),
        column: "status",
        from: Vec::new(),
        to: None,
    }
}

/// What became of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only `Applied` moved the row"]
pub enum Transition<S> {
    /// The row was in one of the states `from`, and this call moved it.
    Applied,
    /// The row was in the state `to` before this call, which changed nothing.
    AlreadyThere,
    /// The row is in another state; this call changed nothing.
    Illegal {
        /// The row's state.
        actual: S,
    },
    /// There is no such row.
    NotFound,
}

/// A transition in the making.
#[must_use = "a transition does nothing until it is run"]
pub struct TransitionUpdate<'a, DB: Database, S> {
    row: Row<'a, DB>,
    column: &'a str,
    from: Vec<S>,
    to: Option<S>,
}

impl<'a, DB: Database, S> TransitionUpdate<'a, DB, S> {
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

    /// Adds states from which the row may go; not the one to which it goes. Without any it stays where it is, and is
    /// only looked at.
    pub fn from(mut self, states: impl IntoIterator<Item = S>) -> Self {
        self.from.extend(states);
        self
    }

    /// Sets the state to which the row goes.
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

    /// Moves the row, or tells why not.
    ///
    /// One round trip if the row moves, two if not: it is read again under its lock, so that the answer holds until
    /// the transaction ends, and cannot come from a snapshot of before. It waits for a transaction that has the
    /// row, as long as the database's own lock timeout lets it.
    ///
    /// # Errors
    ///
    /// Those of the database. In a transaction with `REPEATABLE READ` or `SERIALIZABLE`, PostgreSQL refuses with
    /// 40001 when somebody else changed the row since the transaction began: run the transaction again. So it is with
    /// a deadlock, a lock timeout, and an SQLite that is busy.
    ///
    /// [`InvalidArgument`](Error::InvalidArgument), before anything is sent: without `id` or `to`, with `to` among
    /// `from` (every one of equal transitions would be applied), for a name that can be none, and for a column that is set twice. Also when the `id` named several rows: roll back.
    ///
    /// [`ColumnDecode`](Error::ColumnDecode), which names the table and the column, if the row did not move and its state cannot be
    /// read as an `S`: it is NULL and `S` is no `Option`, or it is none of the enum's.
    ///
    /// # Cancellation
    ///
    /// Whether a dropped call moved the row is not known: roll the transaction back, or ask again.
    pub async fn run<C>(self, connection: &mut C) -> sqlx::Result<Transition<S>>
    where
        C: AsConnection<Database = DB>,
        S: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB> + PartialEq + Send + Sync,
    {
        let Some(to) = self.to else {
            return Err(Error::InvalidArgument("no `to` says where it goes".into()));
        };
        if self.from.contains(&to) {
            let why = "`to` is among `from`, so that any number of transitions would be applied";
            return Err(Error::InvalidArgument(why.into()));
        }
        let condition = Condition {
            column: self.column,
            values: &self.from,
        };
        let mut row = self.row;
        row.set(self.column, &to);
        Ok(
            match row.change(connection.as_connection(), condition).await? {
                RowChange::Yes => Transition::Applied,
                RowChange::No(actual) if actual == to => Transition::AlreadyThere,
                RowChange::No(actual) => Transition::Illegal { actual },
                RowChange::NotFound => Transition::NotFound,
            },
        )
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
