//! The syntax of PostgreSQL.

use sqlx::postgres::{PgRow, PgTypeInfo, PgTypeKind};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::sql::database::syntax::{Syntax, column};

impl Syntax for Postgres {
    const QUOTE: char = '"';
    const SAME: &'static str = " IS NOT DISTINCT FROM ";
    // What an update takes that changes no key: rows that point here can still be inserted.
    const LOCKING: &'static str = " FOR NO KEY UPDATE";
    const SHARING: &'static str = "";
    const UNLESS_THERE: &'static str = " ON CONFLICT DO NOTHING";
    const RETURNS: bool = true;

    fn are_kin(stored: &PgTypeInfo, wanted: &PgTypeInfo) -> bool {
        let text = <str as Type<Self>>::compatible;
        let integer = |ty| {
            <i16 as Type<Self>>::compatible(ty)
                || <i32 as Type<Self>>::compatible(ty)
                || <i64 as Type<Self>>::compatible(ty)
        };
        let named = matches!(stored.kind(), PgTypeKind::Enum(_));
        ((named || text(stored)) && text(wanted)) || (integer(stored) && integer(wanted))
    }

    fn column<T>(row: &PgRow) -> sqlx::Result<T>
    where
        T: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>,
    {
        column::<Self, T>(row)
    }
}
