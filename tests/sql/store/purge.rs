//! A purge removes expired records and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use idempotent_runtime::store::Swap;
use idempotent_runtime::{Store, StoreError, StoreErrorKind};
use idempotent_sql::SqlStore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::store::databases::{
    Fresh, MAX_WAIT, SHORT, TTL, VALUE, connected, leave_expired, narrow, store,
};
use crate::store::races::claimed;
use support::blocked::Blocked;

on_every_database! {
    expired_records_are_purged_in_batches
    a_record_that_is_claimed_again_is_not_purged
    a_record_with_an_open_claim_is_not_purged
    a_store_purges_until_its_last_clone_is_dropped
}

const RECORDS: &str = "SELECT count(*) FROM idempotence";

async fn expired_records_are_purged_in_batches<DB: Fresh>() {
    let store = store::<DB>().await;
    assert_eq!(store.purge_expired().await.unwrap(), 0);
    let filled = (0..2500).map(|key| format!("('{key}', 'value', {PAST})"));
    let filled = filled.collect::<Vec<_>>().join(", ");
    let fill = format!("INSERT INTO idempotence VALUES {filled}");
    let past = DB::PAST;
    DB::run(store.pool(), &fill.replace(PAST, past))
        .await
        .unwrap();
    store.claim("living", &VALUE, TTL).await.unwrap();
    leave_expired(&store, "expired").await;
    assert_eq!(store.purge_expired().await.unwrap(), 2501);
    assert_eq!(store.purge_expired().await.unwrap(), 0);
    assert_eq!(DB::number(store.pool(), RECORDS).await, 1);
    assert!(store.get("living").await.unwrap().is_some());
}

const PAST: &str = "<past>";

async fn a_record_that_is_claimed_again_is_not_purged<DB: Fresh>() {
    let store = store::<DB>().await;
    let ended = Arc::new(AtomicBool::new(false));
    let purging = {
        let (store, ended) = (store.clone(), Arc::clone(&ended));
        tokio::spawn(async move {
            let mut removed = 0;
            while !ended.load(Ordering::SeqCst) {
                removed += purge(&store).await;
            }
            removed
        })
    };
    let mut claiming = JoinSet::new();
    for task in 0..8 {
        let store = store.clone();
        claiming.spawn(async move { claim_anew(&store, &format!("key {task}")).await });
    }
    claiming.join_all().await;
    ended.store(true, Ordering::SeqCst);
    assert!(purging.await.unwrap() > 0, "the purge must remove a record");
}

/// The purge finds the record while the claim is not committed.
async fn a_record_with_an_open_claim_is_not_purged<DB: Fresh + Blocked>() {
    let url = DB::url();
    let store = connected::<DB>(&url).await;
    leave_expired(&store, "locked").await;
    let other = narrow::<DB>(&url).await;
    let mut claiming = other.pool().begin().await.unwrap();
    DB::lock(&mut claiming).await;
    let purging = {
        let store = store.clone();
        tokio::spawn(async move { purge(&store).await })
    };
    // The purge skips the record, or waits for it.
    tokio::select! {
        () = DB::blocked(store.pool(), 1) => {}
        () = async { while !purging.is_finished() { sleep(Duration::from_millis(5)).await } } => {}
    }
    claiming.commit().await.unwrap();
    assert_eq!(purging.await.unwrap(), 0);
    let entry = store.get("locked").await.unwrap();
    assert_eq!(entry.expect("the record must be stored").value, "held");
}

/// Lets a record expire, claims it and reads it, several times.
async fn claim_anew<DB: Fresh>(store: &SqlStore<DB>, key: &str) {
    for round in 0..30 {
        leave_expired(store, key).await;
        let value = Bytes::from(format!("claim {round}"));
        assert!(claimed(store, key, &value, TTL).await);
        let entry = store.get(key).await.unwrap();
        assert_eq!(entry.expect("the claimed record is stored").value, value);
        let deadline = Instant::now() + MAX_WAIT;
        let done = loop {
            match store.replace(key, &value, &VALUE, SHORT).await {
                Ok(done) => break done,
                Err(error) => assert_waited(&error, deadline),
            }
        };
        assert_eq!(done, Swap::Done);
        while store.get(key).await.unwrap().is_some() {
            assert!(Instant::now() < deadline);
        }
    }
}

async fn a_store_purges_until_its_last_clone_is_dropped<DB: Fresh>() {
    let store = store::<DB>().await.purge(false);
    let purging = store.clone().purge_every(Duration::from_millis(10));
    leave_expired(&purging, "first").await;
    is_purged(&store).await;
    // The purges continue after a failure.
    let hidden = "ALTER TABLE idempotence RENAME TO hidden";
    let back = "ALTER TABLE hidden RENAME TO idempotence";
    DB::run(store.pool(), hidden).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    DB::run(store.pool(), back).await.unwrap();
    leave_expired(&store, "second").await;
    is_purged(&store).await;
    drop(purging);
    // A statement of the purge may still run. It has ended when all connections are free.
    let options = store.pool().options();
    let mut connections = Vec::new();
    for _ in 0..options.get_max_connections() {
        connections.push(store.pool().acquire().await.unwrap());
    }
    drop(connections);
    leave_expired(&store, "third").await;
    // In this time another store with the same period has purged several times.
    let other = self::store::<DB>().await;
    let other = other.purge_every(Duration::from_millis(10));
    for round in 0..5 {
        leave_expired(&other, &format!("round {round}")).await;
        is_purged(&other).await;
    }
    assert_eq!(DB::number(store.pool(), RECORDS).await, 1);
}

/// Purges once. On a slow machine another operation may have locked the table for longer than a purge waits.
async fn purge<DB: Fresh>(store: &SqlStore<DB>) -> u64 {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match store.purge_expired().await {
            Ok(removed) => return removed,
            Err(error) => assert_waited(&error, deadline),
        }
    }
}

fn assert_waited(error: &StoreError, deadline: Instant) {
    assert_eq!(error.kind(), StoreErrorKind::NotApplied, "{error:?}");
    assert!(Instant::now() < deadline, "{error:?}");
}

async fn is_purged<DB: Fresh>(store: &SqlStore<DB>) {
    let deadline = Instant::now() + MAX_WAIT;
    while DB::number(store.pool(), RECORDS).await > 0 {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(5)).await;
    }
}
