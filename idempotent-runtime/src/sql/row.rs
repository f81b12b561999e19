//! One row, changed if a column of it has one of some values; otherwise read again.

use std::collections::HashSet;
use std::fmt;

use sqlx::{Decode, Encode, Error, QueryBuilder, Type};

use super::database::Database;
use super::statement::{Statement, Value};

/// Which row of which table, and what is set in it.
pub(super) struct Row<'a, DB: Database> {
    table: &'a str,
    id: Vec<(&'a str, Box<dyn Value<DB> + 'a>)>,
    assignments: Vec<Assignment<'a, DB>>,
}

struct Assignment<'a, DB: Database> {
    column: &'a str,
    added: bool,
    value: Box<dyn Value<DB> + 'a>,
}

/// The column that decides, and the values for which the row is changed.
pub(super) struct Condition<'a, T> {
    pub(super) column: &'a str,
    pub(super) values: &'a [T],
}

/// What became of a row.
pub(super) enum Changed<T> {
    Yes,
    /// The column has another value.
    No(T),
    NotFound,
}

impl<'a, DB: Database> Row<'a, DB> {
    pub(super) fn new(table: &'a str) -> Self {
        Self {
            table,
            id: Vec::new(),
            assignments: Vec::new(),
        }
    }

    pub(super) fn id(&mut self, column: &'a str, value: impl Value<DB> + 'a) {
        self.id.push((column, Box::new(value)));
    }

    pub(super) fn set(&mut self, column: &'a str, value: impl Value<DB> + 'a) {
        self.assignments.push(Assignment {
            column,
            added: false,
            value: Box::new(value),
        });
    }

    pub(super) fn add(&mut self, column: &'a str, value: impl Value<DB> + 'a) {
        self.assignments.push(Assignment {
            column,
            added: true,
            value: Box::new(value),
        });
    }

    /// One round trip if the row is changed, two if not. It reads under the lock that an update takes: a plain read
    /// may see the snapshot of long ago, and say of a row what is no longer true. If the row got one of the values
    /// only between the two, both are done once more, in a transaction under that lock.
    pub(super) async fn change<T>(
        &self,
        connection: &mut DB::Connection,
        condition: Condition<'_, T>,
    ) -> sqlx::Result<Changed<T>>
    where
        T: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB> + PartialEq + Send + Sync,
    {
        self.check()?;
        let mut again = true;
        loop {
            if !condition.values.is_empty() {
                match DB::execute(connection, self.update(&condition)?).await? {
                    0 => {}
                    1 => return Ok(Changed::Yes),
                    rows => return Err(several(self.table, rows)),
                }
            }
            let read = DB::fetch_optional(connection, self.read(&condition)?).await?;
            let Some(read) = read else {
                return Ok(Changed::NotFound);
            };
            let actual = DB::column(&read);
            let actual = actual.map_err(|error| self.unreadable(condition.column, error))?;
            if !(again && condition.values.contains(&actual)) {
                return Ok(Changed::No(actual));
            }
            again = false;
        }
    }

    fn check(&self) -> sqlx::Result<()> {
        let refused = |message| Err(Error::InvalidArgument(message));
        if self.id.is_empty() {
            return refused(format!("no `id` says which row of {:?}", self.table));
        }
        // The last of two would win without a word on some databases, whatever the first had promised.
        let mut seen = HashSet::new();
        for Assignment { column, .. } in &self.assignments {
            if !seen.insert(column.to_lowercase()) {
                return refused(format!("{column:?} of {:?} is set twice", self.table));
            }
        }
        Ok(())
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
            if assignment.added {
                update.name(assignment.column)?.push(" + ");
            }
            update.bind(&*assignment.value)?;
        }
        self.identify(&mut update)?;
        for (i, value) in condition.values.iter().enumerate() {
            update.push(if i == 0 { " AND (" } else { " OR " });
            update.name(condition.column)?.push(DB::SAME).bind(value)?;
        }
        update.push(")");
        Ok(update.build())
    }

    fn read<T: Type<DB>>(&self, condition: &Condition<'_, T>) -> sqlx::Result<QueryBuilder<DB>> {
        let mut read = Statement::new("SELECT ");
        read.name(condition.column)?;
        if let Some(integer) = DB::widened::<T>() {
            read.push(", CAST(").name(condition.column)?;
            read.push(" AS ").push(integer).push(")");
        }
        read.push(" FROM ").table(self.table)?;
        self.identify(&mut read)?;
        read.push(DB::LOCKING);
        Ok(read.build())
    }

    fn unreadable(&self, column: &str, error: Error) -> Error {
        match error {
            Error::ColumnDecode { source, .. } => Error::ColumnDecode {
                index: format!("{column:?} of {:?}", self.table),
                source,
            },
            error => error,
        }
    }

    fn identify(&self, statement: &mut Statement<DB>) -> sqlx::Result<()> {
        for (i, (column, value)) in self.id.iter().enumerate() {
            statement.push(if i == 0 { " WHERE " } else { " AND " });
            statement.name(column)?.push(" = ").bind(&**value)?;
        }
        Ok(())
    }
}

impl<DB: Database> fmt::Debug for Row<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = |f: &Assignment<'_, DB>| f.column.to_owned();
        f.debug_struct("Row")
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

fn several(table: &str, rows: u64) -> Error {
    let message = format!("the `id` names {rows} rows of {table:?}, and all of them were changed");
    Error::InvalidArgument(message)
}
