//! The dedup row in SQLite.
//!
//! A file has one writer at a time, so a duplicate waits for the end of the other transaction before it can write its row. It
//! waits in `BEGIN IMMEDIATE` if its transaction begins with that statement, as every transaction that writes should.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor as _, Row as _, Sqlite, SqliteConnection};

use crate::sql::database::records;
use crate::sql::database::rows::{Dedup, RowStatements};
use crate::sql::database::statement::FixedStatement;
use crate::sql::database::statement::Placeholder::{Expected, Key, Micros, New};
use crate::sql::database::time::{micros, sqlite_end};
use crate::store::rows::{Row, RowClaim};

const READ: &str = "SELECT value FROM idempotence WHERE key = ?1";

const REPLACE: &str = concat!(
    "UPDATE idempotence SET value = ?3, expires_at = ",
    sqlite_end!("?4"),
    " WHERE key = ?1 AND value = ?2",
);

const REMOVE: &str = "DELETE FROM idempotence WHERE key = ?1 AND value = ?2";

impl Dedup for Sqlite {
    const ROW_STATEMENTS: &'static RowStatements = &RowStatements {
        replace: FixedStatement::new(REPLACE, &[Key, Expected, New, Micros]),
        remove: FixedStatement::new(REMOVE, &[Key, Expected]),
    };

    /// 1 statement, which waits up to the `busy_timeout` of the connection, by default 5 s. A `wait` costs 2 more statements.
    async fn claim_row(
        connection: &mut SqliteConnection,
        row: Row<'_>,
        wait: Option<Duration>,
    ) -> sqlx::Result<RowClaim> {
        let Some(wait) = wait else {
            return claim(connection, row).await;
        };
        let before = set_busy_timeout(connection, wait.as_millis()).await?;
        let claim = claim(connection, row).await;
        set_busy_timeout(connection, before).await?;
        claim
    }
}

async fn claim(connection: &mut SqliteConnection, row: Row<'_>) -> sqlx::Result<RowClaim> {
    if records::claim::<Sqlite>(connection, row.key, row.value, micros(row.ttl)).await? {
        return Ok(RowClaim::Claimed);
    }
    let found = connection
        .fetch_one(sqlx::query(READ).bind(row.key))
        .await?;
    let value: Vec<u8> = found.try_get(0)?;
    Ok(RowClaim::Taken(value.into()))
}

/// Sets how long a statement waits for another writer, in milliseconds. Returns the previous setting.
async fn set_busy_timeout(connection: &mut SqliteConnection, millis: u128) -> sqlx::Result<u128> {
    let millis = millis.min(MAX_BUSY_TIMEOUT);
    let pragma = format!("PRAGMA busy_timeout; PRAGMA busy_timeout = {millis}");
    let before = connection
        .fetch_all(sqlx::raw_sql(AssertSqlSafe(pragma)))
        .await?;
    let before = before.first().map(|row| row.try_get::<i64, _>(0));
    Ok(before
        .transpose()?
        .unwrap_or_default()
        .try_into()
        .unwrap_or_default())
}

/// The longest `busy_timeout`, in milliseconds.
const MAX_BUSY_TIMEOUT: u128 = i32::MAX as u128;
