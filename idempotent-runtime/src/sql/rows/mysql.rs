//! The dedup row in MySQL and MariaDB.
//!
//! After a failure only the failed statement is rolled back, so a claim may wait for the row itself. But a deadlock ends the
//! whole transaction, and later statements commit one by one: a deadlock is never treated as a duplicate.
//!
//! A row is only read with a lock. So the row is committed, even under READ UNCOMMITTED, where a plain SELECT may read rows
//! that are rolled back later. It may be newer than the snapshot of the transaction. (Under SERIALIZABLE a plain SELECT also
//! locks, and waits without a limit.) A transaction cannot ask for its isolation level, so all levels are treated alike.
//!
//! The lock on the existing row is shared, beginning with the INSERT that found it: duplicates do not wait for each other's
//! transactions.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use idempotent_driver::port::{Code, Fields};
use idempotent_driver::sql::driver::ColumnType::{Bytes as BytesColumn, Integer};
use idempotent_driver::sql::driver::{ColumnType, Driver, DriverError, Field, Value};
use tokio::time::Instant;

use crate::sql::time::micros;
use crate::store::rows::{DEFAULT_ROW_WAIT, Row, RowClaim, row_wait};

/// On MariaDB this fails if the transaction has ended, because the expiry is then NULL, which the column refuses in every
/// `sql_mode`. An `INSERT … SELECT … WHERE @@in_transaction` would cost the server a twentieth more of a whole transaction.
const INSERT: &str = "\
    INTO idempotence (`key`, value, expires_at) VALUES (?, ?, \
    /*M! IF(@@in_transaction, */ UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND /*M! , NULL) */)";

/// [`INSERT`] with the default wait. It is the statement of almost every call, so it is not written anew for each.
static INSERT_WITH_DEFAULT_WAIT: LazyLock<String> =
    LazyLock::new(|| with_lock_wait_timeout("INSERT", INSERT, DEFAULT_ROW_WAIT));

/// Reads the row that has the key. The failed INSERT still has a lock on it.
const READ: &str = "\
    SELECT value, expires_at > UTC_TIMESTAMP(6) FROM idempotence WHERE `key` = ? LOCK IN SHARE MODE";

/// Replaces an expired row, unless the transaction has ended.
const REPLACE_EXPIRED: &str = "\
    idempotence SET value = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
    WHERE `key` = ? AND expires_at <= UTC_TIMESTAMP(6)";

/// Whether another transaction has written the row, or only locked the gap around it. MariaDB and MySQL each read the syntax of
/// the other as a comment.
const LOOK: &str = "\
    SELECT value, expires_at > UTC_TIMESTAMP(6) FROM idempotence WHERE `key` = ? \
    /*M! LOCK IN SHARE MODE NOWAIT */ /*!50701 FOR SHARE NOWAIT */";

/// Whether a lock timeout has ended the transaction.
const ROLLBACK_ON_TIMEOUT: &str = "SELECT @@innodb_rollback_on_timeout";

const REPLACE: &str = "\
    UPDATE idempotence SET value = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
    WHERE `key` = ? AND value = ?";

const REMOVE: &str = "DELETE FROM idempotence WHERE `key` = ? AND value = ?";

/// Replaces the value of the row, and sets its time to live.
pub(super) fn replace<'a>(row: Row<'a>, value: &'a [u8]) -> (&'static str, [Value<'a>; 4]) {
    let values = [
        Value::Bytes(value),
        Value::Integer(micros(row.ttl)),
        Value::Bytes(row.key.as_bytes()),
        Value::Bytes(row.value),
    ];
    (REPLACE, values)
}

/// Removes the row.
pub(super) fn remove(row: Row<'_>) -> (&'static str, [Value<'_>; 2]) {
    (
        REMOVE,
        [Value::Bytes(row.key.as_bytes()), Value::Bytes(row.value)],
    )
}

/// How long a claim may wait. MySQL does not read `wait`, and a driver does not say whether its server is MariaDB.
pub(super) fn longest_wait(wait: Option<Duration>) -> Duration {
    row_wait(wait).max(INNODB_LOCK_WAIT_TIMEOUT)
}

/// 1 round trip, 2 for a duplicate and for a call that runs after a wait, and 3 for a duplicate whose wait timed out and
/// for a call that replaces an expired row.
pub(super) async fn claim<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    wait: Option<Duration>,
) -> Result<RowClaim, DriverError> {
    let began = Instant::now();
    let values = [
        Value::Bytes(row.key.as_bytes()),
        Value::Bytes(row.value),
        Value::Integer(micros(row.ttl)),
    ];
    let claim = match connection.execute(&insert(wait), &values).await {
        Ok(_) => {
            // The time of the statement did not advance during the wait, so this sets the expiry again.
            if began.elapsed() > MAX_CLOCK_LAG {
                let (statement, values) = replace(row, row.value);
                if connection.execute(statement, &values).await? != 1 {
                    return Ok(RowClaim::NoTransaction);
                }
            }
            Ok(RowClaim::Claimed)
        }
        Err(error) if number(&error) == NOT_NULL => Ok(RowClaim::NoTransaction),
        Err(error) if number(&error) == DUPLICATE_KEY => {
            let remaining = row_wait(wait).saturating_sub(began.elapsed());
            resolve_duplicate(connection, row, remaining).await
        }
        Err(error) => Err(error),
    };
    match claim {
        Err(error) if number(&error) == LOCK_WAIT_TIMEOUT => {
            resolve_timeout(connection, row, error).await
        }
        claim => claim,
    }
}

/// The statement that inserts a row, and waits up to `wait`, or as long as by default.
fn insert(wait: Option<Duration>) -> Cow<'static, str> {
    match wait {
        None => INSERT_WITH_DEFAULT_WAIT.as_str().into(),
        Some(wait) => with_lock_wait_timeout("INSERT", INSERT, wait).into(),
    }
}

/// A statement that waits for locks up to `wait`, rounded up to whole seconds.
///
/// The first syntax is for MariaDB, the second one for Percona. MySQL reads both as comments, and waits up to the
/// `innodb_lock_wait_timeout` of the session.
fn with_lock_wait_timeout(verb: &str, rest: &str, wait: Duration) -> String {
    let more = u64::from(wait.subsec_nanos() > 0);
    let whole = wait.as_secs().saturating_add(more);
    let seconds = whole.clamp(1, MAX_LOCK_WAIT_TIMEOUT);
    format!(
        "/*M! SET STATEMENT innodb_lock_wait_timeout = {seconds} FOR */ \
         {verb} /*+ SET_VAR(innodb_lock_wait_timeout = {seconds}) */ {rest}"
    )
}

/// Returns the row that has the key, or replaces it if it has expired.
async fn resolve_duplicate<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    wait: Duration,
) -> Result<RowClaim, DriverError> {
    let key = Value::Bytes(row.key.as_bytes());
    let found = connection.first_row(READ, &[key], &LIVE_VALUE).await?;
    if let Some(value) = live_value(found)? {
        return Ok(RowClaim::Taken(value));
    }
    let take_over = with_lock_wait_timeout("UPDATE", REPLACE_EXPIRED, wait);
    let values = [
        Value::Bytes(row.value),
        Value::Integer(micros(row.ttl)),
        key,
    ];
    Ok(match connection.execute(&take_over, &values).await? {
        0 => RowClaim::NoTransaction,
        _ => RowClaim::Claimed,
    })
}

/// Finds out why the wait timed out: another transaction has written the row, or only locked the gap around it.
async fn resolve_timeout<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    error: DriverError,
) -> Result<RowClaim, DriverError> {
    let ended = connection.first_row(ROLLBACK_ON_TIMEOUT, &[], &[Integer]);
    if Fields::of(ended.await?)?.integer()? != 0 {
        return Err(error);
    }
    let key = Value::Bytes(row.key.as_bytes());
    match connection.first_row(LOOK, &[key], &LIVE_VALUE).await {
        Err(look) if [LOCK_WAIT_TIMEOUT, LOCK_NOWAIT].contains(&number(&look)) => {
            Ok(RowClaim::StillOpen)
        }
        // The row is committed by now.
        Ok(found @ Some(_)) => match live_value(found)? {
            Some(value) => Ok(RowClaim::Taken(value)),
            None => Err(error),
        },
        // There is no row.
        _ => Err(error),
    }
}

/// The columns of [`READ`] and [`LOOK`].
const LIVE_VALUE: [ColumnType; 2] = [BytesColumn, Integer];

/// The value of the row, unless it has expired.
fn live_value(found: Option<Vec<Field>>) -> Result<Option<Bytes>, DriverError> {
    let mut found = Fields::of(found)?;
    let value = found.bytes()?.unwrap_or_default();
    let lives = found.integer()? != 0;
    Ok(lives.then(|| value.into()))
}

/// The number of an error, or 0.
fn number(error: &DriverError) -> u16 {
    match error.code() {
        Some(Code::MySql(number, _)) => *number,
        _ => 0,
    }
}

/// A statement that took longer than this has waited for a lock.
const MAX_CLOCK_LAG: Duration = Duration::from_millis(500);
/// A column that refuses NULL.
const NOT_NULL: u16 = 1048;
const DUPLICATE_KEY: u16 = 1062;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const LOCK_NOWAIT: u16 = 3572;
/// The `innodb_lock_wait_timeout` of a server with the default settings.
const INNODB_LOCK_WAIT_TIMEOUT: Duration = Duration::from_secs(50);
/// The longest `innodb_lock_wait_timeout`, in seconds.
const MAX_LOCK_WAIT_TIMEOUT: u64 = 1_073_741_824;
