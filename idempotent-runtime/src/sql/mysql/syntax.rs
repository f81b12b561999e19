//! The syntax of MySQL and MariaDB.

use sqlx::mysql::{MySqlRow, MySqlTypeInfo};
use sqlx::{Decode, Encode, MySql, Type};

use crate::sql::database::syntax::{Syntax, column};

impl Syntax for MySql {
    const QUOTE: char = '`';
    const NULL_SAFE_EQUAL: &'static str = " <=> ";
    const FOR_UPDATE: &'static str = " FOR UPDATE";
    const FOR_SHARE: &'static str = " LOCK IN SHARE MODE";
    const ON_CONFLICT: &'static str = "";
    const HAS_RETURNING: bool = false;

    // sqlx would read an unsigned integer as a signed integer, so the database casts it.
    fn cast_type<T: Type<Self>>() -> Option<&'static str> {
        is_integer(&T::type_info()).then_some("SIGNED")
    }

    fn are_convertible(stored: &MySqlTypeInfo, wanted: &MySqlTypeInfo) -> bool {
        let text = <str as Type<Self>>::compatible;
        (text(stored) && text(wanted)) || (is_integer(stored) && is_integer(wanted))
    }

    fn column<T>(row: &MySqlRow) -> sqlx::Result<T>
    where
        T: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>,
    {
        column::<Self, T>(row)
    }
}

fn is_integer(ty: &MySqlTypeInfo) -> bool {
    <i64 as Type<MySql>>::compatible(ty) || <u64 as Type<MySql>>::compatible(ty)
}
