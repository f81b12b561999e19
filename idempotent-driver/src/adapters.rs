//! Drivers for the transactions of libraries.

mod answered;
#[cfg(any(feature = "deadpool-postgres", feature = "diesel-async-deadpool"))]
pub(crate) mod deadpool;
#[cfg(feature = "diesel-async")]
mod diesel_async;
pub(crate) mod reading;
#[cfg(feature = "sea-orm")]
mod sea_orm;
pub(crate) mod sqlx;
#[cfg(feature = "sqlx-08")]
mod sqlx_08;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

use std::error::Error as StdError;

use crate::code::Code;

/// The code in an error of one of the libraries, without its causes.
#[allow(unused_variables, reason = "the features may be off")]
pub(crate) fn code_of(cause: &(dyn StdError + 'static)) -> Option<Code> {
    let code = None;
    #[cfg(feature = "diesel-async")]
    let code = code.or_else(|| diesel_async::code_of(cause));
    #[cfg(feature = "sea-orm")]
    let code = code.or_else(|| sea_orm::code_of(cause));
    #[cfg(feature = "sqlx-08")]
    let code = code.or_else(|| sqlx_08::code_of(cause));
    #[cfg(feature = "tokio-postgres")]
    let code = code.or_else(|| tokio_postgres::code_of(cause));
    code
}

/// Whether one of the libraries found the connection lost.
#[allow(unused_variables, reason = "the features may be off")]
pub(crate) fn is_lost(cause: &(dyn StdError + 'static)) -> bool {
    let is_lost = false;
    #[cfg(feature = "diesel-async")]
    let is_lost = is_lost || diesel_async::is_lost(cause);
    #[cfg(feature = "sea-orm")]
    let is_lost = is_lost || sea_orm::is_lost(cause);
    #[cfg(feature = "sqlx-08")]
    let is_lost = is_lost || sqlx_08::is_lost(cause);
    #[cfg(feature = "tokio-postgres")]
    let is_lost = is_lost || tokio_postgres::is_lost(cause);
    is_lost
}

/// Whether one of the libraries got an answer that it could not read.
#[allow(unused_variables, reason = "the features may be off")]
pub(crate) fn is_unreadable(cause: &(dyn StdError + 'static)) -> bool {
    let is_unreadable = false;
    #[cfg(feature = "sea-orm")]
    let is_unreadable = is_unreadable || sea_orm::is_unreadable(cause);
    #[cfg(feature = "sqlx-08")]
    let is_unreadable = is_unreadable || sqlx_08::is_unreadable(cause);
    #[cfg(feature = "tokio-postgres")]
    let is_unreadable = is_unreadable || tokio_postgres::is_unreadable(cause);
    is_unreadable
}
