//! The port of the crate [`idempotence`](https://docs.rs/idempotence) to a caller's database: the transactions of libraries, and what an
//! error of a database means. It knows neither keys nor stores. Depend on that crate instead.

mod adapters;
mod causes;
mod chain;
mod code;
mod database;
mod dialect;
mod error;
mod failure;
mod fields;
#[cfg(feature = "mysql")]
mod mysql;
mod pool;
pub mod port;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod transaction;
mod value;

/// Transactions of libraries.
pub mod sql {
    /// The version of sqlx that this module uses. Take the types of sqlx from here, so that the versions agree.
    pub use ::sqlx;

    #[cfg(any(feature = "deadpool-postgres", feature = "diesel-async-deadpool"))]
    pub use crate::adapters::deadpool::DeadpoolTransaction;
    pub use crate::causes::Causes;
    pub use crate::database::SqlxDatabase;
    pub use crate::database::connection::AsConnection;

    /// What a dedup row needs of a transaction, and `begin` of a pool: the port to any library of a database.
    pub mod driver {
        pub use crate::dialect::Dialect;
        pub use crate::error::{DriverError, DriverErrorKind};
        pub use crate::pool::TransactionPool;
        pub use crate::transaction::Driver;
        pub use crate::value::{ColumnType, Field, Value};
    }
}
