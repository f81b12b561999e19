//! The statements for PostgreSQL.
//!
//! Each is a transaction of its own, right under every isolation level. Under READ COMMITTED a statement sees the
//! rows as they were when it began, but what changes a row looks at the row as it is now. Under the stricter
//! levels the database refuses the statement where the two differ, and it is sent again.
//!
//! `statement_timestamp()` is when the statement arrived: not before it was sent, and not after a lock was got.

use bytes::Bytes;
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Executor, PgConnection, Postgres, Row, query, query_as};

use crate::sql::database::records::{Dialect, MANY};
use crate::sql::session::{Session, Way, is_loopback};
use crate::sql::store::connect::CONNECT_DEADLINE;
use crate::sql::url::{Parameter, Takes};
use crate::store::{Finding, Level};

/// Who finds a living record writes nothing, and locks nothing: a duplicate leaves no trace. One statement that gave what stands
/// there besides would cost every claim a fifth more of the server's time.
const CLAIM: &str = "
INSERT INTO idempotence AS old (key, value, expires_at)
SELECT $1, $2, statement_timestamp() + $3 * interval '1 microsecond'
WHERE NOT EXISTS (
    SELECT FROM idempotence WHERE key = $1 AND expires_at > statement_timestamp()
)
ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at
WHERE old.expires_at <= statement_timestamp()";

const REPLACE: &str = "
UPDATE idempotence
SET value = $3, expires_at = statement_timestamp() + $4 * interval '1 microsecond'
WHERE key = $1 AND value = $2 AND expires_at > statement_timestamp()";

const EXCHANGE: &str = "
UPDATE idempotence SET value = $3
WHERE key = $1 AND value = $2 AND expires_at > statement_timestamp()";

/// The value, which may be large, is not written again.
const RENEW: &str = "
UPDATE idempotence SET expires_at = statement_timestamp() + $3 * interval '1 microsecond'
WHERE key = $1 AND value = $2 AND expires_at > statement_timestamp()";

const REMOVE: &str = "
DELETE FROM idempotence WHERE key = $1 AND value = $2 AND expires_at > statement_timestamp()";

const GET: &str = "
SELECT substring(value FROM 1 FOR $2), (extract(epoch FROM expires_at - statement_timestamp()) * 1000000)::bigint
FROM idempotence WHERE key = $1 AND expires_at > statement_timestamp()";

/// Rows that somebody is about to claim anew are locked, and passed over. The array is made once: a plan
/// that asked for the rows again would lock, and remove, more of them. Where a row is cannot change while it is locked.
const PURGE: &str = "
DELETE FROM idempotence
WHERE expires_at <= statement_timestamp() AND ctid = ANY (ARRAY (
    SELECT ctid FROM idempotence WHERE expires_at <= statement_timestamp()
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
))";

impl Dialect for Postgres {
    const SCHEMES: &'static [&'static str] = &["postgres", "postgresql"];

    const PARAMETERS: &'static [Parameter] = &[
        ("sslmode", SSL_MODE),
        ("ssl-mode", SSL_MODE),
        ("sslrootcert", Takes::Text),
        ("ssl-root-cert", Takes::Text),
        ("ssl-ca", Takes::Text),
        ("sslcert", Takes::Text),
        ("ssl-cert", Takes::Text),
        ("sslkey", Takes::Text),
        ("ssl-key", Takes::Text),
        ("statement-cache-capacity", Takes::Number(u32::MAX as u64)),
        ("host", Takes::Text),
        ("hostaddr", Takes::Address),
        ("port", Takes::Number(u16::MAX as u64)),
        ("dbname", Takes::Text),
        ("user", Takes::Text),
        ("password", Takes::Text),
        ("application_name", Takes::Text),
        ("options", Takes::Text),
        ("options[]", Takes::Text),
    ];

    async fn claim(
        connection: &mut PgConnection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let claim = query(CLAIM).bind(key).bind(value).bind(micros);
        Ok(connection.execute(claim).await?.rows_affected() == 1)
    }

    async fn replace(
        connection: &mut PgConnection,
        key: &str,
        expected: &[u8],
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let replace = query(REPLACE).bind(key).bind(expected);
        let replace = replace.bind(value).bind(micros);
        Ok(connection.execute(replace).await?.rows_affected() == 1)
    }

    async fn exchange(
        connection: &mut PgConnection,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> sqlx::Result<bool> {
        let exchange = query(EXCHANGE).bind(key).bind(expected).bind(value);
        Ok(connection.execute(exchange).await?.rows_affected() == 1)
    }

    async fn renew(
        connection: &mut PgConnection,
        key: &str,
        expected: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let renew = query(RENEW).bind(key).bind(expected).bind(micros);
        Ok(connection.execute(renew).await?.rows_affected() == 1)
    }

    async fn remove(
        connection: &mut PgConnection,
        key: &str,
        expected: &[u8],
    ) -> sqlx::Result<bool> {
        let remove = query(REMOVE).bind(key).bind(expected);
        Ok(connection.execute(remove).await?.rows_affected() == 1)
    }

    async fn get(
        connection: &mut PgConnection,
        key: &str,
        most: i32,
    ) -> sqlx::Result<Option<(Bytes, i64)>> {
        let get = query(GET).bind(key).bind(most);
        let row = connection.fetch_optional(get).await?;
        row.map(|row| Ok((row.try_get::<Vec<u8>, _>(0)?.into(), row.try_get(1)?)))
            .transpose()
    }

    async fn purge(connection: &mut PgConnection, most: u32) -> sqlx::Result<u64> {
        let purge = query(PURGE).bind(i64::from(most));
        Ok(connection.execute(purge).await?.rows_affected())
    }

    fn options(url: &str) -> sqlx::Result<(PgConnectOptions, PoolOptions<Self>)> {
        let pool = PoolOptions::new()
            .max_connections(10)
            .acquire_timeout(CONNECT_DEADLINE)
            .test_before_acquire(false)
            .after_connect(|connection: &mut PgConnection, _| {
                Box::pin(async move {
                    // What was given up does not wait on in the server for long.
                    connection.execute("SET lock_timeout = '1s'").await?;
                    Ok(())
                })
            });
        Ok((url.parse()?, pool))
    }

    fn way(options: &PgConnectOptions) -> Option<Way<'_>> {
        let host = options.get_host();
        let by_socket = options.get_socket().is_some() || host.starts_with('/');
        let is_verified = matches!(
            options.get_ssl_mode(),
            PgSslMode::VerifyCa | PgSslMode::VerifyFull
        );
        Some(Way {
            user: options.get_username(),
            is_local: by_socket || is_loopback(host),
            is_verified,
            verified: "sslmode=verify-full",
        })
    }

    async fn session(connection: &mut PgConnection) -> sqlx::Result<Session> {
        let row = connection.fetch_one(query(SESSION)).await?;
        let address: Option<String> = row.try_get("address")?;
        Ok(Session {
            is_encrypted: row.try_get("encrypted")?,
            // A socket has none.
            is_local: address.is_none_or(|address| is_loopback(&address)),
        })
    }

    async fn backlog_and_clock(connection: &mut PgConnection) -> sqlx::Result<(i64, i64)> {
        query_as(BACKLOG_AND_CLOCK)
            .bind(MANY)
            .fetch_one(connection)
            .await
    }

    async fn examine(connection: &mut PgConnection) -> sqlx::Result<Vec<Finding>> {
        let row = connection.fetch_one(EXAMINE).await?;
        let mut findings = Vec::new();
        let mut tell = |when: bool, level, found: &str, advice: &str| {
            if when {
                findings.push(Finding::new(level, found).advise(advice));
            }
        };
        tell(
            row.try_get("standby")?,
            Level::Problem,
            "this server is a standby, which may only be read",
            "connect to the primary",
        );
        tell(
            row.try_get("read_only")?,
            Level::Problem,
            "transactions are read-only unless they say otherwise",
            "set `default_transaction_read_only` to off for the user of the store",
        );
        tell(
            !row.try_get::<bool, _>("synchronous_commit")?,
            Level::Warning,
            "synchronous_commit is off, so a crash may forget the latest records",
            "set it to on for the user of the store",
        );
        tell(
            !row.try_get::<bool, _>("fsync")?,
            Level::Warning,
            "fsync is off, so a crash may forget or damage anything",
            "set it to on",
        );
        tell(
            !row.try_get::<bool, _>("logged")?,
            Level::Warning,
            "the table is not logged, so a crash empties it",
            "`ALTER TABLE idempotence SET LOGGED`",
        );
        tell(
            row.try_get("asynchronous")?,
            Level::Note,
            "a standby follows at a distance, so a fail-over to it may forget the latest records",
            "name it in `synchronous_standby_names` if a record must survive that",
        );
        tell(
            row.try_get("patient")?,
            Level::Note,
            "lock_timeout is not set: while a row is locked, operations that were given up wait on",
            "set it to a second or so for the sessions of the pool",
        );
        Ok(findings)
    }
}

const SSL_MODE: Takes = Takes::AnyCase(&[
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
]);

const SESSION: &str = "
SELECT (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS encrypted,
    host(inet_server_addr()) AS address";

const BACKLOG_AND_CLOCK: &str = "
SELECT (SELECT count(*) FROM (
    SELECT FROM idempotence WHERE expires_at <= statement_timestamp() LIMIT $1
) AS expired), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

const EXAMINE: &str = "
SELECT pg_is_in_recovery() AS standby,
    current_setting('default_transaction_read_only')::boolean AS read_only,
    current_setting('synchronous_commit') <> 'off' AS synchronous_commit,
    current_setting('fsync')::boolean AS fsync,
    (SELECT relpersistence = 'p' FROM pg_class WHERE oid = 'idempotence'::regclass) AS logged,
    current_setting('synchronous_standby_names') = ''
        AND EXISTS (SELECT FROM pg_stat_replication) AS asynchronous,
    current_setting('lock_timeout') = '0' AS patient";
