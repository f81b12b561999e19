//! Opens a file of SQLite.

use std::path::Path;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Sqlite, SqliteConnection};

use crate::sql::database::connect::{CONNECT_DEADLINE, Connect};
use crate::sql::database::session::{Server, Session};
use crate::sql::database::url::{Takes, UrlParameter};

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

    fn place(options: &SqliteConnectOptions) -> String {
        let file = options.get_filename();
        if is_in_memory(file) {
            return "sqlite in memory".to_owned();
        }
        if is_plain(file) {
            return format!("sqlite {}", file.display());
        }
        // The URL of another database, with a password, may have been given for a path.
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.contains('@') {
            "sqlite …".to_owned()
        } else {
            format!("sqlite …/{name}")
        }
    }

    fn diagnose(options: &SqliteConnectOptions) -> Option<&'static str> {
        let file = options.get_filename();
        if is_in_memory(file) {
            return None;
        }
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        Some(if file.is_dir() {
            "cannot open its file: the path is a directory (add the name of a file)"
        } else if folder.is_some_and(is_missing) {
            "cannot open its file: the directory does not exist (create it, or correct the path)"
        } else if folder.is_some_and(|folder| !folder.is_dir()) {
            "cannot open its file: a part of the path is no directory (correct the path)"
        } else if is_missing(file) {
            "cannot open its file, which does not exist (create it, allow this process to write to its directory, or \
             leave `mode` out of the URL)"
        } else {
            "cannot open its file (check the permissions of the file and its directory)"
        })
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

/// Whether the path cannot be the URL of another database: it has no `@`, and no `:` but that of a drive on Windows.
fn is_plain(path: &Path) -> bool {
    let path = path.to_string_lossy();
    let drive = cfg!(windows).then_some(1);
    !path.contains('@') && path.match_indices(':').all(|(at, _)| Some(at) == drive)
}

/// Whether the path certainly does not exist. Without the permission to look, it may exist.
fn is_missing(path: &Path) -> bool {
    path.try_exists().is_ok_and(|exists| !exists)
}

/// Whether this is the name that sqlx makes for a database in memory.
fn is_in_memory(file: &Path) -> bool {
    let name = file.as_os_str().as_encoded_bytes();
    name == b":memory:" || name.starts_with(b"file:sqlx-in-memory-")
}

/// While another process writes, SQLite polls after 1, 2, 5, 10 and 15 ms, and then less and less often, so that the process
/// that has waited longest has the smallest chance. After this time the statement is sent again and polls often again.
const BUSY_TIMEOUT: Duration = Duration::from_millis(35);
