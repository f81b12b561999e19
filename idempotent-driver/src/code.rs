//! The codes of the errors of databases.

use std::error::Error as StdError;

use sqlx::error::DatabaseError;

/// Whether the error names a table that does not exist.
pub fn is_missing_table(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error();
    refusal.is_some_and(|refusal| Code::from_refusal(refusal).is_missing_table(refusal.message()))
}

/// Whether the connection is broken. The statement may have been applied although its reply was lost.
pub fn is_broken(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(refusal) => Code::from_refusal(&**refusal).is_unanswered(),
        error if is_closed_at_first_message(error) => true,
        _ => false,
    }
}

/// Whether a server of PostgreSQL closed a new connection before it answered the first message. sqlx 0.9 reads the end of the
/// connection as the answer 0.
pub(crate) fn is_closed_at_first_message(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Protocol(text) if text.starts_with(CLOSED_AT_FIRST_MESSAGE))
}

/// How sqlx begins the text of that error.
pub(crate) const CLOSED_AT_FIRST_MESSAGE: &str = "unexpected response from SSLRequest: 0x00";

/// The code of a database's error.
#[derive(Debug, Clone)]
pub enum Code {
    /// A state of the SQL standard, as in PostgreSQL.
    State(String),
    /// A number of MySQL, and the less specific state.
    MySql(u16, String),
    /// An extended result code.
    Sqlite(i32),
}

impl Code {
    pub(crate) fn is_missing_table(&self, message: &str) -> bool {
        match self {
            Self::State(state) => state == "42P01",
            Self::MySql(number, _) => *number == 1146,
            // A library may write its own words before the message of SQLite.
            Self::Sqlite(code) => *code == 1 && message.contains("no such table: "),
        }
    }

    /// Whether the database undid the statement or the transaction in favour of another transaction.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::State(state) => matches!(&**state, "40001" | "40P01" | "55P03"),
            Self::MySql(number, _) => matches!(number, 1020 | 1205 | 1213),
            // The file is busy, or another connection to the same cache has locked it.
            Self::Sqlite(code) => matches!(code & 0xff, 5 | 6),
        }
    }

    /// Whether the database ended the session, or does not know the outcome of a `COMMIT`. The statement may have been applied.
    pub(crate) fn is_unanswered(&self) -> bool {
        match self {
            Self::State(state) => {
                // Idle in a transaction for too long, an unknown outcome, a shutdown, a starting server.
                let ends = ["25P03", "40003", "57P01", "57P02", "57P03", "57P05"];
                ends.contains(&&**state) || state.starts_with("08")
            }
            Self::MySql(number, state) => {
                matches!(number, 1053 | 1180 | 1927 | 4031) || state.starts_with("08")
            }
            Self::Sqlite(_) => false,
        }
    }

    pub(crate) fn is_unique_violation(&self) -> bool {
        match self {
            Self::State(state) => state == "23505",
            Self::MySql(number, _) => matches!(number, 1062 | 1169 | 1586),
            // A primary key, any other unique index.
            Self::Sqlite(code) => matches!(code, 1555 | 2067),
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

    /// The code in an error of a library of a database, without its causes.
    pub(crate) fn from_error(error: &(dyn StdError + 'static)) -> Option<Self> {
        let refusal = match error.downcast_ref() {
            Some(sqlx::Error::Database(refusal)) => Some(refusal),
            // `#[error(transparent)]` leaves only this part of an error of sqlx.
            _ => error.downcast_ref::<Box<dyn DatabaseError>>(),
        };
        refusal.map(|refusal| Self::from_refusal(&**refusal))
    }
}
