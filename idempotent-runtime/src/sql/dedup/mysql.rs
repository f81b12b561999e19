//! The dedup row in MySQL and MariaDB.
//!
//! A failed statement is rolled back alone, so a claim may wait for the row itself. A deadlock ends the whole
//! transaction, though, and what is sent after it is committed one by one: it is never taken for a duplicate.

use std::time::Duration;

use bytes::Bytes;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, Executor as _, MySql, MySqlConnection, Row as _};
use tokio::time::Instant;

use super::Dedup;
use crate::in_tx::{DEFAULT_PATIENCE, Row, RowClaim};
use crate::sql::time::micros;

/// The winner of a race may be younger than the snapshot of the transaction, so this reads what is committed. The row
/// is locked by the INSERT before it.
const READ: &str = "SELECT value FROM idempotence WHERE `key` = ? LOCK IN SHARE MODE";

const REPLACE: &str = "\
    UPDATE idempotence SET value = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
    WHERE `key` = ? AND value = ?";

const REMOVE: &str = "DELETE FROM idempotence WHERE `key` = ? AND value = ?";

/// A duplicate that was answered has the row locked until its transaction ends, and may be read beside all the same.
const BESIDE: &str =
    "SELECT value FROM idempotence WHERE `key` = ? AND expires_at > UTC_TIMESTAMP(6)";

/// Whether somebody has the row open, or only locks what is around it; and what became of the transaction meanwhile.
const LOOK: &str = "SELECT value FROM idempotence WHERE `key` = ? FOR UPDATE NOWAIT";
const ENDS_IT: &str = "SELECT @@innodb_rollback_on_timeout";

impl Dedup for MySql {
    /// 1 round trip, 2 for a duplicate, 4 for one that has waited in vain, and 2 for a call that ran after its wait.
    async fn claim_row(
        connection: &mut MySqlConnection,
        row: Row<'_>,
        patience: Option<Duration>,
    ) -> sqlx::Result<RowClaim> {
        let put = sqlx::query(AssertSqlSafe(claim(patience.unwrap_or(DEFAULT_PATIENCE))))
            .bind(row.key.as_bytes())
            .bind(&row.value[..])
            .bind(micros(row.ttl));
        let began = Instant::now();
        match connection.execute(put).await {
            Ok(put) if put.rows_affected() == 0 => Ok(RowClaim::NoTransaction),
            Ok(put) if put.last_insert_id() == PUT => {
                // The statement's clock stood while it waited.
                if began.elapsed() > LONG && !Self::replace_row(connection, row, row.value).await? {
                    return Ok(RowClaim::NoTransaction);
                }
                Ok(RowClaim::Claimed)
            }
            Ok(_) => read(connection, row).await,
            Err(error) if number(&error) == LOCK_WAIT_TIMEOUT => {
                after_waiting(connection, row, error).await
            }
            Err(error) => Err(error),
        }
    }

    async fn replace_row(
        connection: &mut MySqlConnection,
        row: Row<'_>,
        value: &Bytes,
    ) -> sqlx::Result<bool> {
        let replace = sqlx::query(REPLACE)
            .bind(&value[..])
            .bind(micros(row.ttl))
            .bind(row.key.as_bytes())
            .bind(&row.value[..]);
        Ok(connection.execute(replace).await?.rows_affected() == 1)
    }

    async fn remove_row(connection: &mut MySqlConnection, row: Row<'_>) -> sqlx::Result<()> {
        let remove = sqlx::query(REMOVE)
            .bind(row.key.as_bytes())
            .bind(&row.value[..]);
        connection.execute(remove).await.map(drop)
    }
}

/// The statement that puts the row, and answers in the place of an id whether it is [`PUT`]. MariaDB tells whether the
/// transaction goes on; where it does not, no row is touched.
///
/// The bound of the wait is MariaDB's first and Percona's second; MySQL takes both for comments, and waits for as long
/// as the session's `innodb_lock_wait_timeout` says. The assignments run from left to right.
fn claim(patience: Duration) -> String {
    let more = u64::from(patience.subsec_nanos() > 0);
    let whole = patience.as_secs().saturating_add(more);
    let seconds = whole.clamp(1, LONGEST);
    format!(
        "/*M! SET STATEMENT innodb_lock_wait_timeout = {seconds} FOR */ \
         INSERT /*+ SET_VAR(innodb_lock_wait_timeout = {seconds}) */ INTO idempotence (`key`, value, expires_at) \
         SELECT ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? * LAST_INSERT_ID(1) MICROSECOND \
         FROM DUAL /*M! WHERE @@in_transaction */ \
         ON DUPLICATE KEY UPDATE \
             value = IF(LAST_INSERT_ID(IF(expires_at > UTC_TIMESTAMP(6), 2, 1)) = 1, VALUES(value), value), \
             expires_at = IF(expires_at > UTC_TIMESTAMP(6), expires_at, VALUES(expires_at))"
    )
}

async fn read(connection: &mut MySqlConnection, row: Row<'_>) -> sqlx::Result<RowClaim> {
    let found = connection
        .fetch_one(sqlx::query(READ).bind(row.key.as_bytes()))
        .await?;
    let value = Bytes::from(found.try_get::<Vec<u8>, _>(0)?);
    // Its own, where a proxy does not pass on that it was put.
    Ok(if value == row.value {
        RowClaim::Claimed
    } else {
        RowClaim::Taken(value)
    })
}

/// What the end of a wait means: the row is open elsewhere, or this is only in the way of rows beside it.
async fn after_waiting(
    connection: &mut MySqlConnection,
    row: Row<'_>,
    error: sqlx::Error,
) -> sqlx::Result<RowClaim> {
    let ended: bool = connection.fetch_one(ENDS_IT).await?.try_get(0)?;
    if ended {
        return Err(error);
    }
    let beside = sqlx::query(BESIDE).bind(row.key.as_bytes());
    if let Some(found) = connection.fetch_optional(beside).await? {
        return Ok(RowClaim::Taken(found.try_get::<Vec<u8>, _>(0)?.into()));
    }
    match connection
        .fetch_one(sqlx::query(LOOK).bind(row.key.as_bytes()))
        .await
    {
        Err(look) if [LOCK_WAIT_TIMEOUT, LOCK_NOWAIT].contains(&number(&look)) => {
            Ok(RowClaim::StillOpen)
        }
        // It is not there, or not open any more.
        _ => Err(error),
    }
}

fn number(error: &sqlx::Error) -> u16 {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.map_or(0, MySqlDatabaseError::number)
}

/// The answer of [`claim`] that the row is put. Any other one is looked into.
const PUT: u64 = 1;
/// A statement that took longer than this has waited.
const LONG: Duration = Duration::from_millis(500);
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const LOCK_NOWAIT: u16 = 3572;
/// The longest `innodb_lock_wait_timeout`, in seconds.
const LONGEST: u64 = 1_073_741_824;
