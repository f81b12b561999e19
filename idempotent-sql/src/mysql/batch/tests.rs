#![allow(clippy::unwrap_used)]

//! What a batch must keep. Each rule has a broken variant, and its test must find the mistake.

mod rules;
mod sessions;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use idempotence_test_servers::MariaDbServer;
use idempotent_runtime::store::{Claim, Store as _, Swap};
use sqlx::{MySqlTransaction, query_scalar};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::*;
use crate::mutation::{self, Mutation};
use crate::store::MySqlStore;

thread_local! {
    /// Changes the text of each transaction.
    static ALTER: RefCell<Box<dyn FnMut(String) -> String>> = RefCell::new(Box::new(damaged));
}

/// The text of a transaction as a test wants it.
pub(super) fn altered(transaction: String) -> String {
    ALTER.with_borrow_mut(|alter| alter(transaction))
}

/// Changes the text of the transactions on this thread from now on.
fn alter(change: impl FnMut(String) -> String + 'static) {
    ALTER.set(Box::new(change));
}

/// The statements with the mistake of this thread.
fn damaged(transaction: String) -> String {
    for (mistake, part, wrong) in [
        (Mutation::WaitsForLocked, " SKIP LOCKED", ""),
        (
            Mutation::InsertsLocked,
            " WHERE (CASE",
            " WHERE TRUE OR (CASE",
        ),
        (Mutation::RepeatsCounts, "LOCATE(", "0 * LOCATE("),
    ] {
        if mutation::is_made(mistake) {
            return transaction.replace(part, wrong);
        }
    }
    transaction
}

/// Checks that batches keep a rule and that they do not with any of these mistakes.
fn assert_kept<F: Future<Output = bool>>(rule: impl Fn(MySqlStore) -> F, mistakes: &[Mutation]) {
    let is_kept = || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let server = MariaDbServer::shared().expect("a server");
            let url = server.database().expect("a database");
            let store = MySqlStore::connect(&url).await.expect("a store");
            rule(store).await
        })
    };
    mutation::assert_kept(is_kept, mistakes);
}

const VALUE: Bytes = Bytes::from_static(b"value");
const OTHER: Bytes = Bytes::from_static(b"other");
const TTL: Duration = Duration::from_mins(1);
const MICROS: i64 = 60_000_000;
/// Far longer than any operation takes.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// A change, and a name.
type Named = (&'static str, fn() -> Change);

fn claim() -> Change {
    Change::Claim {
        value: VALUE,
        micros: MICROS,
    }
}

fn count(attempt: u128) -> Change {
    Change::Count {
        attempt,
        micros: MICROS,
    }
}

fn renew() -> Change {
    Change::Renew {
        expected: VALUE,
        micros: MICROS,
    }
}

fn replace() -> Change {
    Change::Replace {
        expected: VALUE,
        value: OTHER,
        micros: MICROS,
    }
}

fn exchange() -> Change {
    Change::Exchange {
        expected: VALUE,
        value: OTHER,
    }
}

fn remove() -> Change {
    Change::Remove { expected: VALUE }
}

/// Sends a batch. On a slow machine the server may stop its insert, which waits for others for at most 100 ms: then it is sent again.
async fn send(
    connection: &mut MySqlConnection,
    mut requests: Vec<ChangeRequest>,
) -> Result<Vec<(String, Option<Found>)>, Failed> {
    let mut tries = 5;
    loop {
        let found = send_once(connection, &mut requests).await;
        let is_late =
            |failed: &Failed| format!("{:?}", failed.error).contains("max_statement_time");
        tries -= 1;
        if tries == 0 || !found.as_ref().is_err_and(is_late) {
            return found;
        }
    }
}

/// Sends a batch that may meet a locked row.
async fn send_once(
    connection: &mut MySqlConnection,
    requests: &mut [ChangeRequest],
) -> Result<Vec<(String, Option<Found>)>, Failed> {
    requests.sort_by(|one, other| one.key.cmp(&other.key));
    let refs: Vec<&ChangeRequest> = requests.iter().collect();
    let found = MySql::change_many(connection, &refs, i32::MAX).await?;
    let keys = requests.iter().map(|request| request.key.to_string());
    Ok(keys.zip(found).collect())
}

/// What a change found, as a text.
fn text(found: &[(String, Option<Found>)], key: &str) -> String {
    let mut of_key = found.iter().filter(|(other, _)| other == key);
    format!("{:?}", of_key.next().expect("a working database").1)
}

async fn run(store: &MySqlStore, statement: &str) {
    let statement = raw_sql(AssertSqlSafe(statement.to_owned()));
    statement
        .execute(store.pool())
        .await
        .expect("a working database");
}

/// A row that is live for this number of seconds.
fn row(key: &str, value: &str, seconds: i32) -> String {
    format!("('{key}', '{value}', UTC_TIMESTAMP(6) + INTERVAL {seconds} SECOND)")
}

async fn insert(store: &MySqlStore, rows: &[String]) {
    if !rows.is_empty() {
        run(
            store,
            &format!("INSERT INTO idempotence VALUES {}", rows.join(", ")),
        )
        .await;
    }
}

/// Whether the server runs a statement with this text, which is given in two parts: so the text is not in the query itself, which
/// the server lists a moment longer than it runs.
async fn is_running(store: &MySqlStore, start: &str, rest: &str) -> bool {
    let running = "SELECT COUNT(*) FROM information_schema.processlist \
                   WHERE db = DATABASE() AND info LIKE CONCAT('%', ?, ?, '%')";
    let running = query_scalar(running).bind(start).bind(rest);
    let running: i64 = running.fetch_one(store.pool()).await.unwrap();
    running > 0
}

async fn begin(store: &MySqlStore, statement: &str) -> MySqlTransaction<'static> {
    let mut transaction = store.pool().begin().await.expect("a working database");
    let statement = raw_sql(AssertSqlSafe(statement.to_owned()));
    statement
        .execute(&mut *transaction)
        .await
        .expect("a working database");
    transaction
}
