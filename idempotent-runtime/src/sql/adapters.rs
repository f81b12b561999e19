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

use std::error::Error as StdError;

/// Whether a library, but sqlx 0.9, got an answer that it could not read.
pub(crate) fn is_unreadable(cause: &(dyn StdError + 'static)) -> bool {
    let is_unreadable = false;
    #[cfg(feature = "sea-orm")]
    let is_unreadable = is_unreadable || sea_orm::is_unreadable(cause);
    #[cfg(feature = "sqlx-08")]
    let is_unreadable = is_unreadable || sqlx_08::is_unreadable(cause);
    #[cfg(feature = "tokio-postgres")]
    let is_unreadable = is_unreadable || tokio_postgres::is_unreadable(cause);
    // The other features are off.
    let _ = cause;
    is_unreadable
}
