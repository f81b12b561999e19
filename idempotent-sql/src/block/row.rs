//! Two uses of one row: change it if a column has one of the given values; insert it once. If neither happens, read it.

use std::collections::HashSet;
use std::fmt;

use sqlx::{Decode, Encode, Error, QueryBuilder, Type};

use super::explained::explained;
use super::statement::{BoundValue, Statement};
use super::unique;
use crate::database::Database;

/// A row of a table, and the values to set in it.
pub(super) struct RowValues<'a, DB: Database> {
    table: &'a str,
    id: Vec<(&'a str, Box<dyn BoundValue<DB> + 'a>)>,
    assignments: Vec<Assignment<'a, DB>>,
}

struct Assignment<'a, DB: Database> {
    column: &'a str,
    is_increment: bool,
    value: Box<dyn BoundValue<DB> + 'a>,
}

/// The row is changed if this column has one of these values.
pub(super) struct Condition<'a, T> {
    pub(super) column: &'a str,
    pub(super) values: &'a [T],
}

/// A column to read. If it has a cast, the cast is selected as a second column.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    name: &'a str,
    cast_to: Option<&'static str>,
}

impl<'a> Column<'a> {
    /// A column that is read as a `T`.
    pub(super) fn read_as<DB: Database, T: Type<DB>>(name: &'a str) -> Self {
        let cast_to = DB::cast_type::<T>();
        Self { name, cast_to }
    }
}

/// The outcome of a change.
pub(super) enum RowChange<T> {
    Yes,
    /// The column has this other value.
    No(T),
    NotFound,
}

impl<'a, DB: Database> RowValues<'a, DB> {
    pub(super) fn new(table: &'a str) -> Self {
        Self {
            table,
            id: Vec::new(),
            assignments: Vec::new(),
        }
    }

    pub(super) fn id(&mut self, column: &'a str, value: impl BoundValue<DB> + 'a) {
        self.id.push((column, Box::new(value)));
    }

    pub(super) fn set(&mut self, column: &'a str, value: impl BoundValue<DB> + 'a) {
        self.assignments.push(Assignment {
            column,
            is_increment: false,
            value: Box::new(value),
        });
    }

    pub(super) fn add(&mut self, column: &'a str, value: impl BoundValue<DB> + 'a) {
        self.assignments.push(Assignment {
            column,
            is_increment: true,
            value: Box::new(value),
        });
    }

    /// Changes the row, or reads why the row cannot be changed. One round trip if the row is changed, two if not.
    ///
    /// The read takes the lock of an update, because a plain read may see an old snapshot. If the row gets one of the values
    /// between the two statements, both are sent once more. Once is enough in a transaction: the first read locks the row.
    pub(super) async fn change<T>(
        &self,
        connection: &mut DB::Connection,
        condition: Condition<'_, T>,
    ) -> sqlx::Result<RowChange<T>>
    where
        T: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB> + PartialEq + Send + Sync,
    {
        self.check()?;
        let mut again = true;
        loop {
            if !condition.values.is_empty() {
                match DB::execute(connection, self.update(&condition)?).await? {
                    0 => {}
                    1 => return Ok(RowChange::Yes),
                    rows => return Err(matched_several_rows(self.table, rows)),
                }
            }
            let column = Column::read_as::<DB, T>(condition.column);
            let read = self.select(Some(column), DB::FOR_UPDATE)?;
            let Some(read) = DB::fetch_optional(connection, read).await? else {
                return Ok(RowChange::NotFound);
            };
            let actual = self.value(condition.column, &read)?;
            if !(again && condition.values.contains(&actual)) {
                return Ok(RowChange::No(actual));
            }
            again = false;
        }
    }

    fn check(&self) -> sqlx::Result<()> {
        if self.id.is_empty() {
            let why = format!("no `id` names the row of {:?}: call `id`", self.table);
            return Err(Error::InvalidArgument(why));
        }
        self.check_once(self.assignments.iter().map(|set| set.column))
    }

    /// Refuses an insert that the database would accept more than once.
    pub(super) fn check_insert(&self) -> sqlx::Result<()> {
        if self.id.is_empty() {
            let why = format!(
                "no `key` says which rows of {:?} are duplicates: call `key`",
                self.table
            );
            return Err(Error::InvalidArgument(why));
        }
        self.check_once(self.columns().map(|(column, _)| column))
            .map_err(|error| match error {
                Error::InvalidArgument(why) => Error::InvalidArgument(format!(
                    "{why}; an `insert_once` inserts one row, so run one for each row"
                )),
                error => error,
            })
    }

    /// Refuses a key without a unique index.
    pub(super) async fn check_key(&self, connection: &mut DB::Connection) -> sqlx::Result<()> {
        let columns = self.id.iter().map(|(column, _)| *column);
        unique::check::<DB>(connection, self.table, columns).await
    }

    /// Refuses two values for one column: some databases use one of them without an error.
    fn check_once<'c>(&self, columns: impl Iterator<Item = &'c str>) -> sqlx::Result<()> {
        let mut seen = HashSet::new();
        for column in columns {
            if !seen.insert(column.to_lowercase()) {
                let why = format!("{column:?} of {:?} is set twice", self.table);
                return Err(Error::InvalidArgument(why));
            }
        }
        Ok(())
    }

    /// The columns of an insert, and their values.
    fn columns(&self) -> impl Iterator<Item = (&'a str, &(dyn BoundValue<DB> + 'a))> {
        let id = self.id.iter().map(|(column, value)| (*column, &**value));
        let others = self.assignments.iter().map(|set| (set.column, &*set.value));
        id.chain(others)
    }

    fn update<T>(&self, condition: &Condition<'_, T>) -> sqlx::Result<QueryBuilder<DB>>
    where
        T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync,
    {
        let mut update = Statement::new("UPDATE ");
        update.table(self.table)?;
        for (i, assignment) in self.assignments.iter().enumerate() {
            update.push(if i == 0 { " SET " } else { ", " });
            update.name(assignment.column)?.push(" = ");
            if assignment.is_increment {
                update.name(assignment.column)?.push(" + ");
            }
            update.bind(&*assignment.value)?;
        }
        self.push_where(&mut update)?;
        for (i, value) in condition.values.iter().enumerate() {
            update.push(if i == 0 { " AND (" } else { " OR " });
            update
                .name(condition.column)?
                .push(DB::NULL_SAFE_EQUAL)
                .bind(value)?;
        }
        update.push(")");
        Ok(update.build())
    }

    /// An `INSERT` of the id and the assignments. `on_conflict`: the clause for a violated unique index.
    pub(super) fn insert(
        &self,
        on_conflict: &'static str,
        returning: Option<Column<'_>>,
    ) -> sqlx::Result<QueryBuilder<DB>> {
        let mut insert = Statement::new("INSERT INTO ");
        insert.table(self.table)?;
        for (i, (column, _)) in self.columns().enumerate() {
            insert.push(if i == 0 { " (" } else { ", " }).name(column)?;
        }
        for (i, (_, value)) in self.columns().enumerate() {
            insert.push(if i == 0 { ") VALUES (" } else { ", " });
            insert.bind(value)?;
        }
        insert.push(")").push(on_conflict);
        if DB::HAS_RETURNING && returning.is_some() {
            insert.push(" RETURNING ");
            Self::push_columns(&mut insert, returning)?;
        }
        Ok(insert.build())
    }

    /// A `SELECT` of the row.
    pub(super) fn select(
        &self,
        column: Option<Column<'_>>,
        locking: &'static str,
    ) -> sqlx::Result<QueryBuilder<DB>> {
        let mut select = Statement::new("SELECT ");
        Self::push_columns(&mut select, column)?;
        select.push(" FROM ").table(self.table)?;
        self.push_where(&mut select)?;
        select.push(locking);
        Ok(select.build())
    }

    fn push_columns(statement: &mut Statement<DB>, column: Option<Column<'_>>) -> sqlx::Result<()> {
        let Some(Column { name, cast_to }) = column else {
            statement.push("1");
            return Ok(());
        };
        statement.name(name)?;
        if let Some(integer) = cast_to {
            statement.push(", CAST(").name(name)?;
            statement.push(" AS ").push(integer).push(")");
        }
        Ok(())
    }

    /// Reads the column of a selected row.
    pub(super) fn value<T>(&self, column: &str, row: &DB::Row) -> sqlx::Result<T>
    where
        T: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>,
    {
        DB::column(row).map_err(|error| match error {
            Error::ColumnDecode { source, .. } => Error::ColumnDecode {
                index: format!("{column:?} of {:?}", self.table),
                source,
            },
            error => error,
        })
    }

    fn push_where(&self, statement: &mut Statement<DB>) -> sqlx::Result<()> {
        for (i, (column, value)) in self.id.iter().enumerate() {
            statement.push(if i == 0 { " WHERE " } else { " AND " });
            statement.name(column)?.push(" = ").bind(&**value)?;
        }
        Ok(())
    }
}

impl<DB: Database> fmt::Debug for RowValues<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = |f: &Assignment<'_, DB>| f.column.to_owned();
        f.debug_struct("RowValues")
            .field("table", &self.table)
            .field(
                "id",
                &self.id.iter().map(|(column, _)| column).collect::<Vec<_>>(),
            )
            .field(
                "set",
                &self.assignments.iter().map(columns).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

/// Explains in the error of a missing table who must create the table.
pub(super) fn explain_table(error: Error) -> Error {
    explained(
        error,
        "create it in your migrations, because `sql::migrate` makes only the tables of idempotence",
    )
}

fn matched_several_rows(table: &str, rows: u64) -> Error {
    let message = format!(
        "the `id` matches {rows} rows of {table:?}, and all of them were changed: roll back, and use unique columns"
    );
    Error::InvalidArgument(message)
}
