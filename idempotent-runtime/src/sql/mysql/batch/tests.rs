#![allow(clippy::unwrap_used)]

//! What the statements of a batch must keep. Each rule has a broken variant, and its test must find the mistake.

use std::cell::Cell;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use idempotence_test_servers::MariaDbServer;
use sqlx::{MySqlTransaction, query_scalar};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::*;
use crate::sql::store::MySqlStore;
use crate::store::{Claim, Store as _, Swap};

/// Batches with one mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// A batch waits for rows that other transactions have locked.
    WaitsForLocked,
    /// A batch waits for rows that other transactions have inserted, or claims expired rows that they have locked.
    InsertsLocked,
    /// The stored values are read before the commit.
    ReadsInTransaction,
    /// All changes count as done.
    AnswersForAll,
    /// An attempt that was counted before is counted again.
    RepeatsCounts,
    /// The counters are read after the commit.
    ReadsCountsLate,
    /// A batch that fails does not end its transaction.
    LeavesTransaction,
}

thread_local! {
    static RUNNING: Cell<Option<Broken>> = const { Cell::new(None) };
    /// A statement of another process, which the server runs right after the commit.
    static AFTER_COMMIT: Cell<&'static str> = const { Cell::new("") };
}

pub(super) fn after_commit(reads: &str) -> String {
    AFTER_COMMIT.get().to_owned() + reads
}

pub(super) fn runs(broken: Broken) -> bool {
    RUNNING.get() == Some(broken)
}

/// The statements of a broken variant.
pub(super) fn damaged(changes: String) -> String {
    match RUNNING.get() {
        Some(Broken::WaitsForLocked) => changes.replace(" SKIP LOCKED", ""),
        Some(Broken::InsertsLocked) => changes.replace(" WHERE (CASE", " WHERE TRUE OR (CASE"),
        Some(Broken::RepeatsCounts) => changes.replace("LOCATE(", "0 * LOCATE("),
        _ => changes,
    }
}

/// Checks that batches keep a rule and that their broken variants do not.
fn assert_kept<F: Future<Output = bool>>(rule: impl Fn(MySqlStore) -> F, variants: &[Broken]) {
    let url = || {
        let server = MariaDbServer::shared().expect("a server");
        server.database().expect("a database")
    };
    let is_kept = || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a working database").block_on(async {
            let store = MySqlStore::connect(&url()).await.expect("a store");
            rule(store).await
        })
    };
    assert!(is_kept());
    for broken in variants {
        RUNNING.set(Some(*broken));
        let is_kept = is_kept();
        RUNNING.set(None);
        assert!(!is_kept, "the broken variant {broken:?} is not found");
    }
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

async fn send(
    connection: &mut MySqlConnection,
    mut requests: Vec<Request>,
) -> Result<Vec<(String, Option<Found>)>, Failed> {
    requests.sort_by(|one, other| one.key.cmp(&other.key));
    let refs: Vec<&Request> = requests.iter().collect();
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

async fn number(store: &MySqlStore, statement: &'static str) -> i64 {
    query_scalar(statement)
        .fetch_one(store.pool())
        .await
        .expect("a working database")
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

/// Sessions whose settings could change what statements mean.
const SESSIONS: [&str; 7] = [
    "DO 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SET SESSION sql_select_limit = 1",
    "SET SESSION completion_type = CHAIN",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET SESSION time_zone = '-03:30'",
    "SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY'",
    "SET SESSION sql_mode = 'TRADITIONAL,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
];

#[test]
fn each_change_finds_what_is_stored_in_any_session() {
    let rule = async |store: MySqlStore| {
        for session in SESSIONS {
            run(&store, "DELETE FROM idempotence").await;
            let mut connection = store.pool().acquire().await.unwrap();
            connection.execute(raw_sql(session)).await.unwrap();
            if !each_change_finds_what_is_stored(&store, &mut connection).await {
                return false;
            }
        }
        true
    };
    assert_kept(rule, &[Broken::AnswersForAll]);
}

/// 80 changes of each kind, so their sets need more than 64 bits.
async fn each_change_finds_what_is_stored(
    store: &MySqlStore,
    connection: &mut MySqlConnection,
) -> bool {
    let changes: [Named; 5] = [
        ("claim", claim),
        ("renew", renew),
        ("replace", replace),
        ("exchange", exchange),
        ("remove", remove),
    ];
    let (mut requests, mut rows) = (Vec::new(), Vec::new());
    for (name, change) in changes {
        for at in 0..20 {
            for stored in ["own", "other", "expired", "absent"] {
                let key = format!("{name} {stored} {at}");
                match stored {
                    "own" => rows.push(row(&key, "value", 3600)),
                    "other" => rows.push(row(&key, "another", 3600)),
                    "expired" => rows.push(row(&key, "value", -1)),
                    _ => {}
                }
                requests.push(Request::new(&key, change()));
            }
        }
    }
    insert(store, &rows).await;
    let found = send(connection, requests).await.unwrap();
    found.iter().all(|(key, found)| {
        let expected = if key.contains("other") {
            "Some(Other(b\"another\"))"
        } else if key.contains("claim") || key.contains("own") {
            "Some(Done)"
        } else {
            "Some(Absent)"
        };
        format!("{found:?}") == expected
    })
}

/// The attempts are sent twice, as after a lost answer.
#[test]
fn attempts_at_one_counter_are_added_together() {
    let rule = async |store: MySqlStore| {
        for session in SESSIONS {
            run(&store, "DELETE FROM idempotence").await;
            insert(&store, &[row("expired", "value", -1)]).await;
            let mut connection = store.pool().acquire().await.unwrap();
            connection.execute(raw_sql(session)).await.unwrap();
            for _ in 0..2 {
                let attempts = (0..16).flat_map(|attempt| {
                    ["expired", "new", "newer"].map(|key| Request::new(key, count(attempt)))
                });
                let found = send(&mut connection, attempts.collect()).await.unwrap();
                let numbers = found.into_iter().map(|(key, found)| {
                    let found = found.expect("an answer").into_count();
                    assert!(found.as_ref().unwrap().remaining > TTL / 2);
                    (key, found.unwrap().attempt)
                });
                let expected = ["expired", "new", "newer"]
                    .into_iter()
                    .flat_map(|key| (1..=16).map(move |number| (key.to_owned(), number)));
                if !numbers.eq(expected) {
                    return false;
                }
            }
        }
        true
    };
    assert_kept(rule, &[Broken::RepeatsCounts]);
}

/// A counter remembers its last 32 attempts.
#[test]
fn an_attempt_has_its_number_although_others_count_right_after_it() {
    let rule = async |store: MySqlStore| {
        insert(&store, &[row("taken", "no counter", 3600)]).await;
        let mut connection = store.pool().acquire().await.unwrap();
        let requests = ["counter", "counter", "taken"].into_iter().zip(1..);
        let requests = requests.map(|(key, attempt)| Request::new(key, count(attempt)));
        AFTER_COMMIT.set("UPDATE idempotence SET value = 'forgotten'; ");
        let found = send(&mut connection, requests.collect()).await;
        AFTER_COMMIT.set("");
        let numbers = found.unwrap().into_iter().map(|(_, found)| match found {
            Some(Found::Counted(counted)) => counted.number.ok(),
            _ => None,
        });
        numbers.collect::<Vec<_>>() == [Some(1), Some(2), None]
    };
    assert_kept(rule, &[Broken::ReadsCountsLate]);
}

/// The other changes are done before the row is unlocked. MariaDB and MySQL wait for at least a second for a lock.
#[test]
fn a_locked_row_is_skipped() {
    let rule = async |store: MySqlStore| {
        let changes: [Named; 6] = [
            ("value", renew),
            ("value", replace),
            ("value", exchange),
            ("value", remove),
            ("expired", claim),
            ("absent", claim),
        ];
        for (stored, change) in changes {
            run(&store, "DELETE FROM idempotence").await;
            let mut rows: Vec<_> = match stored {
                "value" => (0..40)
                    .map(|at| row(&format!("{at}"), "value", 3600))
                    .collect(),
                _ => Vec::new(),
            };
            match stored {
                "value" => rows.push(row("locked", "value", 3600)),
                "expired" => rows.push(row("locked", "value", -1)),
                _ => {}
            }
            insert(&store, &rows).await;
            let lock = match stored {
                "absent" => format!("INSERT INTO idempotence VALUES {}", row("locked", "held", 3600)),
                _ => "UPDATE idempotence SET value = 'held', expires_at = expires_at + INTERVAL 1 HOUR \
                      WHERE `key` = 'locked'"
                    .to_owned(),
            };
            let lock = begin(&store, &lock).await;
            let mut connection = store.pool().acquire().await.unwrap();
            let mut requests: Vec<_> = (0..40)
                .map(|at| Request::new(&format!("{at}"), change()))
                .collect();
            requests.push(Request::new("locked", change()));
            let Ok(found) = send(&mut connection, requests).await else {
                return false;
            };
            let is_kept = found.iter().all(|(key, found)| match &**key {
                "locked" => found.is_none(),
                _ => matches!(found, Some(Found::Done)),
            });
            lock.rollback().await.unwrap();
            if !is_kept {
                return false;
            }
        }
        true
    };
    assert_kept(rule, &[Broken::WaitsForLocked, Broken::InsertsLocked]);
}

#[test]
fn a_locked_counter_is_skipped() {
    let rule = async |store: MySqlStore| {
        let mut connection = store.pool().acquire().await.unwrap();
        let counts = |attempt| ["free", "locked"].map(|key| Request::new(key, count(attempt)));
        send(&mut connection, counts(1).into()).await.unwrap();
        let lock = "UPDATE idempotence SET expires_at = expires_at + INTERVAL 1 HOUR WHERE `key` = 'locked'";
        let lock = begin(&store, lock).await;
        let found = send(&mut connection, counts(2).into()).await;
        lock.rollback().await.unwrap();
        let Ok(found) = found else {
            return false;
        };
        found[0].1.is_some() && found[1].1.is_none()
    };
    assert_kept(rule, &[Broken::WaitsForLocked, Broken::InsertsLocked]);
}

/// The batch waits for a removal that is not committed. Meanwhile others change a row that the batch found.
#[test]
fn no_answer_is_older_than_the_commit_or_uncommitted() {
    let rule = async |store: MySqlStore| {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            run(&store, "DELETE FROM idempotence").await;
            let rows = [
                row("a removed", "value", 3600),
                row("taken", "old", 3600),
                row("dirty", "clean", 3600),
            ];
            insert(&store, &rows).await;
            let dirty = begin(
                &store,
                "UPDATE idempotence SET value = 'dirty' WHERE `key` = 'dirty'",
            )
            .await;
            let removal = begin(&store, "DELETE FROM idempotence WHERE `key` = 'a removed'").await;
            let mut connection = store.pool().acquire().await.unwrap();
            // MySQL keeps the last row locked that it reads.
            let keys = ["a removed", "dirty", "taken", "unused"];
            let requests = keys.map(|key| Request::new(key, claim())).into();
            let batch = send(&mut connection, requests);
            let change = async {
                while number(&store, WAITING).await == 0 && Instant::now() < deadline {}
                run(
                    &store,
                    "UPDATE idempotence SET value = 'new' WHERE `key` = 'taken'",
                )
                .await;
                removal.commit().await.unwrap();
            };
            let (found, ()) = futures_util::future::join(batch, change).await;
            dirty.rollback().await.unwrap();
            match found {
                Ok(found) => {
                    return text(&found, "a removed") == "Some(Done)"
                        && text(&found, "dirty") == "Some(Other(b\"clean\"))"
                        && text(&found, "taken") == "Some(Other(b\"new\"))";
                }
                // The batch waits only for a short time.
                Err(failed) => {
                    assert_eq!(failed.stage, Stage::Changes);
                    assert!(Instant::now() < deadline, "{failed:?}");
                }
            }
        }
    };
    assert_kept(rule, &[Broken::ReadsInTransaction]);
}

/// The insert of a batch is running in this database.
const WAITING: &str = "SELECT COUNT(*) FROM information_schema.processlist \
     WHERE db = DATABASE() AND info LIKE '%max_statement_time%' AND id <> CONNECTION_ID()";

#[test]
fn a_batch_that_fails_leaves_no_trace() {
    let rule = async |store: MySqlStore| {
        run(
            &store,
            "ALTER TABLE idempotence ADD CONSTRAINT good CHECK (`key` <> 'refused')",
        )
        .await;
        insert(&store, &[row("held", "value", 3600)]).await;
        let mut connection = store.pool().acquire().await.unwrap();
        let patience = "SET SESSION innodb_lock_wait_timeout = 7";
        connection.execute(raw_sql(patience)).await.unwrap();
        let requests = ["absent", "refused"].map(|key| Request::new(key, claim()));
        let mut requests = Vec::from(requests);
        requests.push(Request::new("held", remove()));
        let failed = send(&mut connection, requests).await.unwrap_err();
        assert_eq!(failed.stage, Stage::Changes);
        assert!(!failed.is_unusable);
        let wait = query_scalar("SELECT CAST(@@innodb_lock_wait_timeout AS SIGNED)");
        let wait: i64 = wait.fetch_one(&mut *connection).await.unwrap();
        // The connection is open, so an open transaction would keep its rows.
        let absent = async { store.claim("absent", &OTHER, TTL).await };
        let absent = timeout(Duration::from_secs(5), absent).await;
        let held = store.get("held").await.unwrap();
        wait == 7 && matches!(absent, Ok(Ok(Claim::Claimed))) && held.is_some()
    };
    assert_kept(rule, &[Broken::LeavesTransaction]);
}

/// The answer is larger than the buffers of the connection, and nobody reads it.
#[test]
fn a_process_that_stops_in_the_middle_of_a_batch_keeps_no_row_locked() {
    let rule = async |store: MySqlStore| {
        let value = "v".repeat(16_384);
        for rows in (0..512).collect::<Vec<_>>().chunks(64) {
            let rows = rows
                .iter()
                .map(|at| row(&format!("taken {at}"), &value, 3600));
            insert(&store, &rows.collect::<Vec<_>>()).await;
        }
        insert(&store, &[row("held", "value", 3600)]).await;
        let mut stopped = store.pool().acquire().await.unwrap();
        let mut requests: Vec<_> = (0..511)
            .map(|at| Request::new(&format!("taken {at}"), claim()))
            .collect();
        requests.push(Request::new("held", replace()));
        requests.sort_by(|one, other| one.key.cmp(&other.key));
        let requests: Vec<&Request> = requests.iter().collect();
        let mut batch = Box::pin(MySql::change_many(&mut stopped, &requests, i32::MAX));
        // Until the request is sent. After this nobody polls the batch.
        let deadline = Instant::now() + MAX_WAIT;
        let running = "SELECT COUNT(*) FROM information_schema.processlist \
                       WHERE db = DATABASE() AND info LIKE '%JSON_TABLE%' AND id <> CONNECTION_ID()";
        while number(&store, running).await == 0 && Instant::now() < deadline {
            if (&mut batch).now_or_never().is_some() {
                break;
            }
        }
        let since = Instant::now();
        let removal = loop {
            // A lock is waited for at most a second.
            if let Ok(removal) = store.remove("held", &OTHER).await
                && removal != Swap::Other(VALUE)
            {
                break removal;
            }
            if since.elapsed() > MAX_WAIT / 10 {
                return false;
            }
        };
        removal == Swap::Done
    };
    assert_kept(rule, &[Broken::ReadsInTransaction]);
}

#[test]
fn large_changes_and_long_keys_are_left_out() {
    let rule = async |store: MySqlStore| {
        let mut connection = store.pool().acquire().await.unwrap();
        let large = Change::Claim {
            value: vec![b'x'; 70_000].into(),
            micros: MICROS,
        };
        let requests = vec![
            Request::new("large", large),
            Request::new(&"l".repeat(513), claim()),
            Request::new("\u{1F980} \"quoted\" \\ \0", claim()),
        ];
        let found = send(&mut connection, requests).await.unwrap();
        let done = found
            .iter()
            .filter(|(_, found)| matches!(found, Some(Found::Done)));
        let done: Vec<_> = done.map(|(key, _)| &**key).collect();
        let stored = store.get(done[0]).await.unwrap();
        done == ["\u{1F980} \"quoted\" \\ \0"] && stored.is_some_and(|entry| entry.value == VALUE)
    };
    assert_kept(rule, &[]);
}

/// What the statements of a batch set before they lock rows.
const SEEN: &str = "SET @idempotence_now = UTC_TIMESTAMP(6), @idempotence_seen0 = 1, \
     @idempotence_seen1 = 0, @idempotence_seen2 = 0, @idempotence_seen3 = 0, @idempotence_seen4 = 0, \
     @idempotence_seen5 = 0, @idempotence_seen6 = 0, @idempotence_seen7 = 0";

#[tokio::test]
async fn the_answers_of_a_session_without_the_changes_are_unknown() {
    let url = MariaDbServer::shared().unwrap().database().unwrap();
    let store = MySqlStore::connect(&url).await.unwrap();
    let changes = [claim(), renew(), replace(), remove()];
    let keys = ["a", "b", "c", "d"];
    let requests = keys.into_iter().zip(changes);
    let requests: Vec<_> = requests
        .map(|(key, change)| Request::new(key, change))
        .collect();
    let requests: Vec<&Request> = requests.iter().collect();
    let documents = Documents::of(&requests);
    let mut answers = Answers::to(&requests, &documents);
    let mut connection = store.pool().acquire().await.unwrap();
    // A proxy has sent the variables to another session.
    let transaction = Transaction::of(&documents);
    let failed = transaction.run(&mut connection, &mut answers).await;
    assert_eq!(failed.unwrap_err().stage, Stage::Commit);
}

#[tokio::test]
async fn mysql_finds_the_rows_of_a_batch_by_their_keys() {
    let url = MariaDbServer::shared().unwrap().database().unwrap();
    let store = MySqlStore::connect(&url).await.unwrap();
    for rows in (0..20_000).collect::<Vec<_>>().chunks(1000) {
        let rows = rows
            .iter()
            .map(|at| row(&format!("key {at}"), "value", at % 7 - 3));
        insert(&store, &rows.collect::<Vec<_>>()).await;
    }
    run(&store, "ANALYZE TABLE idempotence").await;
    let mut connection = store.pool().acquire().await.unwrap();
    let changes: [fn() -> Change; 5] = [claim, renew, replace, remove, || count(1)];
    let requests = (0..200).map(|at| Request::new(&format!("key {}", at * 7), changes[at % 5]()));
    let requests: Vec<_> = requests.collect();
    let documents = Documents::of(&requests.iter().collect::<Vec<_>>());
    let mut set = query(sql::SET).bind("batch");
    for text in documents.texts() {
        set = set.bind(text);
    }
    connection.execute(set).await.unwrap();
    connection.execute(raw_sql(SEEN)).await.unwrap();
    let transaction = Transaction::of(&documents).text;
    let mut lookups = 0;
    for statement in transaction.split("; ") {
        let Some((_, statement)) = statement
            .split_once("idempotence AS s")
            .map(|_| ("", statement.trim_start()))
        else {
            continue;
        };
        let explain = AssertSqlSafe(format!("EXPLAIN FORMAT = TRADITIONAL {statement}"));
        for row in connection.fetch_all(raw_sql(explain)).await.unwrap() {
            if row.get::<Option<String>, _>("table").as_deref() == Some("s") {
                assert_eq!(row.get::<String, _>("key"), "PRIMARY", "{statement}");
                assert_eq!(row.get::<String, _>("type"), "eq_ref", "{statement}");
                lookups += 1;
            }
        }
    }
    assert_eq!(lookups, 4 + 2 * 3 + 5);
}
