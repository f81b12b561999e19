//! One order passes all layers. Each layer stops duplicates that passed the layer above.
//!
//! ```text
//! cargo run -p idempotence-examples --features sqlite --bin funnel
//! cargo run -p idempotence-examples --features redis,sqlite --bin funnel -- redis://127.0.0.1:6379/ shop.db
//! ```
//!
//! ```text
//!     click  click  click          the page disables its button, and has a one-time token
//!       │      │      │
//!     ┌─▼──────▼──────▼─┐
//!     │ place           │  the claim: one call runs, the others are refused
//!     │                 │  the token: redeemed before the body, so that a later call has no token
//!     │  attempts       │  the counter: at most so many orders a minute for each user
//!     │  ┌─ BEGIN ────┐ │
//!     │  │ enter      │ │  the dedup row: a second call gets the receipt of the first
//!     │  │  INSERT    │ │  the unique index: never two rows, also after the dedup row expired
//!     │  └─ COMMIT ───┘ │  the dedup row, the order and the receipt: all or nothing
//!     └────────┬────────┘  the key is released after the commit, so that the next call sees the order
//!              ▼
//!           receipt
//! ```
//!
//! The upper three layers are in Redis. They stop most duplicates before the database. Redis may lose its data at any time. The
//! database does not lose its data.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::time::Duration;

use idempotence::sql::{self, Insertion, Retry};
use idempotence::{Counter, Error, Idempotency, idempotent};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{SqliteConnection, SqlitePool};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let url = args.next().unwrap_or_else(|| "memory:".into());
    let file = args.next().map_or_else(new_file, PathBuf::from);
    let idempotency = Idempotency::from_url(&url.to_string_lossy()).await?;
    idempotency.install()?;
    let shop = Shop {
        pool: open(file).await?,
        attempts: idempotency.counter("shop.attempts", 100, Duration::from_mins(1))?,
    };

    // The page is rendered with this token.
    let user = 7_u64;
    let life = Duration::from_mins(10);
    let token = idempotency
        .tokens()
        .issue(&user, "shop.click", life)
        .await?;

    let mut clicks = JoinSet::new();
    for _ in 0..10 {
        let page = Page {
            token: token.as_str().to_owned(),
            order_no: "2026-0042".to_owned(),
        };
        clicks.spawn(place(shop.clone(), user, page));
    }
    while let Some(click) = clicks.join_next().await {
        match click? {
            Ok(receipt) => println!("receipt: {receipt}"),
            Err(error) => println!("refused: {error}"),
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Shop {
    pool: SqlitePool,
    attempts: Counter,
}

/// The fields that a click sends.
struct Page {
    token: String,
    order_no: String,
}

/// The outer layers. A receipt that this function returns is committed.
#[idempotent(
    name = "shop.click",
    key = "user, page.order_no",
    token = "page.token, user",
    ttl = "30s",
    release = true
)]
async fn place(shop: Shop, user: u64, page: Page) -> Result<i64, PlaceError> {
    shop.attempts.attempt(&user).await?;
    // It also retries after a lost reply to `COMMIT`: the dedup row shows whether the commit happened.
    sql::retry(&shop.pool, Retry::with_row(), |tx| {
        Box::pin(enter(tx, user, &page.order_no))
    })
    .await
}

/// The inner layers. An error rolls back everything, also the dedup row.
#[idempotent(name = "shop.place", key = "user, order_no", ttl = "7d", replay = true, tx = tx)]
async fn enter(tx: &mut SqliteConnection, user: u64, order_no: &str) -> Result<i64, PlaceError> {
    println!("entering: order {order_no}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let user = i64::try_from(user).map_err(|_| PlaceError::NoSuchUser)?;
    let order = sql::insert_once("orders").key("order_no", order_no);
    match order.set("user_id", user).returning("id", tx).await? {
        Insertion::Inserted(id) => Ok(id),
        Insertion::AlreadyThere(_) => Err(PlaceError::PlacedLongAgo),
    }
}

#[derive(Debug, thiserror::Error)]
enum PlaceError {
    #[error("{0}")]
    Refused(#[from] Error),
    /// `sql::retry` reads this source.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    #[error("there is no such user")]
    NoSuchUser,
    #[error("the order was placed long ago")]
    PlacedLongAgo,
}

fn new_file() -> PathBuf {
    let file = format!("funnel-{}.db", std::process::id());
    std::env::temp_dir().join(file)
}

async fn open(file: PathBuf) -> Result<SqlitePool, Box<dyn std::error::Error>> {
    println!("the database is {}", file.display());
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    let pool = SqlitePool::connect_with(options).await?;
    sql::migrate(&pool).await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS orders (
             id INTEGER PRIMARY KEY, order_no TEXT NOT NULL, user_id INTEGER NOT NULL
         );
         CREATE UNIQUE INDEX IF NOT EXISTS uk_order_no ON orders (order_no);",
    )
    .execute(&pool)
    .await?;
    Ok(pool)
}
