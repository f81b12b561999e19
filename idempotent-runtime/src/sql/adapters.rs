//! Drivers for the transactions of libraries.

#[cfg(feature = "diesel-async")]
pub(crate) mod diesel_async;
mod reading;
#[cfg(feature = "sea-orm")]
pub(crate) mod sea_orm;
mod sqlx;
#[cfg(feature = "sqlx-08")]
pub(crate) mod sqlx_08;
#[cfg(feature = "tokio-postgres")]
pub(crate) mod tokio_postgres;
