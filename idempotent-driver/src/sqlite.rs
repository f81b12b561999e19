//! The file of SQLite.

use std::path::Path;

use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnectOptions;

use crate::database::address::Address;

/// Takes the lock of the file. SQLite may refuse the first write of a transaction that began with a read.
pub const BEGIN_TO_WRITE: &str = "BEGIN IMMEDIATE";

impl Address for Sqlite {
    const HAS_SERVER: bool = false;
    const BEGIN: Option<&'static str> = Some(BEGIN_TO_WRITE);

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
