//! The shop: every mechanism side by side in a browser, with real double clicks, lost replies and crashes.
//!
//! ```text
//! cargo run -p idempotence-examples --features shop --bin shop
//! cargo run -p idempotence-examples --features shop --bin shop -- 127.0.0.1:3000
//! cargo run -p idempotence-examples --features shop,redis --bin shop -- --redis redis://127.0.0.1:6379/
//! ```
//!
//! It needs nothing installed: the store is in memory, and the database of each run is an SQLite file in a temporary folder. It
//! listens only on this machine.
//!
//! Each file of `mechanisms` is one way to sell one phone once. `scenarios.rs` plays what happens to clicks, and `bank.rs` counts
//! how many times money was taken.
#![allow(clippy::print_stdout)]

use std::net::SocketAddr;
use std::sync::Arc;

use idempotence::{MemoryStore, Store};
use tokio::net::TcpListener;

use crate::run::Failure;
use crate::server::Server;

mod app;
mod attempt;
mod bank;
mod database;
mod events;
mod link;
mod mechanisms;
mod order;
mod report;
mod run;
mod scenarios;
mod server;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    let (store, store_name) = store(options.redis).await?;
    let server = Server::open(store, store_name).await?;
    let listener = TcpListener::bind(options.address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // Pages keep their stream of events open, so there is no end of all requests to wait for.
    tokio::select! {
        ended = axum::serve(listener, app::app(server)) => ended?,
        asked = tokio::signal::ctrl_c() => asked?,
    }
    Ok(())
}

struct Options {
    address: SocketAddr,
    redis: Option<String>,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut options = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 3000)),
            redis: None,
        };
        while let Some(arg) = args.next() {
            if arg == "--redis" {
                options.redis = Some(args.next().ok_or(USAGE)?);
            } else {
                options.address = arg.parse().map_err(|_| USAGE)?;
            }
        }
        // A page in the network of an office would let every visitor start storms on this machine.
        if !options.address.ip().is_loopback() {
            return Err("the address must be of this machine, as in 127.0.0.1:3000".into());
        }
        Ok(options)
    }
}

const USAGE: &str = "usage: shop [127.0.0.1:3000] [--redis redis://host:port/]";

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
