//! The dedup row in MySQL and MariaDB.
//!
//! A failed statement is rolled back alone, so a claim may wait for the row itself. A deadlock ends the whole
//! transaction, though, and what is sent after it is committed one by one: it is never taken for a duplicate.
//!
//! An answer is only ever read with a lock. So it is committed, also under READ UNCOMMITTED, where a plain SELECT reads what
//! may be rolled back; and it is younger than the snapshot of the transaction, if need be. (Under SERIALIZABLE a plain SELECT
//! locks as well, and waits as long as it likes.) No server tells a transaction its own isolation, so all are treated alike.
//!
//! The lock is a shared one, from the INSERT that found the row on: duplicates do not wait for each other's transactions.

use std::time::Duration;

use bytes::Bytes;
use sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sqlx::{AssertSqlSafe, Executor as _, MySql, MySqlConnection, Row as _};
use tokio::time::Instant;

use crate::sql::database::rows::Dedup;
use crate::sql::database::time::micros;
use crate::store::rows::{DEFAULT_PATIENCE, Row, RowClaim};

/// MariaDB tells whether the transaction goes on; where it does not, no row is put.
const INSERT: &str = "\
    INTO idempotence (`key`, value, expires_at) \
    SELECT ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND FROM DUAL /*M! WHERE @@in_transaction */";

/// The row that was in the way. The failed INSERT has left a lock on it.
const READ: &str = "\
    SELECT value, expires_at > UTC_TIMESTAMP(6) FROM idempotence WHERE `key` = ? LOCK IN SHARE MODE";

/// An expired row becomes this call's, unless the transaction is over.
const REPLACE_EXPIRED: &str = "\
    idempotence SET value = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
    WHERE `key` = ? AND expires_at <= UTC_TIMESTAMP(6)";

/// Whether somebody has the row open, or only locks what is around it. MariaDB and MySQL each take the other's words for
/// comments.
const LOOK: &str = "\
    SELECT value, expires_at > UTC_TIMESTAMP(6) FROM idempotence WHERE `key` = ? \
    /*M! LOCK IN SHARE MODE NOWAIT */ /*!50701 FOR SHARE NOWAIT */";

/// What became of the transaction when a wait was in vain.
const ROLLBACK_ON_TIMEOUT: &str = "SELECT @@innodb_rollback_on_timeout";

const REPLACE: &str = "\
    UPDATE idempotence SET value = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
    WHERE `key` = ? AND value = ?";

const REMOVE: &str = "DELETE FROM idempotence WHERE `key` = ? AND value = ?";

impl Dedup for MySql {
    /// 1 round trip, 2 for a duplicate, 3 for one that has waited in vain and for a call that takes over an expired row, and 2
    /// for a call that ran after its wait.
    async fn claim_row(
        connection: &mut MySqlConnection,
        row: Row<'_>,
        patience: Option<Duration>,
    ) -> sqlx::Result<RowClaim> {
        let patience = patience.unwrap_or(DEFAULT_PATIENCE);
        let began = Instant::now();
        let put = sqlx::query(AssertSqlSafe(with_lock_wait_timeout(
            "INSERT", INSERT, patience,
        )))
        .bind(row.key.as_bytes())
        .bind(&row.value[..])
        .bind(micros(row.ttl));
        let claim = match connection.execute(put).await {
            Ok(put) if put.rows_affected() == 0 => Ok(RowClaim::NoTransaction),
            Ok(_) => {
                // The statement's clock stood while it waited.
                if began.elapsed() > MAX_CLOCK_LAG
                    && !Self::replace_row(connection, row, row.value).await?
                {
                    return Ok(RowClaim::NoTransaction);
                }
                Ok(RowClaim::Claimed)
            }
            Err(error) if error_number(&error) == DUPLICATE_KEY => {
                let left = patience.saturating_sub(began.elapsed());
                resolve_duplicate(connection, row, left).await
            }
            Err(error) => Err(error),
        };
        match claim {
            Err(error) if error_number(&error) == LOCK_WAIT_TIMEOUT => {
                resolve_timeout(connection, row, error).await
            }
            claim => claim,
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

/// A statement that waits for locks for so long, in whole seconds.
///
/// The bound is MariaDB's first and Percona's second; MySQL takes both for comments, and waits for as long as the
/// session's `innodb_lock_wait_timeout` says.
fn with_lock_wait_timeout(verb: &str, rest: &str, patience: Duration) -> String {
    let more = u64::from(patience.subsec_nanos() > 0);
    let whole = patience.as_secs().saturating_add(more);
    let seconds = whole.clamp(1, MAX_LOCK_WAIT_TIMEOUT);
    format!(
        "/*M! SET STATEMENT innodb_lock_wait_timeout = {seconds} FOR */ \
         {verb} /*+ SET_VAR(innodb_lock_wait_timeout = {seconds}) */ {rest}"
    )
}

/// What there is under the key is the answer, unless it has expired.
async fn resolve_duplicate(
    connection: &mut MySqlConnection,
    row: Row<'_>,
    patience: Duration,
) -> sqlx::Result<RowClaim> {
    let read = sqlx::query(READ).bind(row.key.as_bytes());
    let found = connection.fetch_one(read).await?;
    if let Some(value) = live_value(&found)? {
        return Ok(RowClaim::Taken(value));
    }
    let take_over = sqlx::query(AssertSqlSafe(with_lock_wait_timeout(
        "UPDATE",
        REPLACE_EXPIRED,
        patience,
    )))
    .bind(&row.value[..])
    .bind(micros(row.ttl))
    .bind(row.key.as_bytes());
    Ok(match connection.execute(take_over).await?.rows_affected() {
        0 => RowClaim::NoTransaction,
        _ => RowClaim::Claimed,
    })
}

/// What the end of a wait means: the row is open elsewhere, or this is only in the way of rows beside it.
async fn resolve_timeout(
    connection: &mut MySqlConnection,
    row: Row<'_>,
    error: sqlx::Error,
) -> sqlx::Result<RowClaim> {
    let ended: bool = connection
        .fetch_one(ROLLBACK_ON_TIMEOUT)
        .await?
        .try_get(0)?;
    if ended {
        return Err(error);
    }
    let look = sqlx::query(LOOK).bind(row.key.as_bytes());
    match connection.fetch_optional(look).await {
        Err(look) if [LOCK_WAIT_TIMEOUT, LOCK_NOWAIT].contains(&error_number(&look)) => {
            Ok(RowClaim::StillOpen)
        }
        // It is committed by now.
        Ok(Some(found)) => match live_value(&found)? {
            Some(value) => Ok(RowClaim::Taken(value)),
            None => Err(error),
        },
        // It is not there.
        _ => Err(error),
    }
}

/// What a row says that has not expired.
fn live_value(found: &MySqlRow) -> sqlx::Result<Option<Bytes>> {
    let lives: bool = found.try_get(1)?;
    let value: Vec<u8> = found.try_get(0)?;
    Ok(lives.then(|| value.into()))
}

fn error_number(error: &sqlx::Error) -> u16 {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.map_or(0, MySqlDatabaseError::number)
}

/// A statement that took longer than this has waited.
const MAX_CLOCK_LAG: Duration = Duration::from_millis(500);
const DUPLICATE_KEY: u16 = 1062;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const LOCK_NOWAIT: u16 = 3572;
/// The longest `innodb_lock_wait_timeout`, in seconds.
const MAX_LOCK_WAIT_TIMEOUT: u64 = 1_073_741_824;
