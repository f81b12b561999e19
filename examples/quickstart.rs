//! A user clicks "pay" ten times. The card is charged once, and each click gets the receipt.
//!
//! ```text
//! cargo run -p idempotence-examples --bin quickstart
//! cargo run -p idempotence-examples --features redis --bin quickstart -- --store redis://127.0.0.1:6379/
//! ```
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use idempotence::{Error, Idempotency, Once, idempotent};
use tokio::task::JoinSet;

/// What the bank has charged.
static CHARGES: AtomicU64 = AtomicU64::new(0);

/// Charges a card, and returns the number of the receipt. An equal call gets the same receipt for 24 hours.
#[idempotent(
    name = "orders.pay",
    key = "user_id, order_no",
    payload = "cents",
    ttl = "24h",
    replay = true,
    wait = "5s"
)]
async fn pay(user_id: u64, order_no: u64, cents: u64) -> Result<Once<u64>, Error> {
    println!("  the bank charges {cents} cents to user {user_id}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(Once::Executed(CHARGES.fetch_add(1, Ordering::Relaxed) + 1))
}

#[tokio::main]
async fn main() -> ExitCode {
    match quickstart().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn quickstart() -> Result<(), Box<dyn std::error::Error>> {
    let url = store_url(std::env::args().skip(1))?;
    Idempotency::from_url(&url).await?.install()?;
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let order_no = u64::try_from(since_epoch.as_micros())?; // a new order in each run

    println!("Ten clicks at once:");
    let begin = Instant::now();
    let mut clicks: JoinSet<_> = (0..10).map(|_| pay(7, order_no, 4990)).collect();
    let (mut ran, mut got) = (0, 0);
    while let Some(click) = clicks.join_next().await {
        match click?? {
            Once::Executed(1) => ran += 1,
            Once::Replayed(1) => got += 1,
            other => return Err(format!("another receipt: {other:?}").into()),
        }
    }
    println!(
        "  {ran} ran, {got} waited for it: ten times receipt 1; {}",
        took(begin)
    );

    println!("The answer was lost, so the client tries again:");
    let begin = Instant::now();
    let again = pay(7, order_no, 4990).await?;
    println!("  the same receipt: {again:?}; {}", took(begin));

    println!("The same order with another amount:");
    let begin = Instant::now();
    match pay(7, order_no, 5990).await {
        Err(error) => println!("  refused: {}; {}", error.code(), took(begin)),
        Ok(receipt) => return Err(format!("a second payment: {receipt:?}").into()),
    }

    println!("Another order:");
    let begin = Instant::now();
    let other = pay(7, order_no + 1, 4990).await?;
    println!("  a new receipt: {other:?}; {}", took(begin));

    let charges = CHARGES.load(Ordering::Relaxed);
    println!(
        "13 calls, 2 orders, {charges} charges. A charge takes 300 ms, the rest is the guard."
    );
    Ok(())
}

/// The time since `begin`.
fn took(begin: Instant) -> String {
    format!("{:.3} ms", begin.elapsed().as_secs_f64() * 1000.0)
}

fn store_url(mut args: impl Iterator<Item = String>) -> Result<String, String> {
    match (args.next().as_deref(), args.next(), args.next()) {
        (None, ..) => Ok("memory:".to_owned()),
        (Some("--store"), Some(url), None) => Ok(url),
        _ => Err("usage: quickstart [--store memory:|redis://host:port/]".to_owned()),
    }
}
