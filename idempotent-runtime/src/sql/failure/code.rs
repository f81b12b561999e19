//! The codes of the errors of databases.

use sqlx::error::DatabaseError;

/// Whether the error names a table that does not exist.
pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error();
    refusal.is_some_and(|refusal| Code::from_refusal(refusal).is_missing_table(refusal.message()))
}

/// The code of a database's error.
#[cfg_attr(
    not(all(feature = "mysql", feature = "sqlite")),
    expect(dead_code, reason = "each database has its own kind of code")
)]
pub(crate) enum Code {
    /// A state of the SQL standard, as in PostgreSQL.
    State(String),
    /// A number of MySQL, and the less specific state.
    MySql(u16, String),
    /// An extended result code.
    Sqlite(i32),
}

impl Code {
    pub(super) fn is_missing_table(&self, message: &str) -> bool {
        match self {
            Self::State(state) => state == "42P01",
            Self::MySql(number, _) => *number == 1146,
            Self::Sqlite(code) => *code == 1 && message.starts_with("no such table"),
        }
    }

    pub(crate) fn from_refusal(refusal: &dyn DatabaseError) -> Self {
        let code = refusal.code().unwrap_or_default();
        #[cfg(feature = "mysql")]
        if let Some(error) = refusal.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return Self::MySql(error.number(), code.into_owned());
        }
        #[cfg(feature = "sqlite")]
        if refusal
            .try_downcast_ref::<sqlx::sqlite::SqliteError>()
            .is_some()
        {
            return Self::Sqlite(code.parse().unwrap_or_default());
        }
        Self::State(code.into_owned())
    }
}
