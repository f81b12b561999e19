//! What a click asks for, and what it gets.

use idempotence::{Error, StoreError};
use serde::{Deserialize, Serialize};

/// The price of a phone, in cents.
pub(crate) const PRICE: i64 = 9900;

/// The fields that a click on "buy" sends.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) user: u64,
    pub(crate) item: &'static str,
    pub(crate) cents: i64,
    /// What the page got when it was opened, and sends with every click: a request id, a token or an order number.
    pub(crate) page: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) number: i64,
    pub(crate) cents: i64,
}

/// Why a click got no receipt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuyError {
    /// The library refused the click, or stopped its handler.
    #[error("{0}")]
    Refused(#[from] Error),
    /// `sql::retry` reads this source.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The HTTP layer answered with a problem.
    #[error("{status} {code}")]
    Http { status: u16, code: String },
    /// The handler found the mark of an earlier click.
    #[error("an earlier click is running or done")]
    Duplicate,
    #[error("the bank has seen a larger fence")]
    Fenced,
    #[error("the bank is busy, and took no money")]
    BankBusy,
    #[error("there is no such order")]
    NotForSale,
}

impl BuyError {
    /// A word for programs.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Refused(error) => error.code(),
            Self::Http { code, .. } => code,
            Self::Database(_) => "database",
            Self::Store(_) => "unavailable",
            Self::Duplicate => "duplicate",
            Self::Fenced => "fenced",
            Self::BankBusy => "bank_busy",
            Self::NotForSale => "not_for_sale",
        }
    }
}
