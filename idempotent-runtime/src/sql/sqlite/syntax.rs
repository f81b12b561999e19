//! The syntax of SQLite.

use sqlx::sqlite::{SqliteRow, SqliteTypeInfo};
use sqlx::{Decode, Encode, Sqlite, Type};

use crate::sql::database::syntax::{Syntax, column};

impl Syntax for Sqlite {
    // One that reads before it writes may be refused in the middle.
    const BEGIN: Option<&'static str> = Some("BEGIN IMMEDIATE");
    const QUOTE: char = '`';
    const SAME: &'static str = " IS ";
    const LOCKING: &'static str = "";
    const SHARING: &'static str = "";
    const UNLESS_THERE: &'static str = " ON CONFLICT DO NOTHING";
    const RETURNS: bool = true;

    // A value has the type that it was stored as, whatever its column was declared as.
    fn are_kin(_: &SqliteTypeInfo, _: &SqliteTypeInfo) -> bool {
        false
    }

    fn column<T>(row: &SqliteRow) -> sqlx::Result<T>
    where
        T: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>,
    {
        column::<Self, T>(row)
    }
}
