//! Where a database is, and how a transaction on it begins.

use sqlx::{Connection, Database};

/// What the errors of a pool name, and how its transactions begin.
pub trait Address: Database {
    /// Whether the database has a server, which may be down.
    const HAS_SERVER: bool = true;

    /// The statement that begins a transaction that will write. `None`: the usual statement.
    const BEGIN: Option<&'static str> = None;

    /// The place of the database, for operators: its kind, and its host and port or the name of its file.
    fn place(options: &<Self::Connection as Connection>::Options) -> String;

    /// Why the file of the options cannot be opened.
    fn diagnose(_options: &<Self::Connection as Connection>::Options) -> Option<&'static str> {
        None
    }
}
