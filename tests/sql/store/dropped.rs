//! Operations that were cancelled.

use std::time::{Duration, Instant};

use idempotent_runtime::Store;
use idempotent_runtime::store::Claim;
use idempotent_sql::SqliteStore;
use idempotent_sql::sql::sqlx::Sqlite;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::measure::TRIES;
use crate::store::databases::{Fresh, TTL, VALUE, connected, leave_expired, narrow};
use support::blocked::Blocked;
use support::databases::Kind as _;

/// Far less than the timeouts of the databases.
const AT_ONCE: Duration = Duration::from_secs(5);

on_every_server! {
    a_cancelled_claim_blocks_no_later_claim
}

/// Another session has locked the row of an expired record. A claim of this record is cancelled, and the next operation needs
/// the only connection of the pool.
async fn a_cancelled_claim_blocks_no_later_claim<DB: Fresh + Blocked>() {
    let url = DB::url();
    let store = narrow::<DB>(&url).await;
    leave_expired(&store, "locked").await;
    let other = narrow::<DB>(&url).await;
    let watch = DB::pool(&url, &[]).await;
    let mut locking = other.pool().begin().await.unwrap();
    DB::lock(&mut locking).await;
    let mut took = Vec::new();
    // On a busy machine a round may be slow.
    while took.len() < 3 || (took.iter().min() > Some(&AT_ONCE) && took.len() < TRIES) {
        let claim = tokio::spawn({
            let store = store.clone();
            async move { store.claim("locked", &VALUE, TTL).await }
        });
        DB::blocked(&watch, 1).await;
        claim.abort();
        assert!(claim.await.unwrap_err().is_cancelled());
        let begun = Instant::now();
        store.claim("free", &VALUE, TTL).await.unwrap();
        took.push(begun.elapsed());
    }
    assert!(took.iter().min() < Some(&AT_ONCE), "{took:?}");
    locking.rollback().await.unwrap();
    // Now the cancelled claims may have been applied.
    let claim = store.claim("locked", &VALUE, TTL).await.unwrap();
    assert_eq!(claim, Claim::Claimed);
}

/// The cancelled claim waits for the file, but only for the `busy_timeout`.
#[tokio::test]
async fn a_cancelled_claim_does_not_delay_a_read_of_a_file_for_long() {
    let url = Sqlite::url();
    let store = connected::<Sqlite>(&url).await;
    store.claim("held", &VALUE, TTL).await.unwrap();
    let other = narrow::<Sqlite>(&url).await;
    let locking = other.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    let mut took = Vec::new();
    // On a busy machine a round may be slow.
    while took.len() < 3 || (took.iter().min() > Some(&AT_ONCE) && took.len() < TRIES) {
        let value = VALUE;
        let claim = store.claim("key", &value, TTL);
        let given_up = timeout(Duration::from_millis(20), claim).await;
        given_up.unwrap_err();
        let begun = Instant::now();
        assert!(store.get("held").await.unwrap().is_some());
        took.push(begun.elapsed());
    }
    assert!(took.iter().min() < Some(&AT_ONCE), "{took:?}");
    locking.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_memory_outlives_cancelled_claims() {
    let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
    store.claim("held", &VALUE, TTL).await.unwrap();
    for looks in 0..50 {
        let (key, value) = (looks.to_string(), VALUE);
        let given_up = async {
            for _ in 0..looks {
                yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = store.claim(&key, &value, TTL) => {}
            () = given_up => {}
        }
    }
    let entry = store.get("held").await.unwrap();
    assert_eq!(entry.unwrap().value, VALUE);
}
