//! The mechanisms: one file for each, and one trait for all.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use idempotence::store::async_trait;
use idempotence::{Idempotency, Once};
use sqlx::Pool;

use super::bank::Bank;
use super::link::Link;
use super::order::{BuyError, Order, Receipt};
use super::{Connection, Db};

mod bloom;
mod check_then_set;
mod dedup_row;
mod fenced_lock;
mod fingerprint_held;
mod fingerprint_released;
mod http_layer;
mod order_number;
mod page_counter;
mod replay;
mod steps;
mod token;
mod transition;
mod unique_index;
mod unprotected;

/// One process of the shop.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) idempotency: Idempotency,
    /// The store of `idempotency`, for a mechanism that is written by hand.
    pub(crate) store: Arc<Link>,
    pub(crate) pool: Pool<Db>,
    pub(crate) bank: Arc<Bank>,
    /// How long a key outlives its process. 30 s are usual; a few scenarios cannot wait for so long.
    pub(crate) lease: Duration,
}

/// A way to sell one phone once.
#[async_trait]
pub(crate) trait Mechanism: Send + Sync {
    /// Runs once in each process.
    async fn start(shop: Shop) -> Result<Self, Box<dyn std::error::Error + Send + Sync>>
    where
        Self: Sized;

    /// Renders the page with the button. Returns what the page sends with every click: by default a new request id.
    async fn open_page(&self, user: u64, request_id: String) -> Result<String, BuyError> {
        let _ = user;
        Ok(request_id)
    }

    /// Serves one click.
    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError>;
}

/// A row of the grid.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    /// `bank`: the money is at another company. `wallet`: the money is in the database of the shop.
    pub(crate) money: &'static str,
    /// The file that runs.
    pub(crate) code: &'static str,
    pub(crate) start: fn(Shop) -> Starting,
}

type Started = Result<Box<dyn Mechanism>, Box<dyn std::error::Error + Send + Sync>>;
type Starting = Pin<Box<dyn Future<Output = Started> + Send>>;

macro_rules! rows {
    ($($file:ident: $mechanism:ident in $money:ident,)+) => {
        /// All rows, in the order of the grid.
        pub(crate) const ROWS: &[Row] = &[$(Row {
            id: stringify!($file),
            money: stringify!($money),
            code: include_str!(concat!("mechanisms/", stringify!($file), ".rs")),
            start: |shop| Box::pin(async {
                let mechanism = $file::$mechanism::start(shop).await?;
                Ok(Box::new(mechanism) as Box<dyn Mechanism>)
            }),
        },)+];
    };
}

rows! {
    unprotected: Unprotected in bank,
    check_then_set: CheckThenSet in bank,
    fingerprint_released: FingerprintReleased in bank,
    fingerprint_held: FingerprintHeld in bank,
    page_counter: PageCounter in bank,
    token: Token in bank,
    fenced_lock: FencedLock in bank,
    replay: Replay in bank,
    steps: Steps in bank,
    http_layer: HttpLayer in bank,
    bloom: Bloom in wallet,
    order_number: OrderNumber in wallet,
    unique_index: UniqueIndex in wallet,
    transition: Transition in wallet,
    dedup_row: DedupRow in wallet,
}

pub(crate) fn row(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}
