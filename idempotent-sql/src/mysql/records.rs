//! The statements of the store in MySQL and MariaDB.
//!
//! Each statement is its own transaction, and a change examines the current row under every isolation level. `UTC_TIMESTAMP` is
//! the time when the statement began: after it was sent, and before it waited for a lock.
//!
//! The client counts the rows that a statement found (`CLIENT_FOUND_ROWS`), not the rows that it changed.

use bytes::Bytes;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Executor, MySql, MySqlConnection, QueryBuilder, query, query_as};

use crate::database::records::{ListedRow, Records, Statements};
use crate::database::run::Execute as _;
use crate::database::statement::FixedStatement;
use crate::database::statement::Placeholder::{Expected, KeyBytes, Limit, Micros, New};

/// A claim of a new key. A key that has a row is an error, and this costs a new key less than [`CLAIM_EXPIRED`].
const CLAIM: &str = "
INSERT INTO idempotence (`key`, value, expires_at)
VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)";

/// Assignments run from left to right, and each sees the results of the earlier ones, so the expiry is last.
/// `LAST_INSERT_ID(…)` returns the outcome, because the number of rows is the same whether the record is stored or not.
const CLAIM_EXPIRED: &str = "
INSERT INTO idempotence (`key`, value, expires_at)
VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? * LAST_INSERT_ID(1) MICROSECOND)
ON DUPLICATE KEY UPDATE
    value = IF(LAST_INSERT_ID(IF(expires_at <= UTC_TIMESTAMP(6), 1, 2)) = 1, ?, value),
    expires_at = IF(expires_at <= UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, expires_at)";

/// The answer of [`CLAIM_EXPIRED`] if the record is stored. After any other answer the record is read, because a proxy may drop the
/// last insert id.
const STORED: u64 = 1;

const REPLACE: &str = "
UPDATE idempotence SET value = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE `key` = ? AND value = ? AND expires_at > UTC_TIMESTAMP(6)";

const EXCHANGE: &str = "
UPDATE idempotence SET value = ?
WHERE `key` = ? AND value = ? AND expires_at > UTC_TIMESTAMP(6)";

/// This does not write the value again, because it may be large.
const RENEW: &str = "
UPDATE idempotence SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE `key` = ? AND value = ? AND expires_at > UTC_TIMESTAMP(6)";

const REMOVE: &str = "
DELETE FROM idempotence WHERE `key` = ? AND value = ? AND expires_at > UTC_TIMESTAMP(6)";

const GET: &str = "
SELECT SUBSTRING(value, 1, ?), TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at)
FROM idempotence WHERE `key` = ? AND expires_at > UTC_TIMESTAMP(6)";

/// The purge skips the rows that other calls have locked to claim them. So the purge does not wait, and no call waits for it.
const PURGE: &str = "
DELETE old FROM (
    SELECT `key` FROM idempotence WHERE expires_at <= UTC_TIMESTAMP(6)
    ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED
) AS expired STRAIGHT_JOIN idempotence AS old ON old.`key` = expired.`key`";

const DUPLICATE_KEY: u16 = 1062;
const DEADLOCK: u16 = 1213;

const LIST: &str = "
SELECT `key`, SUBSTRING(value, 1, 512), TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at)
FROM idempotence WHERE `key` >= ? ORDER BY `key` LIMIT ?";

impl Records for MySql {
    const STATEMENTS: &'static Statements = &Statements {
        claim: FixedStatement::new(CLAIM, &[KeyBytes, New, Micros]),
        replace: FixedStatement::new(REPLACE, &[New, Micros, KeyBytes, Expected]),
        exchange: FixedStatement::new(EXCHANGE, &[New, KeyBytes, Expected]),
        renew: FixedStatement::new(RENEW, &[Micros, KeyBytes, Expected]),
        remove: FixedStatement::new(REMOVE, &[KeyBytes, Expected]),
        get: FixedStatement::new(GET, &[Limit, KeyBytes]),
        purge: FixedStatement::new(PURGE, &[Limit]),
    };

    /// If many calls wait for the removal of the row, one of them gets the key, and the others get a deadlock: the key is taken,
    /// or free again.
    fn has_row(error: &sqlx::Error) -> bool {
        [DUPLICATE_KEY, DEADLOCK].contains(&error_number(error))
    }

    async fn claim_expired(
        connection: &mut MySqlConnection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<Option<bool>> {
        let claim = query(CLAIM_EXPIRED).bind(key.as_bytes());
        let claim = claim.bind(value).bind(micros).bind(value).bind(micros);
        Ok(Some(
            connection.execute(claim).await?.last_insert_id() == STORED,
        ))
    }

    /// A key with a row, also an expired one, is an error, which undoes the statement.
    async fn claim_all(
        connection: &mut MySqlConnection,
        claims: &[(&str, &Bytes)],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let mut claim = QueryBuilder::new("INSERT INTO idempotence (`key`, value, expires_at) ");
        claim.push_values(claims, |mut row, (key, value)| {
            row.push_bind(key.as_bytes()).push_bind(&***value);
            row.push("UTC_TIMESTAMP(6) + INTERVAL ");
            row.push_bind_unseparated(micros);
            row.push_unseparated(" MICROSECOND");
        });
        match Self::execute(connection, claim).await {
            Err(error) if Self::has_row(&error) => Ok(false),
            claimed => claimed.map(|_| true),
        }
    }

    async fn list(
        connection: &mut MySqlConnection,
        first: &[u8],
        most: i64,
    ) -> sqlx::Result<Vec<ListedRow>> {
        let list = query_as(LIST).bind(first).bind(most);
        list.fetch_all(connection).await
    }
}

fn error_number(error: &sqlx::Error) -> u16 {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.map_or(0, MySqlDatabaseError::number)
}
