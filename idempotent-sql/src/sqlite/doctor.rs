//! Examines how SQLite is set up.

use idempotent_runtime::port::sql::sqlite_now;
use idempotent_runtime::store::Level;
use sqlx::{Executor, Row, Sqlite, SqliteConnection, query, query_as, query_scalar};

use crate::database::doctor::{Check, Examine, MANY};

impl Examine for Sqlite {
    async fn backlog_and_clock(connection: &mut SqliteConnection) -> sqlx::Result<(i64, i64)> {
        query_as(BACKLOG_AND_CLOCK)
            .bind(MANY)
            .fetch_one(connection)
            .await
    }

    async fn examine(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Check>> {
        let database = query("PRAGMA database_list");
        let file: Option<String> = connection.fetch_one(database).await?.try_get("file")?;
        if file.is_none_or(|file| file.is_empty()) {
            return Ok(vec![Check {
                fails: true,
                level: Level::Warning,
                found: "the database is in memory, so records end with the process",
                advice: "use the URL of a file",
            }]);
        }
        let journal: String = query_scalar("PRAGMA journal_mode")
            .fetch_one(&mut *connection)
            .await?;
        let synchronous: i64 = query_scalar("PRAGMA synchronous")
            .fetch_one(&mut *connection)
            .await?;
        let busy_timeout: i64 = query_scalar("PRAGMA busy_timeout")
            .fetch_one(&mut *connection)
            .await?;
        Ok(vec![
            Check {
                fails: matches!(&*journal, "off" | "memory"),
                level: Level::Warning,
                found: "the journal is not on disk, so a crash may damage the file",
                advice: "`PRAGMA journal_mode = WAL`",
            },
            Check {
                fails: !matches!(&*journal, "off" | "memory" | "wal"),
                level: Level::Note,
                found: "the journal is not a write-ahead log, so readers and writers wait for each other",
                advice: "`PRAGMA journal_mode = WAL`",
            },
            Check {
                fails: synchronous < FULL,
                level: Level::Warning,
                found: "commits are not synced to the disk, so a loss of power may lose the latest records",
                advice: "`PRAGMA synchronous = FULL` on every connection",
            },
            Check {
                fails: busy_timeout > 1000,
                level: Level::Note,
                found: "busy_timeout is long, so a cancelled operation delays the operations after it",
                advice: "set it to less than the deadline of the handle",
            },
        ])
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
