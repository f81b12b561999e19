//! The databases of sqlx: their transactions as drivers, and their addresses.

use self::address::Address;
use self::run::Run;

pub(crate) mod address;
pub(crate) mod connection;
pub(crate) mod run;

/// A database whose pools and transactions of sqlx 0.9 are accepted: `Postgres`, `MySql` (also for MariaDB) or `Sqlite`.
///
/// `idempotence::sql::Database` extends it.
pub trait SqlxDatabase: sqlx::Database + Run + Address {}

impl<DB: sqlx::Database + Run + Address> SqlxDatabase for DB {}
