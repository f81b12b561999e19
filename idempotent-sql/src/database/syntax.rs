//! The syntax that differs between the databases, and how columns are read.

use sqlx::encode::IsNull;
use sqlx::error::UnexpectedNullError;
use sqlx::{ColumnIndex, Database, Decode, Encode, Error, QueryBuilder, Row, Type, ValueRef};

/// The syntax of one database.
pub trait Syntax: Database {
    /// The character that quotes a name. SQLite reads an unknown name in double quotes as a string, so it uses another
    /// character.
    const QUOTE: char;

    /// The operator `=` for which NULL equals NULL.
    const NULL_SAFE_EQUAL: &'static str;

    /// Makes a `SELECT` take the lock of an `UPDATE`. SQLite has one lock for the file, which the update has already taken.
    const FOR_UPDATE: &'static str;

    /// Makes a `SELECT` see what was committed after the snapshot of its transaction. On MySQL this is a shared lock: a
    /// duplicate already has a shared lock, and two duplicates that asked for an exclusive lock would deadlock.
    const FOR_SHARE: &'static str;

    /// The clause that makes an `INSERT` do nothing if the row violates a unique index. Empty if the database has no
    /// clause that hides this error alone.
    const ON_CONFLICT: &'static str;

    /// Whether an `INSERT` can return the row. MySQL has only `LAST_INSERT_ID()`, which has one type.
    const HAS_RETURNING: bool;

    /// The type of the additional cast for an integer column that is read as a `T`.
    fn cast_type<T: Type<Self>>() -> Option<&'static str> {
        None
    }

    /// A query with a row if `table` certainly has no unique index of columns of `key` only: the names in small letters, with a `\u{1f}`
    /// before and after each. No row for a view, for example, whose indexes are those of another table.
    fn without_unique_index(table: &str, key: &str) -> QueryBuilder<Self>;

    /// Whether both types are texts or both are integers, so that values of one can be decoded as the other.
    fn are_convertible(stored: &Self::TypeInfo, wanted: &Self::TypeInfo) -> bool;

    /// See [`column`].
    fn column<T>(row: &Self::Row) -> sqlx::Result<T>
    where
        T: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>;
}

/// Reads the first column, whatever text or integer type it has. The last column has the cast of
/// [`cast_type`](Syntax::cast_type).
///
/// sqlx compares types more strictly than a database compares values. For example, MySQL finds an enum with
/// `#[derive(sqlx::Type)]` in a `VARCHAR` and in an `ENUM NOT NULL`, but sqlx reads it only from an `ENUM NULL`. On SQLite,
/// sqlx reads NULL as 0 or as an empty text. So a value that was read from NULL is accepted only if it is also written as NULL.
pub(crate) fn column<DB, T>(row: &DB::Row) -> sqlx::Result<T>
where
    DB: Syntax,
    DB::ArgumentBuffer: Default,
    usize: ColumnIndex<DB::Row>,
    T: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>,
{
    let value = row.try_get_raw(0)?;
    if value.is_null() {
        let none = row.try_get(0).ok().filter(|none: &T| {
            let written = none.encode_by_ref(&mut Default::default());
            matches!(written, Ok(IsNull::Yes))
        });
        return none.ok_or_else(|| Error::ColumnDecode {
            index: "0".to_owned(),
            source: UnexpectedNullError.into(),
        });
    }
    let stored = value.type_info();
    if !T::compatible(&stored) && DB::are_convertible(&stored, &T::type_info()) {
        return row.try_get_unchecked(row.len() - 1);
    }
    row.try_get(0)
}
