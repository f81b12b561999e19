//! The syntax of SQLite.

use sqlx::sqlite::{SqliteRow, SqliteTypeInfo};
use sqlx::{Decode, Encode, QueryBuilder, Sqlite, Type};

use crate::database::syntax::{Syntax, column};

impl Syntax for Sqlite {
    const QUOTE: char = '`';
    const NULL_SAFE_EQUAL: &'static str = " IS ";
    const FOR_UPDATE: &'static str = "";
    const FOR_SHARE: &'static str = "";
    const ON_CONFLICT: &'static str = " ON CONFLICT DO NOTHING";
    const HAS_RETURNING: bool = true;

    // The table of another file, and a temporary table, have another list of tables.
    fn without_unique_index(table: &str, key: &str) -> QueryBuilder<Self> {
        let mut query = QueryBuilder::new("SELECT 1 FROM (SELECT ");
        query.push_bind(key.to_owned());
        query.push(
            " AS names) k, sqlite_master t WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%' AND lower(t.name) = lower(",
        );
        query.push_bind(table.to_owned());
        query.push(
            ") AND NOT EXISTS (SELECT 1 FROM pragma_index_list(t.name) l WHERE l.\"unique\" = 1 AND NOT EXISTS (\
             SELECT 1 FROM pragma_index_info(l.name) c \
             WHERE c.name IS NOT NULL AND instr(k.names, char(31) || lower(c.name) || char(31)) = 0)) \
             AND 0 IN (SELECT count(*) FROM pragma_table_info(t.name) p WHERE p.pk > 0 UNION \
             SELECT 1 - (count(*) > 0) FROM pragma_table_info(t.name) p \
             WHERE p.pk > 0 AND instr(k.names, char(31) || lower(p.name) || char(31)) = 0)",
        );
        query
    }

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
