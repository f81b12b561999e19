//! A user clicks "upload" ten times. The import runs once.
//!
//! ```text
//! cargo run -p idempotence-examples --bin quickstart
//! cargo run -p idempotence-examples --features redis --bin quickstart -- --store redis://127.0.0.1:6379/
//! ```
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::time::Duration;

use idempotence::{Error, Idempotency, idempotent};
use tokio::task::JoinSet;

#[derive(Debug)]
struct Report {
    rows: usize,
}

/// Imports a file of comma-separated lines. An import is slow, and must not run twice at the same time.
#[idempotent(key = "user_id, file_md5", ttl = "30s", release = true)]
async fn upload(user_id: u64, file_md5: String, file: Vec<u8>) -> Result<Report, Error> {
    println!("user {user_id}: importing {file_md5} …");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let rows = file.split(|byte| *byte == b'\n').count();
    Ok(Report { rows })
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

    let mut clicks = JoinSet::new();
    for _ in 0..10 {
        let file = b"id,amount\n1,100\n2,250".to_vec();
        clicks.spawn(upload(7, "9f86d081884c7d65".to_owned(), file));
    }

    let (mut ran, mut refused) = (0, 0);
    while let Some(click) = clicks.join_next().await {
        match click? {
            Ok(report) => {
                println!("imported {} rows", report.rows);
                ran += 1;
            }
            Err(error) if error.is_duplicate() => {
                if refused == 0 {
                    println!("refused: {error}");
                }
                refused += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    println!("10 calls: {ran} ran, {refused} refused");
    Ok(())
}

fn store_url(mut args: impl Iterator<Item = String>) -> Result<String, String> {
    match (args.next().as_deref(), args.next(), args.next()) {
        (None, ..) => Ok("memory:".to_owned()),
        (Some("--store"), Some(url), None) => Ok(url),
        _ => Err("usage: quickstart [--store memory:|redis://host:port/]".to_owned()),
    }
}
