//! The tables of SQLite.

use sqlx::{Sqlite, SqliteConnection};

use crate::database::schema::{Schema, version};

impl Schema for Sqlite {
    const SCHEMA: &'static str = include_str!("schema.sql");

    fn migration() -> String {
        format!("BEGIN IMMEDIATE; {} COMMIT", Self::SCHEMA)
    }

    version!(SqliteConnection);
}
