//! The dedup row in SQLite.
//!
//! A file has one writer at a time, so a duplicate waits for the end of the other transaction before it can write its row. It
//! waits in `BEGIN IMMEDIATE` if its transaction begins with that statement, as every transaction that writes should.

use std::time::Duration;

use idempotent_driver::port::Fields;
use idempotent_driver::sql::driver::ColumnType::{Bytes, Integer};
use idempotent_driver::sql::driver::{Driver, DriverError, Value};

use crate::sql::time::{micros, sqlite_end, sqlite_now};
use crate::store::rows::{Row, RowClaim};

/// Inserts the row, or replaces an expired row: ?1 key, ?2 value, ?3 microseconds. The store claims its keys by the same statement.
pub const CLAIM: &str = concat!(
    "INSERT INTO idempotence (key, value, expires_at) VALUES (?1, ?2, ",
    sqlite_end!("?3"),
    ") ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
     WHERE idempotence.expires_at <= ",
    sqlite_now!()
);

const READ: &str = "SELECT value FROM idempotence WHERE key = ?1";

/// Replaces the value of the row, and sets its time to live.
pub(super) const REPLACE: &str = concat!(
    "UPDATE idempotence SET value = ?3, expires_at = ",
    sqlite_end!("?4"),
    " WHERE key = ?1 AND value = ?2",
);

/// Removes the row.
pub(super) const REMOVE: &str = "DELETE FROM idempotence WHERE key = ?1 AND value = ?2";

/// 1 statement, which waits up to the `busy_timeout` of the connection, by default 5 s. A `wait` costs 3 more statements.
pub(super) async fn claim<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    wait: Option<Duration>,
) -> Result<RowClaim, DriverError> {
    let Some(wait) = wait else {
        return insert_or_read(connection, row).await;
    };
    let before = connection.first_row("PRAGMA busy_timeout", &[], &[Integer]);
    let before = Fields::of(before.await?)?.integer()?;
    let wait = wait.as_millis().min(MAX_BUSY_TIMEOUT);
    let set = format!("PRAGMA busy_timeout = {wait}");
    connection.execute_all(&set).await?;
    let claim = insert_or_read(connection, row).await;
    let restore = format!("PRAGMA busy_timeout = {before}");
    connection.execute_all(&restore).await?;
    claim
}

async fn insert_or_read<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
) -> Result<RowClaim, DriverError> {
    let values = [
        Value::Text(row.key),
        Value::Bytes(row.value),
        Value::Integer(micros(row.ttl)),
    ];
    if connection.execute(CLAIM, &values).await? == 1 {
        return Ok(RowClaim::Claimed);
    }
    let values = [Value::Text(row.key)];
    let found = connection.first_row(READ, &values, &[Bytes]).await?;
    let value = Fields::of(found)?.bytes()?;
    Ok(RowClaim::Taken(value.unwrap_or_default().into()))
}

/// The longest `busy_timeout`, in milliseconds.
const MAX_BUSY_TIMEOUT: u128 = i32::MAX as u128;
