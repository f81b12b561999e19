//! The tables of PostgreSQL.

use sqlx::{PgConnection, Postgres};

use crate::database::schema::{Schema, version};

impl Schema for Postgres {
    const SCHEMA: &'static str = include_str!("schema.sql");

    fn migration() -> String {
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '1min'; \
             SELECT pg_advisory_xact_lock(7596550128246183013); {} COMMIT",
            Self::SCHEMA
        )
    }

    version!(PgConnection);
}
