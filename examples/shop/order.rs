//! What a click asks for, and what it gets.

use std::fmt;

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
#[derive(Debug)]
pub(crate) enum BuyError {
    /// The library refused the click, or stopped its handler.
    Refused(Error),
    Database(sqlx::Error),
    Store(StoreError),
    /// The HTTP layer answered with a problem.
    Http {
        status: u16,
        code: String,
    },
    /// The handler found the mark of an earlier click.
    Duplicate,
    /// The bank has seen a larger fence.
    Fenced,
    /// The bank took no money, and asks for another try.
    BankBusy,
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

impl From<Error> for BuyError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<sqlx::Error> for BuyError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for BuyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// `sql::retry` reads the error of the database here.
impl std::error::Error for BuyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Database(error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for BuyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Http { status, code } => write!(f, "{status} {code}"),
            Self::Duplicate => f.write_str("an earlier click is running or done"),
            Self::Fenced => f.write_str("the bank has seen a larger fence"),
            Self::BankBusy => f.write_str("the bank is busy, and took no money"),
            Self::NotForSale => f.write_str("there is no such order"),
        }
    }
}
