//! The syntax of SQLite.

use sqlx::sqlite::{SqliteRow, SqliteTypeInfo};
use sqlx::{Decode, Encode, Sqlite, Type};

use crate::sql::database::syntax::{Syntax, column};

/// Takes the lock of the file. SQLite may refuse the first write of a transaction that began with a read.
pub(super) const BEGIN_TO_WRITE: &str = "BEGIN IMMEDIATE";

impl Syntax for Sqlite {
    const BEGIN: Option<&'static str> = Some(BEGIN_TO_WRITE);
    const QUOTE: char = '`';
    const NULL_SAFE_EQUAL: &'static str = " IS ";
    const FOR_UPDATE: &'static str = "";
    const FOR_SHARE: &'static str = "";
    const ON_CONFLICT: &'static str = " ON CONFLICT DO NOTHING";
    const HAS_RETURNING: bool = true;

    // A value has the type with which it was stored, not the type of its column.
    fn are_convertible(_: &SqliteTypeInfo, _: &SqliteTypeInfo) -> bool {
        false
    }

    fn column<T>(row: &SqliteRow) -> sqlx::Result<T>
    where
        T: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>,
    {
        column::<Self, T>(row)
    }
}
