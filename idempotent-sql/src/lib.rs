//! The SQL stores of the crate [`idempotence`](https://docs.rs/idempotence), and its building blocks for databases. Depend on that crate
//! instead, with its features `postgres`, `mysql` and `sqlite`.
//!
//! The link of this crate into a program registers its URLs.
#![cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]

mod batching;
mod block;
mod database;
mod migrate;
mod mutation;
#[cfg(feature = "mysql")]
mod mysql;
mod placed;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

#[cfg(feature = "mysql")]
pub use self::store::MySqlStore;
#[cfg(feature = "postgres")]
pub use self::store::PostgresStore;
pub use self::store::SqlStore;
#[cfg(feature = "sqlite")]
pub use self::store::SqliteStore;

/// Exactly-once building blocks for databases, in the caller's transaction.
///
/// A lock prevents two runs at the same time. Only the database can prevent a second run later: it commits the row that
/// proves the first run together with the work.
pub mod sql {
    pub use idempotent_runtime::sql::*;

    pub use crate::block::duplicate::duplicate_of;
    pub use crate::block::insert::{InsertOnce, Insertion, insert_once};
    pub use crate::block::lock::waiting::Holder;
    pub use crate::block::lock::{Lock, LockGuard};
    pub use crate::block::retry::retry;
    pub use crate::block::transition::{Transition, TransitionUpdate, transition};
    pub use crate::block::version::{Versioned, VersionedUpdate, versioned_update};
    pub use crate::database::Database;
    pub use crate::migrate::{Migration, migrate, migrations, schema};
}

/// Registers the URLs of a database.
macro_rules! register {
    ($feature:literal, $database:ty) => {
        #[cfg(feature = $feature)]
        idempotent_runtime::store::register_url_scheme!(
            idempotent_runtime::store::UrlScheme::built_in(
                <$database as sqlx::Database>::NAME,
                <$database as database::connect::Connect>::SCHEMES,
                |url| Box::pin(async move {
                    let store = SqlStore::<$database>::connect(&url).await?;
                    Ok(std::sync::Arc::new(store) as _)
                })
            )
        );
    };
}

register!("postgres", sqlx::Postgres);
register!("mysql", sqlx::MySql);
register!("sqlite", sqlx::Sqlite);
