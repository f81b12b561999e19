//! The syntax of PostgreSQL.

use sqlx::postgres::{PgRow, PgTypeInfo, PgTypeKind};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::sql::database::syntax::{Syntax, column};

impl Syntax for Postgres {
    const QUOTE: char = '"';
    const NULL_SAFE_EQUAL: &'static str = " IS NOT DISTINCT FROM ";
    // The lock of an update that changes no key: other rows that reference this row can still be inserted.
    const FOR_UPDATE: &'static str = " FOR NO KEY UPDATE";
    const FOR_SHARE: &'static str = "";
    const ON_CONFLICT: &'static str = " ON CONFLICT DO NOTHING";
    const HAS_RETURNING: bool = true;

    fn are_convertible(stored: &PgTypeInfo, wanted: &PgTypeInfo) -> bool {
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
