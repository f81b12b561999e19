//! The syntax of SQLite.

use sqlx::sqlite::{SqliteRow, SqliteTypeInfo};
use sqlx::{Decode, Encode, Sqlite, Type};

use crate::sql::database::syntax::{Syntax, column};

impl Syntax for Sqlite {
    // One that reads before it writes may be refused in the middle.
    const BEGIN: Option<&'static str> = Some("BEGIN IMMEDIATE");
    const QUOTE: char = '`';
    const NULL_SAFE_EQUAL: &'static str = " IS ";
    const FOR_UPDATE: &'static str = "";
    const FOR_SHARE: &'static str = "";
    const ON_CONFLICT: &'static str = " ON CONFLICT DO NOTHING";
    const HAS_RETURNING: bool = true;

    // A value has the type that it was stored as, whatever its column was declared as.
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
