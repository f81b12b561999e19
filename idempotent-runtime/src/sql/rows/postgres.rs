//! The dedup row in PostgreSQL.
//!
//! A failed statement or a lock timeout breaks a transaction of PostgreSQL. So a claim does not wait: it tries the advisory
//! lock of the key, which a transaction with an uncommitted row already holds. Only a call that must wait, or that has an old
//! snapshot, uses a savepoint.

use std::time::Duration;

use bytes::Bytes;
use idempotent_driver::port::{Code, Fields};
use idempotent_driver::sql::driver::ColumnType::{Bytes as BytesColumn, Integer, Text};
use idempotent_driver::sql::driver::{Driver, DriverError, Value};

use crate::sql::time::micros;
use crate::store::rows::{Row, RowClaim, row_wait};

/// Whether the transaction is READ COMMITTED and gets the advisory lock of the key $1, or has it already.
macro_rules! lock {
    () => {
        "CASE WHEN current_setting('transaction_isolation') LIKE 'read %' \
         THEN pg_try_advisory_xact_lock(hashtextextended($1, 0)) ELSE false END"
    };
}

/// $1 key, $2 value, $3 microseconds.
///
/// Only a call that gets the advisory lock of the key inserts the row, and only under READ COMMITTED: there, and only there, the
/// INSERT cannot fail because of a row outside its snapshot. It does not look for a stored row first, and does not replace an
/// expired row, because either would make each new call slower. A duplicate locks and writes no row.
const CLAIM: &str = concat!(
    "INSERT INTO idempotence (key, value, expires_at) \
     SELECT $1, $2, statement_timestamp() + $3 * interval '1 microsecond' WHERE ",
    lock!(),
    " ON CONFLICT (key) DO NOTHING"
);

/// As [`CLAIM`], for a transaction that holds the advisory lock. Replaces an expired row, too.
///
/// Under REPEATABLE READ the statement must not meet the row of a finished call, so it looks for that row first.
const CLAIM_LOCKED: &str = "\
    INSERT INTO idempotence (key, value, expires_at) \
    SELECT $1, $2, statement_timestamp() + $3 * interval '1 microsecond' \
    WHERE NOT EXISTS (SELECT FROM idempotence WHERE key = $1 AND expires_at > statement_timestamp()) \
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
    WHERE idempotence.expires_at <= statement_timestamp()";

/// The live row, and the settings of the transaction. Without a live row, tries the advisory lock again.
const OBSERVE: &str = concat!(
    "SELECT live.value, hashtextextended($1, 0), current_setting('lock_timeout'), \
     current_setting('statement_timeout'), CASE WHEN live.key IS NULL AND ",
    lock!(),
    " THEN 1::bigint ELSE 0 END FROM (VALUES (1)) AS one LEFT JOIN idempotence AS live \
     ON live.key = $1 AND live.expires_at > statement_timestamp()"
);

/// Replaces the value of the row, and sets its time to live.
pub(super) const REPLACE: &str = "\
    UPDATE idempotence SET value = $3, expires_at = statement_timestamp() + $4 * interval '1 microsecond' \
    WHERE key = $1 AND value = $2";

/// Removes the row.
pub(super) const REMOVE: &str = "DELETE FROM idempotence WHERE key = $1 AND value = $2";

/// 1 round trip, 2 for a duplicate, 6 for a duplicate that waits, 3 for a claim that replaces an expired row, and 5 for a
/// claim in a transaction that is REPEATABLE READ or SERIALIZABLE.
pub(super) async fn claim<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    wait: Option<Duration>,
) -> Result<RowClaim, DriverError> {
    if insert(connection, CLAIM, row).await? {
        return Ok(RowClaim::Claimed);
    }
    let Observed {
        value,
        lock,
        lock_timeout,
        statement_timeout,
        is_locked,
    } = observe(connection, row).await?;
    if let Some(value) = value {
        return Ok(RowClaim::Taken(value));
    }
    if is_locked && insert(connection, CLAIM_LOCKED, row).await? {
        return Ok(RowClaim::Claimed);
    }
    let wait = row_wait(wait).as_millis().clamp(1, MAX_LOCK_TIMEOUT);
    let wait_for_lock = format!(
        "SAVEPOINT idempotence; SET LOCAL lock_timeout = {wait}; \
         SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({lock})"
    );
    let claim = claim_behind_savepoint(connection, row, wait_for_lock).await;
    // If there is no row, the rollback releases the advisory lock, because other calls wait for it.
    let end = match &claim {
        Ok(RowClaim::Claimed) => {
            format!(
                "RELEASE SAVEPOINT idempotence; SET LOCAL lock_timeout = '{lock_timeout}'; \
                 SET LOCAL statement_timeout = '{statement_timeout}'"
            )
        }
        _ => "ROLLBACK TO SAVEPOINT idempotence; RELEASE SAVEPOINT idempotence".to_owned(),
    };
    let ended = connection.execute_all(&end).await;
    let claim = claim?;
    ended.map(|()| claim)
}

/// Inserts the row by one of the two statements. Returns whether it did.
async fn insert<C: Driver>(
    connection: &mut C,
    claim: &'static str,
    row: Row<'_>,
) -> Result<bool, DriverError> {
    let values = [
        Value::Text(row.key),
        Value::Bytes(row.value),
        Value::Integer(micros(row.ttl)),
    ];
    Ok(connection.execute(claim, &values).await? == 1)
}

/// What a call reads if it could not insert its row.
struct Observed {
    value: Option<Bytes>,
    /// The advisory lock of the key.
    lock: i64,
    /// The setting of the caller's transaction. It is restored afterwards.
    lock_timeout: String,
    statement_timeout: String,
    /// Whether the transaction holds the advisory lock and is READ COMMITTED, if there is no value.
    is_locked: bool,
}

async fn observe<C: Driver>(connection: &mut C, row: Row<'_>) -> Result<Observed, DriverError> {
    let columns = [BytesColumn, Integer, Text, Text, Integer];
    let values = [Value::Text(row.key)];
    let seen = connection.first_row(OBSERVE, &values, &columns).await?;
    let mut seen = Fields::of(seen)?;
    Ok(Observed {
        value: seen.bytes()?.map(Bytes::from),
        lock: seen.integer()?,
        lock_timeout: seen.text()?,
        statement_timeout: seen.text()?,
        is_locked: seen.integer()? == 1,
    })
}

/// Waits for the advisory lock, then claims again.
async fn claim_behind_savepoint<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    wait_for_lock: String,
) -> Result<RowClaim, DriverError> {
    match connection.execute_all(&wait_for_lock).await {
        // Only an equal call can hold the advisory lock. The statements below may wait for any other lock.
        Err(error) if is_lock_timeout(&error) => return Ok(RowClaim::StillOpen),
        waited => waited?,
    }
    if insert(connection, CLAIM_LOCKED, row).await? {
        return Ok(RowClaim::Claimed);
    }
    let seen = observe(connection, row).await?;
    Ok(seen.value.map_or(RowClaim::StillOpen, RowClaim::Taken))
}

fn is_lock_timeout(error: &DriverError) -> bool {
    matches!(error.code(), Some(Code::State(state)) if state == "55P03")
}

/// The longest `lock_timeout`, in milliseconds.
const MAX_LOCK_TIMEOUT: u128 = i32::MAX as u128;
