//! What both designs do: one payment, and why it has no answer.

use std::fmt;
use std::time::Duration;

use idempotence::Error;
use sqlx::PgConnection;

/// A request to pay. Equal requests have one `user` and one `key`.
#[derive(Debug, Clone)]
pub struct Order {
    /// Who pays.
    pub user: i64,
    /// The key that the client chose.
    pub key: String,
    /// The amount.
    pub cents: i64,
    /// How long the work takes.
    pub takes: Duration,
}

/// The work: a row in the table of payments. Returns its id.
///
/// # Errors
///
/// If the database refuses a statement.
pub async fn pay(connection: &mut PgConnection, order: &Order) -> Result<i64, sqlx::Error> {
    tokio::time::sleep(order.takes).await;
    let insert = "INSERT INTO payment (owner, order_key, cents) VALUES ($1, $2, $3) RETURNING id";
    let insert = sqlx::query_scalar(insert).bind(order.user);
    let insert = insert.bind(&order.key).bind(order.cents);
    insert.fetch_one(connection).await
}

/// Why a request has no answer.
#[derive(Debug)]
pub enum Failure {
    /// For example no connection of the pool became free.
    Database(sqlx::Error),
    /// A refusal of the guard, which a client can act on.
    Refused(Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::Refused(error) => Some(error),
        }
    }
}
