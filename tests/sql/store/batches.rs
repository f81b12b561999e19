//! Changes of many callers in one transaction.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use idempotence_test_servers::MariaDbServer;
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Error, Idempotency, Store, StoreError};
use idempotent_sql::sql::sqlx;
use idempotent_sql::sql::sqlx::{MySql, Postgres, Sqlite};
use idempotent_sql::{SqlStore, SqliteStore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::measure::TRIES;
use crate::store::databases::{Fresh, TTL, connected, leave_expired, narrow, store};
use crate::store::races::claimed;
use support::databases::Kind;
use support::patient::patient;

static VALUE: Bytes = crate::store::databases::VALUE;
static OTHER: Bytes = crate::store::databases::OTHER;

on_every_database! {
    many_changes_at_once_keep_their_own_answers
    attempts_at_few_counters_have_their_own_numbers
    changes_of_one_key_keep_their_order
    two_stores_that_claim_in_opposite_order_have_one_winner_each
    many_calls_that_wait_for_a_connection_name_the_pool
    a_refused_change_fails_alone
    changes_that_are_dropped_before_they_are_sent_are_not_sent
}

/// A database that can refuse one key.
trait Refusing: Fresh {
    /// Makes the database refuse the key `bad`.
    const REFUSE_BAD: &'static str;
}

impl Refusing for Postgres {
    const REFUSE_BAD: &'static str =
        "ALTER TABLE idempotence ADD CONSTRAINT good CHECK (key <> 'bad')";
}

impl Refusing for MySql {
    const REFUSE_BAD: &'static str =
        "ALTER TABLE idempotence ADD CONSTRAINT good CHECK (`key` <> 'bad')";
}

impl Refusing for Sqlite {
    const REFUSE_BAD: &'static str = "CREATE TRIGGER good BEFORE INSERT ON idempotence WHEN NEW.key = 'bad' \
         BEGIN SELECT RAISE(ABORT, 'bad'); END";
}

/// A store whose changes go in batches, because other callers use it all the time.
pub(crate) async fn crowded<DB: Fresh>() -> SqlStore<DB> {
    let store = store::<DB>().await;
    for caller in 0..4 {
        let store = store.clone();
        tokio::spawn(async move {
            let key = format!("crowd {caller}");
            loop {
                // Another caller may hold the file of the database.
                let _ = store.claim(&key, &VALUE, TTL).await;
                let _ = store.remove(&key, &VALUE).await;
            }
        });
    }
    tokio::task::yield_now().await;
    store
}

const MANY: usize = 200;

fn keys(name: &str) -> Vec<String> {
    (0..MANY).map(|key| format!("{name} {key}")).collect()
}

fn values() -> Vec<Bytes> {
    let value = |at| Bytes::from(format!("value {at}"));
    (0..MANY).map(value).collect()
}

async fn all<T>(
    changes: impl Iterator<Item = impl Future<Output = Result<T, StoreError>>>,
) -> Vec<T> {
    let answers = join_all(changes).await;
    answers.into_iter().map(Result::unwrap).collect()
}

async fn claim_all(store: &impl Store, keys: &[String]) -> Vec<Claim> {
    all(keys.iter().map(|key| store.claim(key, &VALUE, TTL))).await
}

/// Whether each key was claimed. On a slow machine a claim may wait too long for a connection, and then it is sent again.
async fn claim_patiently(store: &impl Store, keys: &[String]) -> Vec<bool> {
    let claims = keys.iter().map(|key| claimed(store, key, &VALUE, TTL));
    join_all(claims).await
}

async fn many_changes_at_once_keep_their_own_answers<DB: Fresh>() {
    let store = store::<DB>().await;
    let (keys, values) = (keys("own"), values());
    let mine = || keys.iter().zip(&values);
    // Every third key belongs to another caller, and every fifth record has expired.
    for key in keys.iter().step_by(3) {
        store.claim(key, &OTHER, TTL).await.unwrap();
    }
    for (at, key) in keys.iter().enumerate().step_by(5) {
        if at % 3 != 0 {
            leave_expired(&store, key).await;
        }
    }
    let is_other = |at: usize| at.is_multiple_of(3);
    let claims = all(mine().map(|(key, value)| store.claim(key, value, TTL))).await;
    for (at, claim) in claims.into_iter().enumerate() {
        let expected = if is_other(at) {
            Claim::Taken(OTHER.clone())
        } else {
            Claim::Claimed
        };
        assert_eq!(claim, expected, "{at}");
    }
    let swaps = |swaps: Vec<Swap>| {
        for (at, swap) in swaps.into_iter().enumerate() {
            let expected = if is_other(at) {
                Swap::Other(OTHER.clone())
            } else {
                Swap::Done
            };
            assert_eq!(swap, expected, "{at}");
        }
    };
    swaps(all(mine().map(|(key, value)| store.replace(key, value, value, TTL))).await);
    swaps(all(mine().map(|(key, value)| store.replace(key, value, &VALUE, TTL))).await);
    let exchanges = mine().map(|(key, value)| store.exchange(key, &VALUE, value));
    swaps(all(exchanges).await);
    for (at, (key, value)) in mine().enumerate() {
        let entry = store.get(key).await.unwrap().unwrap();
        let expected = if is_other(at) { &OTHER } else { value };
        assert_eq!(entry.value, expected, "{at}");
        assert!(entry.ttl.unwrap() > TTL / 2, "{at}");
    }
    // Different kinds of changes in the same batches.
    let changes = mine()
        .enumerate()
        .map(async |(at, (key, value))| match at % 4 {
            0 => store.remove(key, value).await,
            1 => store.replace(key, value, value, TTL).await,
            2 => store.replace(key, value, &VALUE, TTL).await,
            _ => store.exchange(key, value, &VALUE).await,
        });
    swaps(all(changes).await);
    let removals = all(keys.iter().map(|key| store.remove(key, &OTHER))).await;
    for (at, swap) in removals.into_iter().enumerate() {
        let expected = match (is_other(at), at % 4) {
            (true, _) => Swap::Done,
            (false, 0) => Swap::Absent,
            (false, 1) => Swap::Other(values[at].clone()),
            (false, _) => Swap::Other(VALUE.clone()),
        };
        assert_eq!(swap, expected, "{at}");
    }
}

async fn attempts_at_few_counters_have_their_own_numbers<DB: Fresh>() {
    let store = store::<DB>().await;
    let counts = (0..MANY).map(async |at| {
        let key = format!("counter {}", at % 4);
        let attempt = 0x1000 + u128::try_from(at).unwrap();
        let count = store.count(&key, attempt, TTL).await?;
        assert!(count.remaining > TTL / 2);
        Ok((at % 4, count.attempt))
    });
    let mut numbers = all(counts).await;
    numbers.sort_unstable();
    let of_each = 1..=u64::try_from(MANY / 4).unwrap();
    let expected: Vec<_> = (0..4)
        .flat_map(|counter| of_each.clone().map(move |number| (counter, number)))
        .collect();
    assert_eq!(numbers, expected);
}

async fn changes_of_one_key_keep_their_order<DB: Fresh>() {
    let url = DB::url();
    // While this is open, no closed connection copies the log of SQLite into its file.
    let _open = connected::<DB>(&url).await;
    let store = narrow::<DB>(&url).await;
    let keys = keys("order");
    let changes = keys.iter().map(async |key| {
        let claim = store.claim(key, &VALUE, TTL);
        let (claim, removal) = join(claim, store.remove(key, &VALUE)).await;
        Ok((claim?, removal?))
    });
    for (at, answers) in all(changes).await.into_iter().enumerate() {
        assert_eq!(answers, (Claim::Claimed, Swap::Done), "{at}");
    }
}

async fn two_stores_that_claim_in_opposite_order_have_one_winner_each<DB: Fresh>() {
    let url = DB::url();
    let one = connected::<DB>(&url).await;
    let other = connected::<DB>(&url).await;
    for round in 0..5 {
        let keys = keys(&format!("round {round}"));
        let reversed: Vec<_> = keys.iter().rev().cloned().collect();
        let racing = |store: &SqlStore<DB>, keys: Vec<String>, value: Bytes| {
            let store = store.clone();
            tokio::spawn(async move {
                let won = keys.iter().map(|key| {
                    let (store, value) = (&store, &value);
                    async move { Ok(claimed(store, key, value, TTL).await) }
                });
                all(won).await
            })
        };
        let racers = join(
            racing(&one, keys, VALUE.clone()),
            racing(&other, reversed, OTHER.clone()),
        );
        let (won, mut lost) = racers.await;
        let won = won.unwrap();
        lost.as_mut().unwrap().reverse();
        for (at, lost) in lost.unwrap().into_iter().enumerate() {
            assert_ne!(won[at], lost, "{at}");
        }
    }
}

async fn many_calls_that_wait_for_a_connection_name_the_pool<DB: Fresh>() {
    let store = narrow::<DB>(&DB::url()).await;
    let taken = store.pool().acquire().await.unwrap();
    let handle = Idempotency::new(store.clone());
    let calls = (0..20).map(async |key: u32| {
        let call = handle.call("pay").key(&key).ttl(TTL);
        call.run(async { Ok::<_, Error>(()) }).await
    });
    for refused in join_all(calls).await {
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("had no free connection in time: its only one is in use"),
            "{text}"
        );
    }
    drop(taken);
    // None of the calls has left a claim.
    let handle = patient(store);
    let calls = (0..20).map(async |key: u32| {
        let call = handle.call("pay").key(&key).ttl(TTL);
        call.run(async { Ok::<_, Error>(()) }).await
    });
    for ran in join_all(calls).await {
        ran.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_a_batch_share_a_transaction_unless_batches_are_off() {
    let transactions = async |batch: bool| {
        let url = format!("{}?batch={batch}", Postgres::url());
        let store = connected::<Postgres>(&url).await;
        let claims = claim_patiently(&store, &keys("few")).await;
        assert_eq!(claims, [true; MANY]);
        let connections = store.pool().size();
        let transactions = "SELECT count(DISTINCT xmin::text) FROM idempotence";
        (
            Postgres::number(store.pool(), transactions).await,
            connections,
        )
    };
    assert_eq!(transactions(false).await, (200, 10));
    // If this process stands still within a batch, the server ends its transaction, and each claim goes alone.
    let mut batches = Vec::new();
    while batches.len() < TRIES {
        let (transactions, connections) = transactions(true).await;
        if transactions < 20 && connections <= 4 {
            return;
        }
        batches.push((transactions, connections));
    }
    panic!("none of {TRIES} rounds was in few transactions: {batches:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_a_batch_are_one_statement_on_mysql_unless_batches_are_off() {
    let server = MariaDbServer::start().unwrap();
    let statements = async |batch: bool| {
        let url = format!("{}?batch={batch}", server.database().unwrap());
        let store = connected::<MySql>(&url).await;
        let statements = "SELECT CAST(SUM(variable_value) AS SIGNED) FROM information_schema.global_status \
                          WHERE variable_name IN ('COM_INSERT', 'COM_INSERT_SELECT')";
        let before = MySql::number(store.pool(), statements).await;
        let claims = claim_patiently(&store, &keys("few")).await;
        assert_eq!(claims, [true; MANY]);
        MySql::number(store.pool(), statements).await - before
    };
    assert_eq!(statements(false).await, 200);
    let mut batches = Vec::new();
    while batches.len() < TRIES {
        batches.push(statements(true).await);
        if batches.last() < Some(&100) {
            return;
        }
    }
    panic!("none of {TRIES} rounds was in few statements: {batches:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_calls_of_a_file_at_once_are_served() {
    let handle = patient(store::<Sqlite>().await);
    let mut calls = JoinSet::new();
    for key in 0..500 {
        let handle = handle.clone();
        calls.spawn(async move {
            let call = handle.call("pay").key(&key).ttl(TTL);
            call.run(async { Ok::<_, Error>(()) }).await
        });
    }
    for call in calls.join_all().await {
        call.unwrap();
    }
}

/// SQLite ends a transaction by itself if the disk is full. The client of SQLite does not notice this, and then never commits.
#[tokio::test]
async fn a_file_that_is_full_for_a_while_does_not_leave_a_transaction_open() {
    let store = store::<Sqlite>().await;
    let full = "PRAGMA max_page_count = 1";
    sqlx::query(full).execute(store.pool()).await.unwrap();
    let large = Bytes::from(vec![b'x'; 100_000]);
    let keys = keys("full");
    let claims = keys.iter().map(|key| store.claim(key, &large, TTL));
    let claims = join_all(claims).await;
    assert!(claims.iter().any(Result::is_err), "the file is not full");

    // The application shares the pool.
    let mut connection = store.pool().acquire().await.unwrap();
    let space = sqlx::query("PRAGMA max_page_count = 1000000");
    space.execute(&mut *connection).await.unwrap();
    let transaction = sqlx::Connection::begin(&mut *connection).await.unwrap();
    transaction.rollback().await.unwrap();
    drop(connection);
    assert_eq!(
        store.claim("later", &VALUE, TTL).await.unwrap(),
        Claim::Claimed
    );
    let connection = store.pool().acquire().await.unwrap();
    assert!(!sqlx::Connection::is_in_transaction(&*connection));
    drop(connection);
    assert_eq!(
        claim_all(&store, &self::keys("later")).await,
        vec![Claim::Claimed; MANY]
    );
}

#[tokio::test]
async fn a_key_that_cannot_be_encoded_fails_alone() {
    let store = store::<Postgres>().await;
    let mut keys = keys("good");
    "bad\0key".clone_into(&mut keys[20]);
    let claims = keys.iter().map(|key| store.claim(key, &VALUE, TTL));
    for (at, claim) in join_all(claims).await.into_iter().enumerate() {
        assert_eq!(claim.is_ok(), at != 20, "{at}: {claim:?}");
    }
}

/// A batch whose callers are all dropped leaves a usable connection, also to a database that ends with its connection.
#[tokio::test]
async fn a_database_in_memory_outlives_dropped_batches() {
    let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
    store.claim("held", &VALUE, TTL).await.unwrap();
    for looks in 0..60 {
        let keys: Vec<_> = (0..10).map(|key| format!("{looks} {key}")).collect();
        let claims = join_all(keys.iter().map(|key| store.claim(key, &VALUE, TTL)));
        let given_up = async {
            for _ in 0..looks {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = claims => {}
            () = given_up => {}
        }
        let fresh = store.claim(&format!("fresh {looks}"), &VALUE, TTL).await;
        assert_eq!(fresh.unwrap(), Claim::Claimed);
    }
    let entry = store.get("held").await.unwrap();
    assert_eq!(entry.unwrap().value, VALUE);
}

async fn changes_that_are_dropped_before_they_are_sent_are_not_sent<DB: Fresh>() {
    let store = narrow::<DB>(&DB::url()).await;
    let taken = store.pool().acquire().await.unwrap();
    let keys: Vec<_> = (0..10).map(|key| format!("key {key}")).collect();
    let mut claims: Vec<Pin<Box<_>>> = keys
        .iter()
        .map(|key| Box::pin(store.claim(key, &VALUE, TTL)))
        .collect();
    for claim in &mut claims {
        let now = timeout(Duration::ZERO, claim.as_mut()).await;
        now.unwrap_err();
    }
    // A batch waits for the connection now, or it begins later, without the dropped changes.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let last = claims.pop().unwrap();
    drop(claims);
    drop(taken);
    assert_eq!(last.await.unwrap(), Claim::Claimed);
    for key in &keys[..9] {
        assert!(store.get(key).await.unwrap().is_none(), "{key}");
    }
}

async fn a_refused_change_fails_alone<DB: Refusing>() {
    let store = store::<DB>().await;
    DB::run(store.pool(), DB::REFUSE_BAD).await.unwrap();
    for _ in 0..3 {
        let mut keys = keys("good");
        keys.truncate(50);
        "bad".clone_into(&mut keys[20]);
        let claims = keys.iter().map(|key| store.claim(key, &VALUE, TTL));
        for (at, claim) in join_all(claims).await.into_iter().enumerate() {
            if at == 20 {
                claim.unwrap_err();
            } else {
                assert_eq!(claim.unwrap(), Claim::Claimed, "{at}");
                let stored = store.get(&keys[at]).await.unwrap();
                assert_eq!(stored.unwrap().value, VALUE, "{at}");
            }
        }
        assert!(store.get("bad").await.unwrap().is_none());
        keys.remove(20);
        let removals = all(keys.iter().map(|key| store.remove(key, &VALUE))).await;
        assert!(removals.iter().all(|swap| *swap == Swap::Done));
    }
}
