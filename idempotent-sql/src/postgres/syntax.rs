//! The syntax of PostgreSQL.

use sqlx::postgres::{PgRow, PgTypeInfo, PgTypeKind};
use sqlx::{Decode, Encode, Postgres, QueryBuilder, Type};

use crate::database::syntax::{Syntax, column};

impl Syntax for Postgres {
    const QUOTE: char = '"';
    const NULL_SAFE_EQUAL: &'static str = " IS NOT DISTINCT FROM ";
    // The lock of an update that changes no key: other rows that reference this row can still be inserted.
    const FOR_UPDATE: &'static str = " FOR NO KEY UPDATE";
    const FOR_SHARE: &'static str = "";
    const ON_CONFLICT: &'static str = " ON CONFLICT DO NOTHING";
    const HAS_RETURNING: bool = true;

    fn without_unique_index(table: &str, key: &str) -> QueryBuilder<Self> {
        let quoted = |part: &str| format!("\"{}\"", part.replace('"', "\"\""));
        let table: Vec<String> = table.split('.').map(quoted).collect();
        let mut query = QueryBuilder::new("SELECT 1 FROM pg_class c WHERE c.oid = to_regclass(");
        query.push_bind(table.join("."));
        query.push(
            "::text) AND c.relkind IN ('r', 'p') AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid \
             AND (i.indisunique OR i.indisexclusion) AND (i.indisexclusion OR i.indexprs IS NOT NULL OR NOT EXISTS (\
             SELECT 1 FROM generate_series(0, i.indnkeyatts - 1) n \
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[n] \
             WHERE strpos(",
        );
        query.push_bind(key.to_owned());
        query.push("::text, chr(31) || lower(a.attname::text) || chr(31)) = 0)))");
        query
    }

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
