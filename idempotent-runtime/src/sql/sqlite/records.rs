//! The statements for SQLite.
//!
//! Each is a transaction of its own that takes the one lock for writing before it looks, so nothing changes under it.
//! None returns rows that it wrote: the client passes such rows on before they are committed, and does not tell if
//! that fails.

use std::time::Duration;

use bytes::Bytes;
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Executor, Row, Sqlite, SqliteConnection, query, query_as, query_scalar};

use crate::sql::database::records::{Dialect, MANY};
use crate::sql::database::time::{TICK, sqlite_now};
use crate::sql::session::{Session, Way};
use crate::sql::store::connect::CONNECT_DEADLINE;
use crate::sql::url::{Parameter, Takes};
use crate::store::{Finding, Level};

const CLAIM: &str = concat!(
    "INSERT INTO idempotence (key, value, expires_at) VALUES (?1, ?2, ",
    sqlite_now!(),
    " + ?3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
     WHERE idempotence.expires_at <= ",
    sqlite_now!()
);
const REPLACE: &str = concat!(
    "UPDATE idempotence SET value = ?3, expires_at = ",
    sqlite_now!(),
    " + ?4 WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const EXCHANGE: &str = concat!(
    "UPDATE idempotence SET value = ?3 WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const RENEW: &str = concat!(
    "UPDATE idempotence SET expires_at = ",
    sqlite_now!(),
    " + ?3 WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const REMOVE: &str = concat!(
    "DELETE FROM idempotence WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const GET: &str = concat!(
    "SELECT substr(value, 1, ?2), expires_at - ",
    sqlite_now!(),
    " FROM idempotence WHERE key = ?1 AND expires_at > ",
    sqlite_now!()
);
const PURGE: &str = concat!(
    "DELETE FROM idempotence WHERE key IN (SELECT key FROM idempotence WHERE expires_at <= ",
    sqlite_now!(),
    " ORDER BY expires_at LIMIT ?1)"
);

impl Dialect for Sqlite {
    const SCHEMES: &'static [&'static str] = &["sqlite"];
    const PARAMETERS: &'static [Parameter] = &[
        ("mode", Takes::Word(&["ro", "rw", "rwc", "memory"])),
        ("cache", Takes::Word(&["private", "shared"])),
        ("immutable", Takes::Word(&["true", "1", "false", "0"])),
        ("vfs", Takes::Text),
    ];
    const ANSWERS_LATE: bool = false;
    const MOST_SENDS: u32 = 20;

    async fn claim(
        connection: &mut SqliteConnection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let claim = query(CLAIM).bind(key).bind(value).bind(micros + TICK);
        Ok(connection.execute(claim).await?.rows_affected() == 1)
    }

    async fn replace(
        connection: &mut SqliteConnection,
        key: &str,
        expected: &[u8],
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let replace = query(REPLACE).bind(key).bind(expected);
        let replace = replace.bind(value).bind(micros + TICK);
        Ok(connection.execute(replace).await?.rows_affected() == 1)
    }

    async fn exchange(
        connection: &mut SqliteConnection,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> sqlx::Result<bool> {
        let exchange = query(EXCHANGE).bind(key).bind(expected).bind(value);
        Ok(connection.execute(exchange).await?.rows_affected() == 1)
    }

    async fn renew(
        connection: &mut SqliteConnection,
        key: &str,
        expected: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let renew = query(RENEW).bind(key).bind(expected).bind(micros + TICK);
        Ok(connection.execute(renew).await?.rows_affected() == 1)
    }

    async fn remove(
        connection: &mut SqliteConnection,
        key: &str,
        expected: &[u8],
    ) -> sqlx::Result<bool> {
        let remove = query(REMOVE).bind(key).bind(expected);
        Ok(connection.execute(remove).await?.rows_affected() == 1)
    }

    async fn get(
        connection: &mut SqliteConnection,
        key: &str,
        most: i32,
    ) -> sqlx::Result<Option<(Bytes, i64)>> {
        let get = query(GET).bind(key).bind(most);
        let row = connection.fetch_optional(get).await?;
        row.map(|row| Ok((row.try_get::<Vec<u8>, _>(0)?.into(), row.try_get(1)?)))
            .transpose()
    }

    async fn purge(connection: &mut SqliteConnection, most: u32) -> sqlx::Result<u64> {
        let purge = query(PURGE).bind(most);
        Ok(connection.execute(purge).await?.rows_affected())
    }

    fn options(url: &str) -> sqlx::Result<(SqliteConnectOptions, PoolOptions<Self>)> {
        let mut options: SqliteConnectOptions = url.parse()?;
        let (_, mode) = url.split_once('?').unwrap_or_default();
        if !mode.contains("mode=") {
            options = options.create_if_missing(true);
        }
        if !mode.contains("mode=ro") {
            options = options.journal_mode(SqliteJournalMode::Wal);
        }
        let options = options
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        let pool = PoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .acquire_timeout(CONNECT_DEADLINE)
            .test_before_acquire(false);
        Ok((options, pool))
    }

    fn way(_: &SqliteConnectOptions) -> Option<Way<'_>> {
        None
    }

    async fn session(_: &mut SqliteConnection) -> sqlx::Result<Session> {
        Ok(Session::UNKNOWN)
    }

    async fn backlog_and_clock(connection: &mut SqliteConnection) -> sqlx::Result<(i64, i64)> {
        query_as(BACKLOG_AND_CLOCK)
            .bind(MANY)
            .fetch_one(connection)
            .await
    }

    async fn examine(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let mut tell = |when: bool, level, found: &str, advice: &str| {
            if when {
                findings.push(Finding::new(level, found).advise(advice));
            }
        };
        let database = query("PRAGMA database_list");
        let file: Option<String> = connection.fetch_one(database).await?.try_get("file")?;
        if file.is_none_or(|file| file.is_empty()) {
            tell(
                true,
                Level::Warning,
                "the database is in memory, so records end with the process",
                "name a file",
            );
            return Ok(findings);
        }
        let journal: String = query_scalar("PRAGMA journal_mode")
            .fetch_one(&mut *connection)
            .await?;
        tell(
            matches!(&*journal, "off" | "memory"),
            Level::Warning,
            "the journal is not on disk, so a crash may damage the file",
            "`PRAGMA journal_mode = WAL`",
        );
        tell(
            !matches!(&*journal, "off" | "memory" | "wal"),
            Level::Note,
            "the log is not written ahead, so those who read and those who write wait for each other",
            "`PRAGMA journal_mode = WAL`",
        );
        let synchronous: i64 = query_scalar("PRAGMA synchronous")
            .fetch_one(&mut *connection)
            .await?;
        tell(
            synchronous < FULL,
            Level::Warning,
            "commits are not synced to the disk, so a loss of power may forget the latest records",
            "`PRAGMA synchronous = FULL` on every connection",
        );
        let patience: i64 = query_scalar("PRAGMA busy_timeout")
            .fetch_one(&mut *connection)
            .await?;
        tell(
            patience > 1000,
            Level::Note,
            "busy_timeout is long, so an operation that was given up holds up those after it",
            "set it to less than the deadline",
        );
        Ok(findings)
    }
}

const BACKLOG_AND_CLOCK: &str = concat!(
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM idempotence WHERE expires_at <= ",
    sqlite_now!(),
    " LIMIT ?1)), ",
    sqlite_now!()
);

/// `PRAGMA synchronous = FULL`, as a number.
const FULL: i64 = 2;

/// While another process writes, SQLite looks again after 1, 2, 5, 10, 15 ms, and then more and more rarely, so that those who have
/// waited longest have the least chance. After this the statement is sent again, and it begins anew.
const BUSY_TIMEOUT: Duration = Duration::from_millis(35);
