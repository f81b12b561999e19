//! One order through the whole funnel: each layer stops what the one above let through.
//!
//! ```text
//! cargo run -p idempotence-examples --features sqlite --bin funnel
//! cargo run -p idempotence-examples --features sqlite --bin funnel -- redis://127.0.0.1:6379/ shop.db
//! ```
//!
//! ```text
//!     click  click  click          the page disables its button
//!       │      │      │
//!     ┌─▼──────▼──────▼─┐
//!     │ place           │  the attribute, on Redis: one at a time comes in, the others are refused
//!     │  ┌─ BEGIN ────┐ │
//!     │  │ enter      │ │  the dedup row: a second one gets the receipt of the first
//!     │  │  INSERT    │ │  the unique index: never two rows, also when the dedup row has expired
//!     │  └─ COMMIT ───┘ │  the dedup row, the order and the receipt, together or not at all
//!     └────────┬────────┘  the key is released: after the commit, so nobody comes in before it can be seen
//!              ▼
//!           receipt
//! ```
//!
//! Redis keeps the crowd off the database, and may forget everything at any time: the database does not.
#![allow(clippy::print_stdout)]

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use idempotence::sql::{self, Insertion};
use idempotence::{Error, Idempotency, idempotent};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{SqliteConnection, SqlitePool};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let url = args.next().unwrap_or_else(|| "memory:".into());
    let file = args.next().map_or_else(in_a_new_place, PathBuf::from);
    Idempotency::from_url(&url.to_string_lossy())
        .await?
        .install()?;
    let pool = open(file).await?;

    let mut clicks = JoinSet::new();
    for _ in 0..10 {
        clicks.spawn(place(pool.clone(), 7, "2026-0042".to_owned()));
    }
    while let Some(click) = clicks.join_next().await {
        match click? {
            Ok(receipt) => println!("receipt: {receipt}"),
            Err(error) => println!("refused: {error}"),
        }
    }
    Ok(())
}

/// The outer layer. What it returns is committed.
#[idempotent(
    name = "shop.click",
    key = "user, order_no",
    ttl = "30s",
    release = true
)]
async fn place(pool: SqlitePool, user: u64, order_no: String) -> Result<i64, PlaceError> {
    // Another database would begin as ever. SQLite is asked for its one writer at once.
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let receipt = enter(&mut tx, user, &order_no).await?;
    tx.commit().await?;
    Ok(receipt)
}

/// The inner layer. An error rolls back, and the dedup row with the rest.
#[idempotent(name = "shop.place", key = "user, order_no", ttl = "7d", replay = true, tx = tx)]
async fn enter(tx: &mut SqliteConnection, user: u64, order_no: &str) -> Result<i64, PlaceError> {
    println!("entering: order {order_no}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let insert = sqlx::query("INSERT INTO orders (order_no, user_id) VALUES (?, ?)")
        .bind(order_no)
        .bind(i64::try_from(user).map_err(|_| PlaceError::NoSuchUser)?);
    match sql::insert_once(tx, "uk_order_no", insert).await? {
        Insertion::Inserted(row) => Ok(row.last_insert_rowid()),
        Insertion::AlreadyThere => Err(PlaceError::PlacedLongAgo),
    }
}

#[derive(Debug)]
enum PlaceError {
    Refused(Error),
    Database(sqlx::Error),
    NoSuchUser,
    PlacedLongAgo,
}

impl From<Error> for PlaceError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<sqlx::Error> for PlaceError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
            Self::NoSuchUser => f.write_str("there is no such user"),
            Self::PlacedLongAgo => f.write_str("the order was placed long ago"),
        }
    }
}

fn in_a_new_place() -> PathBuf {
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
