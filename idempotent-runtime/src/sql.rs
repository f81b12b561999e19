//! For databases: what makes a thing happen once by the database's own means, in the caller's transaction.
//!
//! A lock says "not at once"; only the database can say "never twice", because it commits the row that says so
//! together with the work.

mod database;
pub(crate) mod failure;
pub(crate) mod lent;
pub(crate) mod schema;
pub(crate) mod time;

/// The client that this is made for: name its types through this, and their versions agree.
pub use ::sqlx;

pub use self::database::Database;
pub use self::failure::is_retryable;
pub use self::schema::{migrate, schema};
