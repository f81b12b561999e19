//! The statements for MySQL and MariaDB.
//!
//! Each is a transaction of its own, and what changes a row looks at the row as it is now, under every isolation
//! level. `UTC_TIMESTAMP` is when the statement began: not before it was sent, and not after a lock was got.
//!
//! The client counts the rows that a statement has found (`CLIENT_FOUND_ROWS`), not those that it changed.

use bytes::Bytes;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::pool::PoolOptions;
use sqlx::{Executor, MySql, MySqlConnection, Row, query, query_as};

use crate::sql::database::records::{Dialect, MANY};
use crate::sql::session::{Session, Way, is_loopback};
use crate::sql::store::connect::CONNECT_DEADLINE;
use crate::sql::url::{Parameter, Takes};
use crate::store::{Finding, Level};

/// Assignments are made from left to right, and each sees those before it, so the expiry is the last.
/// `LAST_INSERT_ID(…)` is how the answer tells what became of it: rows are counted alike whether a record is
/// put or left.
const CLAIM: &str = "
INSERT INTO idempotence (`key`, value, expires_at)
VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? * LAST_INSERT_ID(1) MICROSECOND)
ON DUPLICATE KEY UPDATE
    value = IF(LAST_INSERT_ID(IF(expires_at <= UTC_TIMESTAMP(6), 1, 2)) = 1, ?, value),
    expires_at = IF(expires_at <= UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, expires_at)";

/// The answer of [`CLAIM`] that the record is put. Any other one, also of a proxy between that does not pass it on,
/// is looked into.
const PUT: u64 = 1;

const REPLACE: &str = "
UPDATE idempotence SET value = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE `key` = ? AND value = ? AND expires_at > UTC_TIMESTAMP(6)";

const EXCHANGE: &str = "
UPDATE idempotence SET value = ?
WHERE `key` = ? AND value = ? AND expires_at > UTC_TIMESTAMP(6)";

/// The value, which may be large, is not written again.
const RENEW: &str = "
UPDATE idempotence SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE `key` = ? AND value = ? AND expires_at > UTC_TIMESTAMP(6)";

const REMOVE: &str = "
DELETE FROM idempotence WHERE `key` = ? AND value = ? AND expires_at > UTC_TIMESTAMP(6)";

const GET: &str = "
SELECT SUBSTRING(value, 1, ?), TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at)
FROM idempotence WHERE `key` = ? AND expires_at > UTC_TIMESTAMP(6)";

/// Rows that somebody is about to claim anew are locked, and passed over: nothing waits here, and so nobody for this.
const PURGE: &str = "
DELETE old FROM (
    SELECT `key` FROM idempotence WHERE expires_at <= UTC_TIMESTAMP(6)
    ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED
) AS expired STRAIGHT_JOIN idempotence AS old ON old.`key` = expired.`key`";

impl Dialect for MySql {
    const SCHEMES: &'static [&'static str] = &["mysql", "mariadb"];

    const PARAMETERS: &'static [Parameter] = &[
        ("ssl-mode", SSL_MODE),
        ("sslmode", SSL_MODE),
        ("ssl-ca", Takes::Text),
        ("sslca", Takes::Text),
        ("ssl-cert", Takes::Text),
        ("sslcert", Takes::Text),
        ("ssl-key", Takes::Text),
        ("sslkey", Takes::Text),
        ("charset", Takes::Text),
        ("collation", Takes::Text),
        ("statement-cache-capacity", Takes::Number(u32::MAX as u64)),
        ("socket", Takes::Text),
        ("timezone", Takes::Text),
        ("time-zone", Takes::Text),
    ];

    async fn claim(
        connection: &mut MySqlConnection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let claim = query(CLAIM).bind(key.as_bytes()).bind(value).bind(micros);
        let claim = claim.bind(value).bind(micros);
        Ok(connection.execute(claim).await?.last_insert_id() == PUT)
    }

    async fn replace(
        connection: &mut MySqlConnection,
        key: &str,
        expected: &[u8],
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let replace = query(REPLACE).bind(value).bind(micros);
        let replace = replace.bind(key.as_bytes()).bind(expected);
        Ok(connection.execute(replace).await?.rows_affected() == 1)
    }

    async fn exchange(
        connection: &mut MySqlConnection,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> sqlx::Result<bool> {
        let exchange = query(EXCHANGE).bind(value).bind(key.as_bytes());
        let exchange = exchange.bind(expected);
        Ok(connection.execute(exchange).await?.rows_affected() == 1)
    }

    async fn renew(
        connection: &mut MySqlConnection,
        key: &str,
        expected: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let renew = query(RENEW).bind(micros).bind(key.as_bytes());
        let renew = renew.bind(expected);
        Ok(connection.execute(renew).await?.rows_affected() == 1)
    }

    async fn remove(
        connection: &mut MySqlConnection,
        key: &str,
        expected: &[u8],
    ) -> sqlx::Result<bool> {
        let remove = query(REMOVE).bind(key.as_bytes()).bind(expected);
        Ok(connection.execute(remove).await?.rows_affected() == 1)
    }

    async fn get(
        connection: &mut MySqlConnection,
        key: &str,
        most: i32,
    ) -> sqlx::Result<Option<(Bytes, i64)>> {
        let get = query(GET).bind(most).bind(key.as_bytes());
        let row = connection.fetch_optional(get).await?;
        row.map(|row| Ok((row.try_get::<Vec<u8>, _>(0)?.into(), row.try_get(1)?)))
            .transpose()
    }

    async fn purge(connection: &mut MySqlConnection, most: u32) -> sqlx::Result<u64> {
        let purge = query(PURGE).bind(most);
        Ok(connection.execute(purge).await?.rows_affected())
    }

    fn options(url: &str) -> sqlx::Result<(MySqlConnectOptions, PoolOptions<Self>)> {
        let pool = PoolOptions::new()
            .max_connections(10)
            .acquire_timeout(CONNECT_DEADLINE)
            .test_before_acquire(false)
            .after_connect(|connection: &mut MySqlConnection, _| {
                Box::pin(async move {
                    // What was given up does not wait on in the server for long; and a server may be set up so that
                    // nothing is committed by itself.
                    let set = "SET SESSION autocommit = 1, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1";
                    connection.execute(set).await?;
                    Ok(())
                })
            });
        Ok((url.parse()?, pool))
    }

    fn way(options: &MySqlConnectOptions) -> Option<Way<'_>> {
        let is_verified = matches!(
            options.get_ssl_mode(),
            MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
        );
        Some(Way {
            user: options.get_username(),
            is_local: options.get_socket().is_some() || is_loopback(options.get_host()),
            is_verified,
            verified: "ssl-mode=VERIFY_IDENTITY",
        })
    }

    async fn session(connection: &mut MySqlConnection) -> sqlx::Result<Session> {
        let cipher = connection.fetch_optional(query(CIPHER)).await?;
        let cipher: Option<String> = cipher.map(|row| row.try_get(1)).transpose()?;
        let client: String = connection.fetch_one(query(CLIENT)).await?.try_get(0)?;
        Ok(Session {
            is_encrypted: cipher.map(|cipher| !cipher.is_empty()),
            is_local: is_loopback(&client),
        })
    }

    async fn backlog_and_clock(connection: &mut MySqlConnection) -> sqlx::Result<(i64, i64)> {
        query_as(BACKLOG_AND_CLOCK)
            .bind(MANY)
            .fetch_one(connection)
            .await
    }

    async fn examine(connection: &mut MySqlConnection) -> sqlx::Result<Vec<Finding>> {
        let row = connection.fetch_one(query(EXAMINE)).await?;
        let mut findings = Vec::new();
        let mut tell = |when: bool, level, found: &str, advice: &str| {
            if when {
                findings.push(Finding::new(level, found).advise(advice));
            }
        };
        // Nothing, where the user may not know.
        let engine: Option<String> = row.try_get("engine")?;
        tell(
            engine.is_some_and(|engine| !engine.eq_ignore_ascii_case("innodb")),
            Level::Problem,
            "the engine of the table is not InnoDB, so a crash may forget or damage records",
            "`ALTER TABLE idempotence ENGINE = InnoDB`",
        );
        let key: Option<String> = row.try_get("key_type")?;
        tell(
            key.is_some_and(|key| !key.eq_ignore_ascii_case("varbinary")),
            Level::Problem,
            "keys are text to the database, so different ones may be equal to it",
            "``ALTER TABLE idempotence MODIFY `key` VARBINARY(512) NOT NULL``",
        );
        tell(
            row.try_get::<i64, _>("read_only")? == 1,
            Level::Problem,
            "this server is read-only for users without special rights",
            "connect to the primary",
        );
        tell(
            row.try_get::<i64, _>("autocommit")? == 0,
            Level::Problem,
            "sessions do not commit by themselves, so records last as long as a connection",
            "set `autocommit` to 1 for the sessions of the pool",
        );
        tell(
            row.try_get::<i64, _>("flushed")? != 1,
            Level::Warning,
            "innodb_flush_log_at_trx_commit is not 1, so a crash may forget the latest records",
            "set it to 1",
        );
        tell(
            row.try_get::<i64, _>("patience")? > 5,
            Level::Note,
            "innodb_lock_wait_timeout is long: while a row is locked, operations that were given up wait on",
            "set it to a second or so for the sessions of the pool",
        );
        Ok(findings)
    }
}

const SSL_MODE: Takes = Takes::AnyCase(&[
    "disabled",
    "preferred",
    "required",
    "verify_ca",
    "verify_identity",
]);

const CIPHER: &str = "SHOW SESSION STATUS LIKE 'Ssl_cipher'";

/// Where the server finds the client. It does not tell its own address.
const CLIENT: &str = "SELECT CAST(SUBSTRING_INDEX(USER(), '@', -1) AS CHAR)";

const BACKLOG_AND_CLOCK: &str = "
SELECT (SELECT COUNT(*) FROM (
    SELECT 1 FROM idempotence WHERE expires_at <= UTC_TIMESTAMP(6) LIMIT ?
) AS expired), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

const EXAMINE: &str = "
SELECT CAST((SELECT engine FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name = 'idempotence') AS CHAR) AS engine,
CAST((SELECT data_type FROM information_schema.columns WHERE table_schema = DATABASE()
    AND table_name = 'idempotence' AND column_name = 'key') AS CHAR) AS key_type,
CAST(@@read_only AS SIGNED) AS read_only, CAST(@@autocommit AS SIGNED) AS autocommit,
CAST(@@innodb_flush_log_at_trx_commit AS SIGNED) AS flushed,
CAST(@@innodb_lock_wait_timeout AS SIGNED) AS patience";
