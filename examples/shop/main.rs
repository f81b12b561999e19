//! The shop: every mechanism side by side in a browser, with real double clicks, lost replies and crashes.
//!
//! ```text
//! cargo run -p idempotence-examples --features shop --bin shop
//! cargo run -p idempotence-examples --features shop --bin shop -- 127.0.0.1:3000
//! cargo run -p idempotence-examples --features shop,redis,postgres --bin shop -- \
//!     --redis redis://127.0.0.1:6379/ --postgres postgres://me@127.0.0.1/test
//! ```
//!
//! It needs nothing installed: the store is in memory, and the database of each run is an SQLite file in a temporary folder, or
//! a schema of PostgreSQL. It listens only on this machine.
//!
//! Each file of `mechanisms` is one way to sell one phone once. `scenarios.rs` plays what happens to clicks, and `bank.rs` counts
//! how many times money was taken.
#![allow(clippy::print_stdout)]
// The files of the shop are compiled once for each kind of database: `sqlite.rs`, `postgres.rs`.
#![allow(clippy::duplicate_mod)]

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use idempotence::{MemoryStore, Store};
use tokio::net::TcpListener;

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    let (store, store_name) = store(options.redis).await?;
    let listener = TcpListener::bind(options.address).await?;
    match options.postgres {
        None => {
            let databases = sqlite::Databases::new().await?;
            sqlite::shop::serve(listener, store, store_name, databases).await
        }
        #[cfg(feature = "postgres")]
        Some(url) => {
            let databases = postgres::Databases::new(&url).await?;
            postgres::shop::serve(listener, store, store_name, databases).await
        }
        #[cfg(not(feature = "postgres"))]
        Some(_) => Err("build the shop with the features `shop,postgres`".into()),
    }
}

/// A name that no other process has: a process that was killed leaves its keys and its files.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("shop_{}_{:x}", std::process::id(), since.as_millis())
});

struct Options {
    address: SocketAddr,
    redis: Option<String>,
    postgres: Option<String>,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut options = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 3000)),
            redis: None,
            postgres: None,
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--redis" => options.redis = Some(args.next().ok_or(USAGE)?),
                "--postgres" => options.postgres = Some(args.next().ok_or(USAGE)?),
                _ => options.address = arg.parse().map_err(|_| USAGE)?,
            }
        }
        // A page in the network of an office would let every visitor start storms on this machine.
        if !options.address.ip().is_loopback() {
            return Err("the address must be of this machine, as in 127.0.0.1:3000".into());
        }
        Ok(options)
    }
}

const USAGE: &str = "usage: shop [127.0.0.1:3000] [--redis redis://host:port/] [--postgres postgres://user@host:port/database]";

async fn store(redis: Option<String>) -> Result<(Arc<dyn Store>, &'static str), Failure> {
    Ok(match redis {
        None => (Arc::new(MemoryStore::new()), "memory"),
        Some(url) => (redis_store(&url).await?, "Redis"),
    })
}

#[cfg(feature = "redis")]
async fn redis_store(url: &str) -> Result<Arc<dyn Store>, Failure> {
    Ok(Arc::new(idempotence::RedisStore::connect(url).await?))
}

#[cfg(not(feature = "redis"))]
async fn redis_store(_url: &str) -> Result<Arc<dyn Store>, Failure> {
    Err("build the shop with the features `shop,redis`".into())
}
