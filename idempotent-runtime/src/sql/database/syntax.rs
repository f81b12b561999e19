//! What a statement has to say differently on each database, and what it hears.

use sqlx::encode::IsNull;
use sqlx::error::UnexpectedNullError;
use sqlx::{ColumnIndex, Database, Decode, Encode, Error, Row, Type, ValueRef};

/// One database's way.
pub trait Syntax: Database {
    /// How a transaction begins that will write, unless it begins as every other.
    const BEGIN: Option<&'static str> = None;

    /// What a name is quoted with. SQLite takes `"no_such_column"` for a string, but not with these.
    const QUOTE: char;

    /// Compares as `=` does, and finds NULL equal to NULL.
    const NULL_SAFE_EQUAL: &'static str;

    /// What makes a `SELECT` take the lock that an `UPDATE` takes. SQLite has one for all, and an update has taken it.
    const FOR_UPDATE: &'static str;

    /// What makes a `SELECT` see what was committed after the snapshot of its transaction. MySQL has it locked against
    /// removal: a duplicate has such a lock already, and two of them that wanted it alone would wait for each other.
    const FOR_SHARE: &'static str;

    /// What has an `INSERT` of a row that violates a unique index insert nothing, where a database has a word for it
    /// that hides nothing else.
    const ON_CONFLICT: &'static str;

    /// Whether an `INSERT` can answer with the row. MySQL has `LAST_INSERT_ID()`, which knows of one type only.
    const HAS_RETURNING: bool;

    /// The type to which a column has to be cast as well, if it may be an integer and is to be read as a `T`.
    fn cast_type<T: Type<Self>>() -> Option<&'static str> {
        None
    }

    /// Whether both types are texts, or both are integers: values of the one can be decoded as values of the other.
    fn are_convertible(stored: &Self::TypeInfo, wanted: &Self::TypeInfo) -> bool;

    /// What [`column`] reads.
    fn column<T>(row: &Self::Row) -> sqlx::Result<T>
    where
        T: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>;
}

/// The value of the first column, of whatever text or integer type that is; the last column has the cast of
/// [`cast_type`](Syntax::cast_type).
///
/// sqlx alone compares types more strictly than a database compares values. An enum with `#[derive(sqlx::Type)]`
/// is found in a `VARCHAR` of MySQL and in an `ENUM NOT NULL`, but read from an `ENUM NULL` only. And on SQLite sqlx
/// reads a NULL as 0 or as an empty text, so what was read of a NULL counts only if it would be written as one.
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
