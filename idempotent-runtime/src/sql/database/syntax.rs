//! What a statement has to say differently on each database, and what it hears.

use sqlx::encode::IsNull;
use sqlx::error::UnexpectedNullError;
use sqlx::{Decode, Encode, Error, Row, Type, ValueRef};

/// One database's way.
pub trait Syntax: sqlx::Database {
    /// What a name is quoted with. SQLite takes `"no_such_column"` for a string, but not with these.
    const QUOTE: char;

    /// Compares as `=` does, and finds NULL equal to NULL.
    const SAME: &'static str;

    /// What makes a `SELECT` take the lock that an `UPDATE` takes. SQLite has one for all, and an update has taken it.
    const LOCKING: &'static str;

    /// What makes a `SELECT` see what was committed after the snapshot of its transaction. MySQL has it locked against
    /// removal: a duplicate has such a lock already, and two of them that wanted it alone would wait for each other.
    const SHARING: &'static str;

    /// What has an `INSERT` of a row that violates a unique index insert nothing, where a database has a word for it
    /// that hides nothing else.
    const UNLESS_THERE: &'static str;

    /// Whether an `INSERT` can answer with the row. MySQL has `LAST_INSERT_ID()`, which knows of one type only.
    const RETURNS: bool;

    /// The type to which a column has to be cast as well, if it may be an integer and is to be read as a `T`.
    fn widened<T: Type<Self>>() -> Option<&'static str> {
        None
    }

    /// Whether both types are texts, or both are integers: values of the one can be decoded as values of the other.
    fn are_kin(stored: &Self::TypeInfo, wanted: &Self::TypeInfo) -> bool;

    /// The value of the first column, of whatever text or integer type that is; the last column has the cast of
    /// [`widened`](Self::widened).
    ///
    /// sqlx alone compares types more strictly than a database compares values. An enum with `#[derive(sqlx::Type)]`
    /// is found in a `VARCHAR` of MySQL and in an `ENUM NOT NULL`, but read from an `ENUM NULL` only. And on SQLite sqlx
    /// reads a NULL as 0 or as an empty text, so what was read of a NULL counts only if it would be written as one.
    fn column<T>(row: &Self::Row) -> sqlx::Result<T>
    where
        T: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>;
}

macro_rules! column {
    () => {
        fn column<T>(row: &Self::Row) -> sqlx::Result<T>
        where
            T: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>,
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
            if !T::compatible(&stored) && Self::are_kin(&stored, &T::type_info()) {
                return row.try_get_unchecked(row.len() - 1);
            }
            row.try_get(0)
        }
    };
}

#[cfg(feature = "postgres")]
impl Syntax for sqlx::Postgres {
    const QUOTE: char = '"';
    const SAME: &'static str = " IS NOT DISTINCT FROM ";
    // What an update takes that changes no key: rows that point here can still be inserted.
    const LOCKING: &'static str = " FOR NO KEY UPDATE";
    const SHARING: &'static str = "";
    const UNLESS_THERE: &'static str = " ON CONFLICT DO NOTHING";
    const RETURNS: bool = true;

    fn are_kin(stored: &sqlx::postgres::PgTypeInfo, wanted: &sqlx::postgres::PgTypeInfo) -> bool {
        let text = <str as Type<Self>>::compatible;
        let integer = |ty| {
            <i16 as Type<Self>>::compatible(ty)
                || <i32 as Type<Self>>::compatible(ty)
                || <i64 as Type<Self>>::compatible(ty)
        };
        let named = matches!(stored.kind(), sqlx::postgres::PgTypeKind::Enum(_));
        ((named || text(stored)) && text(wanted)) || (integer(stored) && integer(wanted))
    }

    column!();
}

#[cfg(feature = "mysql")]
impl Syntax for sqlx::MySql {
    const QUOTE: char = '`';
    const SAME: &'static str = " <=> ";
    const LOCKING: &'static str = " FOR UPDATE";
    const SHARING: &'static str = " LOCK IN SHARE MODE";
    const UNLESS_THERE: &'static str = "";
    const RETURNS: bool = false;

    // The bytes of an unsigned integer are read as a signed one by their sign bit.
    fn widened<T: Type<Self>>() -> Option<&'static str> {
        is_integer(&T::type_info()).then_some("SIGNED")
    }

    fn are_kin(stored: &sqlx::mysql::MySqlTypeInfo, wanted: &sqlx::mysql::MySqlTypeInfo) -> bool {
        let text = <str as Type<Self>>::compatible;
        (text(stored) && text(wanted)) || (is_integer(stored) && is_integer(wanted))
    }

    column!();
}

#[cfg(feature = "mysql")]
fn is_integer(ty: &sqlx::mysql::MySqlTypeInfo) -> bool {
    <i64 as Type<sqlx::MySql>>::compatible(ty) || <u64 as Type<sqlx::MySql>>::compatible(ty)
}

#[cfg(feature = "sqlite")]
impl Syntax for sqlx::Sqlite {
    const QUOTE: char = '`';
    const SAME: &'static str = " IS ";
    const LOCKING: &'static str = "";
    const SHARING: &'static str = "";
    const UNLESS_THERE: &'static str = " ON CONFLICT DO NOTHING";
    const RETURNS: bool = true;

    // A value has the type that it was stored as, whatever its column was declared as.
    fn are_kin(_: &sqlx::sqlite::SqliteTypeInfo, _: &sqlx::sqlite::SqliteTypeInfo) -> bool {
        false
    }

    column!();
}
