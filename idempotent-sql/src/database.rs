//! The supported databases, and what each must implement: one trait for each part of this module.

use idempotent_driver::sql::SqlxDatabase;

use self::batch::Batch;
use self::connect::Connect;
use self::counting::Counting;
use self::doctor::Examine;
use self::fencing::Fencing;
use self::lock::Locks;
use self::records::Records;
use self::schema::Schema;
use self::syntax::Syntax;

pub(super) mod batch;
pub(super) mod checkout;
pub(super) mod connect;
pub(super) mod counting;
pub(super) mod doctor;
pub(super) mod fencing;
pub(super) mod lock;
pub(super) mod records;
pub(super) mod run;
pub(super) mod schema;
pub(super) mod session;
pub(super) mod statement;
pub(super) mod syntax;
pub(super) mod url;

/// A supported database: `Postgres`, `MySql` (also for MariaDB) or `Sqlite`.
pub trait Database: SqlxDatabase + Sealed {}

/// Everything that the parts of this module need of a database.
pub trait Sealed:
    Records + Counting + Fencing + Batch + Locks + Connect + Examine + Schema + Syntax
{
}

#[cfg(feature = "postgres")]
impl Database for sqlx::Postgres {}
#[cfg(feature = "postgres")]
impl Sealed for sqlx::Postgres {}

#[cfg(feature = "mysql")]
impl Database for sqlx::MySql {}
#[cfg(feature = "mysql")]
impl Sealed for sqlx::MySql {}

#[cfg(feature = "sqlite")]
impl Database for sqlx::Sqlite {}
#[cfg(feature = "sqlite")]
impl Sealed for sqlx::Sqlite {}
