//! The tables of MySQL and MariaDB.

use sqlx::{MySql, MySqlConnection};

use crate::database::schema::{Schema, version};

impl Schema for MySql {
    const SCHEMA: &'static str = include_str!("schema.sql");

    fn migration() -> String {
        format!(
            "DO GET_LOCK(LEFT(CONCAT('idempotence:', DATABASE()), 64), 60); {} \
             DO RELEASE_LOCK(LEFT(CONCAT('idempotence:', DATABASE()), 64))",
            Self::SCHEMA
        )
    }

    version!(MySqlConnection);
}
