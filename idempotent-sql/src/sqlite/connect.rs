//! Opens a file of SQLite.

use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Sqlite, SqliteConnection};

use crate::database::connect::{CONNECT_DEADLINE, Connect};
use crate::database::session::{Server, Session};
use crate::database::url::{Takes, UrlParameter};

impl Connect for Sqlite {
    const SCHEMES: &'static [&'static str] = &["sqlite"];

    const PARAMETERS: &'static [UrlParameter] = &[
        ("mode", Takes::Word(&["ro", "rw", "rwc", "memory"])),
        ("cache", Takes::Word(&["private", "shared"])),
        ("immutable", Takes::Word(&["true", "1", "false", "0"])),
        ("vfs", Takes::Text),
    ];

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

    /// The statement needs a writable file, and changes no row.
    const WRITE_NOTHING: Option<&'static str> = Some("DELETE FROM idempotence WHERE 0");

    fn server(_: &SqliteConnectOptions) -> Option<Server<'_>> {
        None
    }

    async fn session(_: &mut SqliteConnection) -> sqlx::Result<Session> {
        Ok(Session::UNKNOWN)
    }
}

/// While another process writes, SQLite polls after 1, 2, 5, 10 and 15 ms, and then less and less often, so that the process
/// that has waited longest has the smallest chance. After this time the statement is sent again and polls often again.
const BUSY_TIMEOUT: Duration = Duration::from_millis(35);
