//! The syntax of MySQL and MariaDB.

use sqlx::mysql::{MySqlRow, MySqlTypeInfo};
use sqlx::{Decode, Encode, MySql, QueryBuilder, Type};

use crate::database::syntax::{Syntax, column};

impl Syntax for MySql {
    const QUOTE: char = '`';
    const NULL_SAFE_EQUAL: &'static str = " <=> ";
    const FOR_UPDATE: &'static str = " FOR UPDATE";
    const FOR_SHARE: &'static str = " LOCK IN SHARE MODE";
    const ON_CONFLICT: &'static str = "";
    const HAS_RETURNING: bool = false;

    fn without_unique_index(table: &str, key: &str) -> QueryBuilder<Self> {
        let (schema, table) = match table.split_once('.') {
            Some((schema, table)) => (Some(schema.to_owned()), table),
            None => (None, table),
        };
        let mut query = QueryBuilder::new(
            "SELECT 1 FROM information_schema.tables t WHERE t.table_type = 'BASE TABLE' AND t.table_schema = COALESCE(",
        );
        query.push_bind(schema);
        query.push(", DATABASE()) AND t.table_name = ");
        query.push_bind(table.to_owned());
        query.push(
            " AND NOT EXISTS (SELECT 1 FROM information_schema.statistics s WHERE s.table_schema = t.table_schema \
             AND s.table_name = t.table_name AND s.non_unique = 0 GROUP BY s.index_name \
             HAVING SUM(s.column_name IS NOT NULL AND LOCATE(CONCAT(CHAR(31), LOWER(s.column_name), CHAR(31)), ",
        );
        query.push_bind(key.to_owned());
        query.push(") = 0) = 0)");
        query
    }

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
