//! An order is paid and shipped once, also if the process is killed at any moment.
//!
//! ```text
//! cargo run -p idempotence-examples --features sqlite --bin outbox
//! cargo run -p idempotence-examples --features sqlite --bin outbox -- FOLDER
//! ```
//!
//! With a folder, kill it with `kill -9` and start it again: it continues its work.
//!
//! # What guards what
//!
//! * The **transition** lets one of any number of notifications of the bank move the order from `PAYING` to `PAID`.
//! * The **outbox** is a table of the shop. The row that orders a shipment is written in the transaction of the
//!   transition. So each paid order has one such row, and an unpaid order has none. Without the outbox, a process that dies
//!   after the payment loses the shipment: the next notification of the bank finds the order paid and does nothing.
//! * The **guarded call** separates the shippers. Of several shippers that read the same row, one calls the carrier. If it is
//!   killed, another shipper takes over after its lease.
//! * The **idempotency key** guards the carrier, which has its own database. A process may be killed after the carrier has
//!   taken the order, but before the shop has stored the parcel. Then another process asks the carrier again with the same key:
//!   the number of the row in the outbox. The carrier answers with the parcel that exists.
#![allow(clippy::print_stdout)]

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::time::Duration;

use idempotence::sql::{self, Retry, Transition};
use idempotence::{Error, Idempotency, SqliteStore, idempotent};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{SqliteConnection, SqlitePool};
use tokio::task::JoinSet;
use tokio::time::sleep;

type Result<T, E = Box<dyn StdError + Send + Sync>> = std::result::Result<T, E>;

const ORDERS: i64 = 10;

#[tokio::main]
async fn main() -> Result<()> {
    let shop = Shop::open(&folder()?).await?;

    let mut tasks = JoinSet::new();
    for shipper in ["ada", "bob"] {
        tasks.spawn(shop.clone().ship_all(shipper));
    }
    // The bank sends each notification three times, and again after a restart.
    for order in (1..=ORDERS).flat_map(|order| [order; 3]) {
        let shop = shop.clone();
        tasks.spawn(async move { shop.paid(order).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    println!("{ORDERS} orders, {} parcels", shop.carrier.parcels().await?);
    Ok(())
}

/// The folder of the databases: the argument, or a new folder.
fn folder() -> Result<PathBuf> {
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => std::env::temp_dir().join(format!("outbox-{}", std::process::id())),
    };
    std::fs::create_dir_all(&folder)?;
    println!("the databases are in {}", folder.display());
    Ok(folder)
}

/// The states of an order. An enum with `#[derive(sqlx::Type)]` is possible, too.
const PAYING: &str = "PAYING";
const PAID: &str = "PAID";

#[derive(Clone)]
struct Shop {
    pool: SqlitePool,
    idempotency: Idempotency,
    carrier: Carrier,
}

impl Shop {
    async fn open(folder: &Path) -> Result<Self> {
        let pool = open(&folder.join("shop.db")).await?;
        sqlx::raw_sql(
            "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL);
             CREATE TABLE IF NOT EXISTS outbox (
                 id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL UNIQUE, parcel INTEGER
             );",
        )
        .execute(&pool)
        .await?;
        for order in 1..=ORDERS {
            sqlx::query("INSERT OR IGNORE INTO orders (id, status) VALUES (?, ?)")
                .bind(order)
                .bind(PAYING)
                .execute(&pool)
                .await?;
        }

        let store = SqliteStore::new(pool.clone());
        store.migrate().await?;
        Ok(Self {
            pool,
            idempotency: Idempotency::new(store),
            carrier: Carrier::open(folder).await?,
        })
    }

    /// Receives a notification of the bank, any number of times.
    async fn paid(&self, order: i64) -> Result<()> {
        // No dedup row is needed: after a lost `COMMIT` the bank sends its notification again, and the transition finds the new
        // state.
        let policy = Retry::when_nothing_was_done();
        let transition = sql::retry(&self.pool, policy, |tx| Box::pin(pay(tx, order))).await?;
        match transition {
            Transition::Applied => {
                println!("paid: order {order}");
                Ok(())
            }
            Transition::AlreadyThere => Ok(()),
            Transition::Illegal { .. } | Transition::NotFound => {
                Err(format!("order {order} cannot be paid: {transition:?}").into())
            }
        }
    }

    /// Ships until all orders are shipped.
    async fn ship_all(self, shipper: &'static str) -> Result<()> {
        loop {
            let open: Vec<(i64, i64)> =
                sqlx::query_as("SELECT id, order_id FROM outbox WHERE parcel IS NULL ORDER BY id")
                    .fetch_all(&self.pool)
                    .await?;
            for (row, order) in open {
                match ship(&self, row, order).await {
                    Ok(()) => println!("{shipper}: shipped order {order}"),
                    Err(ShipError::Refused(refused)) if refused.is_duplicate() => {}
                    // The row stays in the outbox.
                    Err(error) => println!("{shipper}: order {order} will be tried again: {error}"),
                }
            }
            let done: i64 =
                sqlx::query_scalar("SELECT count(*) FROM outbox WHERE parcel IS NOT NULL")
                    .fetch_one(&self.pool)
                    .await?;
            if done == ORDERS {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The transition and the row for the shipment, in one transaction.
async fn pay(tx: &mut SqliteConnection, order: i64) -> sqlx::Result<Transition<String>> {
    let transition = sql::transition("orders")
        .id("id", order)
        .from([PAYING.to_owned()])
        .to(PAID.to_owned())
        .run(&mut *tx)
        .await?;
    if transition == Transition::Applied {
        sqlx::query("INSERT INTO outbox (order_id) VALUES (?)")
            .bind(order)
            .execute(tx)
            .await?;
    }
    Ok(transition)
}

/// Orders a parcel for a row of the outbox, and stores the number of the parcel in the row.
///
/// `ttl` is longer than a shipper needs for all the rows that it has read.
#[idempotent(name = "orders.ship", key = "row", ttl = "10m", lease = "2s", using = shop.idempotency)]
async fn ship(shop: &Shop, row: i64, order: i64) -> Result<(), ShipError> {
    println!("shipping: order {order}");
    let parcel = shop.carrier.ship(&format!("shop-{row}"), order).await?;
    sqlx::query("UPDATE outbox SET parcel = ? WHERE id = ?")
        .bind(parcel)
        .bind(row)
        .execute(&shop.pool)
        .await?;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum ShipError {
    /// The body did not run or was stopped.
    #[error("{0}")]
    Refused(#[from] Error),
    #[error("{0}")]
    Database(#[from] sqlx::Error),
}

/// The service of another company, with its own database. It accepts an idempotency key.
#[derive(Clone)]
struct Carrier(SqlitePool);

impl Carrier {
    async fn open(folder: &Path) -> Result<Self> {
        let pool = open(&folder.join("carrier.db")).await?;
        sqlx::raw_sql(
            "CREATE TABLE IF NOT EXISTS parcels (
                 id INTEGER PRIMARY KEY, idempotency_key TEXT NOT NULL UNIQUE, order_id INTEGER NOT NULL,
                 requests INTEGER NOT NULL
             );",
        )
        .execute(&pool)
        .await?;
        Ok(Self(pool))
    }

    /// Returns the number of the parcel. A repeated key gets the same number.
    async fn ship(&self, idempotency_key: &str, order: i64) -> sqlx::Result<i64> {
        sleep(Duration::from_millis(50)).await;
        sqlx::query(
            "INSERT INTO parcels (idempotency_key, order_id, requests) VALUES (?, ?, 1)
             ON CONFLICT (idempotency_key) DO UPDATE SET requests = requests + 1",
        )
        .bind(idempotency_key)
        .bind(order)
        .execute(&self.0)
        .await?;
        println!("carrier: took order {order}");
        sleep(Duration::from_millis(50)).await;
        sqlx::query_scalar("SELECT id FROM parcels WHERE idempotency_key = ?")
            .bind(idempotency_key)
            .fetch_one(&self.0)
            .await
    }

    async fn parcels(&self) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT count(*) FROM parcels")
            .fetch_one(&self.0)
            .await
    }
}

async fn open(file: &Path) -> sqlx::Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    SqlitePool::connect_with(options).await
}
