//! The databases, which differ in their statements.

/// The database of a [`Driver`](crate::sql::driver::Driver). Without its feature of this crate its statements fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL, whose placeholders are `$1`, `$2`. Feature `postgres`.
    Postgres,
    /// MySQL and MariaDB, whose placeholder is `?`. Feature `mysql`.
    MySql,
    /// SQLite, whose placeholders are `?1`, `?2`. Feature `sqlite`.
    Sqlite,
}

impl Dialect {
    /// Its name: `PostgreSQL`, `MySQL` or `SQLite`.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MySql => "MySQL",
            Self::Sqlite => "SQLite",
        }
    }

    /// Whether the feature of the database is enabled. Without it, its errors cannot be read.
    #[doc(hidden)]
    pub fn is_enabled(self) -> bool {
        match self {
            Self::Postgres => cfg!(feature = "postgres"),
            Self::MySql => cfg!(feature = "mysql"),
            Self::Sqlite => cfg!(feature = "sqlite"),
        }
    }
}
