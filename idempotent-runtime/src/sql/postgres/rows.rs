//! The dedup row in PostgreSQL.
//!
//! A failed statement or a lock timeout breaks a transaction of PostgreSQL. So a claim does not wait: it tries the advisory
//! lock of the key, which a transaction with an uncommitted row already holds. Only a call that must wait, or that has an old
//! snapshot, uses a savepoint.

use std::time::Duration;

use bytes::Bytes;
use sqlx::error::DatabaseError;
use sqlx::{Executor as _, PgConnection, Postgres, Row as _};

use crate::sql::database::rows::{Dedup, RowStatements};
use crate::sql::database::run::Run as _;
use crate::sql::database::statement::FixedStatement;
use crate::sql::database::statement::Placeholder::{Expected, Key, Micros, New};
use crate::sql::database::time::micros;
use crate::store::rows::{DEFAULT_ROW_WAIT, Row, RowClaim};

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
     current_setting('statement_timeout'), live.key IS NULL AND ",
    lock!(),
    " FROM (VALUES (1)) AS one LEFT JOIN idempotence AS live \
     ON live.key = $1 AND live.expires_at > statement_timestamp()"
);

const REPLACE: &str = "\
    UPDATE idempotence SET value = $3, expires_at = statement_timestamp() + $4 * interval '1 microsecond' \
    WHERE key = $1 AND value = $2";

const REMOVE: &str = "DELETE FROM idempotence WHERE key = $1 AND value = $2";

impl Dedup for Postgres {
    const ROW_STATEMENTS: &'static RowStatements = &RowStatements {
        replace: FixedStatement::new(REPLACE, &[Key, Expected, New, Micros]),
        remove: FixedStatement::new(REMOVE, &[Key, Expected]),
    };

    /// 1 round trip, 2 for a duplicate, 6 for a duplicate that waits, 3 for a claim that replaces an expired row, and 5 for a
    /// claim in a transaction that is REPEATABLE READ or SERIALIZABLE.
    async fn claim_row(
        connection: &mut PgConnection,
        row: Row<'_>,
        wait: Option<Duration>,
    ) -> sqlx::Result<RowClaim> {
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
        let wait = wait.unwrap_or(DEFAULT_ROW_WAIT);
        let wait = wait.as_millis().clamp(1, MAX_LOCK_TIMEOUT);
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
        let ended = Self::execute_all(connection, end).await;
        let claim = claim?;
        ended.map(|()| claim)
    }
}

/// Inserts the row by one of the two statements. Returns whether it did.
async fn insert(
    connection: &mut PgConnection,
    claim: &'static str,
    row: Row<'_>,
) -> sqlx::Result<bool> {
    let claim = sqlx::query(claim)
        .bind(row.key)
        .bind(&row.value[..])
        .bind(micros(row.ttl));
    Ok(connection.execute(claim).await?.rows_affected() == 1)
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

async fn observe(connection: &mut PgConnection, row: Row<'_>) -> sqlx::Result<Observed> {
    let seen = sqlx::query(OBSERVE).bind(row.key);
    let seen = connection.fetch_one(seen).await?;
    let value: Option<Vec<u8>> = seen.try_get(0)?;
    Ok(Observed {
        value: value.map(Bytes::from),
        lock: seen.try_get(1)?,
        lock_timeout: seen.try_get(2)?,
        statement_timeout: seen.try_get(3)?,
        is_locked: seen.try_get(4)?,
    })
}

/// Waits for the advisory lock, then claims again.
async fn claim_behind_savepoint(
    connection: &mut PgConnection,
    row: Row<'_>,
    wait_for_lock: String,
) -> sqlx::Result<RowClaim> {
    match Postgres::execute_all(connection, wait_for_lock).await {
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

fn is_lock_timeout(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.as_deref() == Some("55P03")
}

/// The longest `lock_timeout`, in milliseconds.
const MAX_LOCK_TIMEOUT: u128 = i32::MAX as u128;
