//! A consumer imports a batch of 10,000 rows, and 1 in 100 is a duplicate: first in a plain loop, then with `run_each`.
//!
//! ```text
//! cargo run --release -p idempotence-examples --features redis --bin import_rows -- --store redis://127.0.0.1:6379/
//! cargo run --release -p idempotence-examples --features redis --bin import_rows -- --store redis://127.0.0.1:6379/ --rows 1000 --limit 32
//! ```
//!
//! A loop awaits two round trips for each row: the claim, and the record of the end. With `run_each` up to 256 calls run at the same time,
//! so that their operations go to the server together. In the memory of this process there are no round trips to save.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::error::Error as StdError;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use idempotence::{Error, GuardedCall, Idempotency};

/// How long a row that is delivered again is recognized.
const TTL: Duration = Duration::from_hours(1);

#[derive(Debug)]
struct Row {
    number: usize,
    cents: u64,
}

/// The table of the consumer. Without a guard, a row that comes twice would be added twice.
#[derive(Debug, Default)]
struct Table(Mutex<HashMap<usize, (u32, u64)>>);

impl Table {
    fn insert(&self, row: &Row) {
        let mut rows = self.0.lock().expect("no panic while it is locked");
        let (times, cents) = rows.entry(row.number).or_default();
        *times += 1;
        *cents += row.cents;
    }
}

/// What became of the rows of a batch.
#[derive(Debug, Default)]
struct Summary {
    imported: usize,
    duplicates: usize,
    failed: usize,
}

impl Summary {
    fn add(&mut self, number: usize, outcome: &Result<(), Error>) {
        match outcome {
            Ok(()) => self.imported += 1,
            Err(error) if error.is_duplicate() => self.duplicates += 1,
            Err(error) => {
                // One row stops no other. A consumer would leave its message in the queue.
                eprintln!("row {number}: {error}");
                self.failed += 1;
            }
        }
    }
}

/// Each row is an ordinary call. `batch` makes the keys of the two runs different.
fn import(idempotency: &Idempotency, batch: &str, number: usize) -> GuardedCall {
    let call = idempotency.call("import.row").key(batch).key(&number);
    call.ttl(TTL)
}

async fn in_a_loop(idempotency: &Idempotency, batch: &str, rows: &[Row], table: &Table) -> Summary {
    let mut summary = Summary::default();
    for row in rows {
        let call = import(idempotency, batch, row.number);
        summary.add(
            row.number,
            &call
                .run(async {
                    table.insert(row);
                    Ok(())
                })
                .await,
        );
    }
    summary
}

async fn with_run_each(
    idempotency: &Idempotency,
    batch: &str,
    rows: &[Row],
    table: &Table,
    limit: usize,
) -> Summary {
    let mut summary = Summary::default();
    let import = idempotency.call("import.row").key(batch).ttl(TTL);
    let mut outcomes = import.run_each(rows, limit, |call, row| async move {
        let outcome = call
            .key(&row.number)
            .run(async {
                table.insert(row);
                Ok(())
            })
            .await;
        (row.number, outcome)
    });
    while let Some((number, outcome)) = outcomes.next().await {
        summary.add(number, &outcome);
    }
    summary
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn StdError>> {
    let options = Options::read(std::env::args().skip(1))?;
    // Nobody waits for an import, so it waits longer for a slow store than a request does.
    let builder = Idempotency::builder_from_url(&options.store).await?;
    let idempotency = builder.deadline(Duration::from_mins(1)).build()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let rows = rows(options.rows);

    let (table, began) = (Table::default(), Instant::now());
    let batch = format!("loop {}", now.as_nanos());
    let summary = in_a_loop(&idempotency, &batch, &rows, &table).await;
    let slow = began.elapsed();
    report("loop", &summary, &table, slow);

    let (table, began) = (Table::default(), Instant::now());
    let batch = format!("run_each {}", now.as_nanos());
    let summary = with_run_each(&idempotency, &batch, &rows, &table, options.limit).await;
    let fast = began.elapsed();
    report("run_each", &summary, &table, fast);

    let times = slow.as_secs_f64() / fast.as_secs_f64();
    println!("run_each needs 1/{times:.1} of the time");
    Ok(())
}

/// The last of each hundred rows is a row that came before.
fn rows(count: usize) -> Vec<Row> {
    let row = |at: usize| Row {
        number: if at % 100 == 99 { at - 50 } else { at },
        cents: 250,
    };
    (0..count).map(row).collect()
}

fn report(name: &str, summary: &Summary, table: &Table, took: Duration) {
    let Summary {
        imported,
        duplicates,
        failed,
    } = summary;
    let rows = table.0.lock().expect("no panic while it is locked");
    let twice = rows.values().filter(|(times, _)| *times > 1).count();
    println!(
        "{name}: {imported} imported, {duplicates} duplicates, {failed} failed; {} rows in the table, {twice} of them twice; {took:.1?}",
        rows.len()
    );
}

struct Options {
    store: String,
    rows: usize,
    limit: usize,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, Box<dyn StdError>> {
        let mut options = Self {
            store: "memory:".to_owned(),
            rows: 10_000,
            limit: 256,
        };
        while let Some(name) = args.next() {
            match (name.as_str(), args.next()) {
                ("--store", Some(url)) => options.store = url,
                ("--rows", Some(rows)) => options.rows = rows.parse()?,
                ("--limit", Some(limit)) => options.limit = limit.parse()?,
                _ => {
                    return Err(
                        "usage: import_rows [--store memory:|redis://host:port/] [--rows 10000] [--limit 256]".into(),
                    );
                }
            }
        }
        Ok(options)
    }
}
