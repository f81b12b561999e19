//! Changes of many callers in one transaction.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_runtime::sql::sqlx;
use idempotent_runtime::sql::sqlx::{MySql, Postgres, Sqlite};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{
    Error, Idempotency, MySqlStore, PostgresStore, SqlStore, SqliteStore, Store, StoreError,
    StoreErrorKind,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::store::databases::{Fresh, MAX_WAIT, TTL, kind, leave_expired, narrow, store};
use support::databases::Kind;

static VALUE: Bytes = crate::store::databases::VALUE;
static OTHER: Bytes = crate::store::databases::OTHER;

on_every_database! {
    many_changes_at_once_keep_their_own_answers
    attempts_at_few_counters_have_their_own_numbers
    changes_of_one_key_keep_their_order
    two_stores_that_claim_in_opposite_order_have_one_winner_each
    many_calls_that_wait_for_a_connection_name_the_pool
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
    let _open = SqlStore::<DB>::connect(&url).await.unwrap();
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
    let one = SqlStore::<DB>::connect(&url).await.unwrap();
    let other = SqlStore::<DB>::connect(&url).await.unwrap();
    for round in 0..5 {
        let keys = keys(&format!("round {round}"));
        let reversed: Vec<_> = keys.iter().rev().cloned().collect();
        let racing = |store: &SqlStore<DB>, keys: Vec<String>, value: Bytes| {
            let store = store.clone();
            tokio::spawn(async move {
                let won = keys.iter().map(|key| {
                    let (store, value) = (&store, &value);
                    async move { Ok(crate::store::races::claimed(store, key, value, TTL).await) }
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
    for batch in [true, false] {
        let url = Postgres::url();
        let url = format!("{url}?batch={batch}");
        let store = PostgresStore::connect(&url).await.unwrap();
        let claims = claim_all(&store, &keys("few")).await;
        assert!(claims.iter().all(|claim| *claim == Claim::Claimed));
        let connections = store.pool().size();
        let transactions = "SELECT count(DISTINCT xmin::text) FROM idempotence";
        let transactions = Postgres::number(store.pool(), transactions).await;
        if batch {
            assert!(transactions < 20, "{transactions}");
            assert!(connections <= 4, "{connections}");
        } else {
            assert_eq!(transactions, 200);
            assert_eq!(connections, 10);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_a_batch_are_one_statement_on_mysql_unless_batches_are_off() {
    let server = MariaDbServer::start().unwrap();
    for batch in [true, false] {
        let url = format!("{}?batch={batch}", server.database().unwrap());
        let store = MySqlStore::connect(&url).await.unwrap();
        let statements = "SELECT CAST(SUM(variable_value) AS SIGNED) FROM information_schema.global_status \
                          WHERE variable_name IN ('COM_INSERT', 'COM_INSERT_SELECT')";
        let before = MySql::number(store.pool(), statements).await;
        let claims = claim_all(&store, &keys("few")).await;
        assert!(claims.iter().all(|claim| *claim == Claim::Claimed));
        let statements = MySql::number(store.pool(), statements).await - before;
        if batch {
            assert!(statements < 20, "{statements}");
        } else {
            assert_eq!(statements, 200);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_calls_on_a_file_are_served_within_the_deadline() {
    let handle = Idempotency::new(store::<Sqlite>().await);
    let mut calls = JoinSet::new();
    for key in 0..500 {
        let handle = handle.clone();
        calls.spawn(async move {
            let call = handle.call("pay").key(&key).ttl(TTL);
            call.run(async { Ok::<_, Error>(()) }).await
        });
    }
    for ran in calls.join_all().await {
        ran.unwrap();
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

/// A store on a pool whose sessions wait long for locks, unless `settings` say otherwise.
async fn patient<DB: Fresh>(url: &str, settings: &'static [&'static str]) -> SqlStore<DB> {
    SqlStore::new(DB::pool(url, settings).await)
}

async fn a_row_that_the_application_has_locked_delays_only_its_own_change<DB: Fresh>() {
    let url = DB::url();
    let other = narrow::<DB>(&url).await;
    let store = patient::<DB>(&url, &[]).await;
    let keys: Vec<_> = (0..50).map(|key| format!("free {key}")).collect();
    for is_claim in [true, false] {
        if is_claim {
            leave_expired(&store, "locked").await;
        } else {
            store.remove("locked", &VALUE).await.unwrap();
            store.claim("locked", &VALUE, TTL).await.unwrap();
        }
        let mut locking = other.pool().begin().await.unwrap();
        DB::lock(&mut locking).await;
        let is_unlocked = AtomicBool::new(false);
        let change = async |key: &str| {
            let done = if is_claim {
                store.claim(key, &VALUE, TTL).await.unwrap() == Claim::Claimed
            } else {
                store.remove(key, &VALUE).await.unwrap() == Swap::Done
            };
            assert!(done, "{key}");
            is_unlocked.load(Ordering::SeqCst)
        };
        // The first changes are sent by their callers.
        let (before, after) = keys.split_at(25);
        let free = async {
            let (before, after) = (before.iter(), after.iter());
            let before = join_all(before.map(|key| change(key)));
            let after = join_all(after.map(|key| change(key)));
            let (before, after) = timeout(MAX_WAIT, join(before, after)).await.unwrap();
            assert!(
                !before
                    .iter()
                    .chain(&after)
                    .any(|after_unlock| *after_unlock)
            );
            is_unlocked.store(true, Ordering::SeqCst);
            locking.rollback().await.unwrap();
        };
        let ((), after_unlock) = join(free, async {
            tokio::task::yield_now().await;
            change("locked").await
        })
        .await;
        assert!(after_unlock);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_the_application_has_locked_delays_only_its_own_change_on_postgres() {
    a_row_that_the_application_has_locked_delays_only_its_own_change::<Postgres>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_the_application_has_locked_delays_only_its_own_change_on_mysql() {
    a_row_that_the_application_has_locked_delays_only_its_own_change::<MySql>().await;
}

/// `timeout`: sets a timeout for the statements of a session.
async fn a_statement_timeout_ends_only_the_change_that_waits<DB: Fresh>(
    timeout: &'static [&'static str],
) {
    let url = DB::url();
    let other = narrow::<DB>(&url).await;
    let store = patient::<DB>(&url, timeout).await;
    leave_expired(&store, "locked").await;
    let mut locking = other.pool().begin().await.unwrap();
    DB::lock(&mut locking).await;
    let names = keys("free");
    let claims = names[..20].iter().map(String::as_str);
    let claims = claims
        .chain(["locked"])
        .chain(names[20..40].iter().map(String::as_str));
    let claims = claims.map(async |key| (key, store.claim(key, &VALUE, TTL).await));
    for (key, claim) in join_all(claims).await {
        if key == "locked" {
            assert_eq!(kind(claim), StoreErrorKind::NotApplied);
        } else {
            assert_eq!(claim.unwrap(), Claim::Claimed, "{key}");
        }
    }
    locking.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_timeout_ends_only_the_change_that_waits_on_postgres() {
    let timeout = &["SET statement_timeout = '300ms'"];
    a_statement_timeout_ends_only_the_change_that_waits::<Postgres>(timeout).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_timeout_ends_only_the_change_that_waits_on_mysql() {
    let timeout = &["SET SESSION max_statement_time = 0.3"];
    a_statement_timeout_ends_only_the_change_that_waits::<MySql>(timeout).await;
}

/// `refuse`: makes the database refuse the key `bad`.
async fn a_refused_change_fails_alone<DB: Fresh>(refuse: &str) {
    let store = store::<DB>().await;
    DB::run(store.pool(), refuse).await.unwrap();
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

#[tokio::test]
async fn a_refused_change_fails_alone_on_postgres() {
    let refuse = "ALTER TABLE idempotence ADD CONSTRAINT good CHECK (key <> 'bad')";
    a_refused_change_fails_alone::<Postgres>(refuse).await;
}

#[tokio::test]
async fn a_refused_change_fails_alone_on_mysql() {
    let refuse = "ALTER TABLE idempotence ADD CONSTRAINT good CHECK (`key` <> 'bad')";
    a_refused_change_fails_alone::<MySql>(refuse).await;
}

#[tokio::test]
async fn a_refused_change_fails_alone_on_sqlite() {
    let refuse = "CREATE TRIGGER good BEFORE INSERT ON idempotence WHEN NEW.key = 'bad' \
                  BEGIN SELECT RAISE(ABORT, 'bad'); END";
    a_refused_change_fails_alone::<Sqlite>(refuse).await;
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
    // A batch waits for the connection now.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let last = claims.pop().unwrap();
    drop(claims);
    drop(taken);
    assert_eq!(last.await.unwrap(), Claim::Claimed);
    for key in &keys[..9] {
        assert!(store.get(key).await.unwrap().is_none(), "{key}");
    }
}

#[tokio::test]
async fn changes_that_are_dropped_before_they_are_sent_are_not_sent_on_postgres() {
    changes_that_are_dropped_before_they_are_sent_are_not_sent::<Postgres>().await;
}

#[tokio::test]
async fn changes_that_are_dropped_before_they_are_sent_are_not_sent_on_mysql() {
    changes_that_are_dropped_before_they_are_sent_are_not_sent::<MySql>().await;
}

#[tokio::test]
async fn changes_that_are_dropped_before_they_are_sent_are_not_sent_on_sqlite() {
    changes_that_are_dropped_before_they_are_sent_are_not_sent::<Sqlite>().await;
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

/// Claims that are acknowledged are stored, whenever the server dies.
async fn a_server_that_is_killed_with_a_batch_in_flight_keeps_what_it_acknowledged<DB: Fresh>(
    url: &str,
    kill_and_restart: [&dyn Fn(); 2],
) {
    let [kill, restart] = kill_and_restart;
    let store = SqlStore::<DB>::connect(url).await.unwrap();
    let killed = Arc::new(AtomicBool::new(false));
    let mut claiming = JoinSet::new();
    for caller in 0..50 {
        let (store, killed) = (store.clone(), Arc::clone(&killed));
        claiming.spawn(async move {
            let mut claimed = Vec::new();
            for round in 0.. {
                let key = format!("{caller} {round}");
                match store.claim(&key, &VALUE, TTL).await {
                    Ok(claim) => {
                        assert_eq!(claim, Claim::Claimed);
                        claimed.push(key);
                    }
                    Err(error) => {
                        assert!(killed.load(Ordering::SeqCst), "{error:?}");
                        let kinds = [StoreErrorKind::NotApplied, StoreErrorKind::Unknown];
                        assert!(kinds.contains(&error.kind()), "{error:?}");
                        break;
                    }
                }
            }
            claimed
        });
    }
    while DB::number(store.pool(), "SELECT count(*) FROM idempotence").await < 1000 {}
    killed.store(true, Ordering::SeqCst);
    kill();
    let claimed = timeout(MAX_WAIT, claiming.join_all()).await.unwrap();
    restart();
    let claimed = claimed.concat();
    assert!(claimed.len() >= 900, "{}", claimed.len());
    for key in claimed {
        let entry = store.get(&key).await.unwrap();
        assert_eq!(entry.unwrap().value, VALUE, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_is_killed_with_a_batch_in_flight_keeps_what_it_acknowledged() {
    let server = PostgresServer::start().unwrap();
    let (kill, restart) = (|| server.kill().unwrap(), || server.restart().unwrap());
    let url = server.database().unwrap();
    let servers: [&dyn Fn(); 2] = [&kill, &restart];
    a_server_that_is_killed_with_a_batch_in_flight_keeps_what_it_acknowledged::<Postgres>(
        &url, servers,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mysql_that_is_killed_with_a_batch_in_flight_keeps_what_it_acknowledged() {
    let server = MariaDbServer::start().unwrap();
    let (kill, restart) = (|| server.kill().unwrap(), || server.restart().unwrap());
    let url = server.database().unwrap();
    let servers: [&dyn Fn(); 2] = [&kill, &restart];
    a_server_that_is_killed_with_a_batch_in_flight_keeps_what_it_acknowledged::<MySql>(
        &url, servers,
    )
    .await;
}
