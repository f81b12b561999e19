//! Claims of several keys by one statement.

use idempotent_runtime::store::{Bytes, ClaimAll};
use idempotent_runtime::{SqlStore, Store, StoreErrorKind};
use support::blocked::Blocked;

use crate::store::databases::{Fresh, TTL, leave_expired, narrow};

static VALUE: Bytes = crate::store::databases::VALUE;

on_every_database! {
    a_key_that_a_transaction_takes_during_the_statement_leaves_no_other_key_claimed
    a_cancelled_claim_that_still_waits_for_a_key_leaves_no_key_claimed
}

/// The key has an expired record when the statement begins, and a live record when the statement gets to it.
async fn a_key_that_a_transaction_takes_during_the_statement_leaves_no_other_key_claimed<
    DB: Fresh + Blocked,
>() {
    let url = DB::url();
    let store = SqlStore::<DB>::connect(&url).await.unwrap();
    leave_expired(&store, "locked").await;
    let other = narrow::<DB>(&url).await;
    let mut taking = other.pool().begin().await.unwrap();
    DB::lock(&mut taking).await;
    let claiming = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                let claims = [("a", &VALUE), ("locked", &VALUE), ("z", &VALUE)];
                match store.claim_all(&claims, TTL).await {
                    Ok(answer) => return answer,
                    // On a busy machine it waited for the lock for too long.
                    Err(error) => assert_eq!(error.kind(), StoreErrorKind::NotApplied),
                }
            }
        }
    });
    DB::blocked(store.pool(), 1).await;
    taking.commit().await.unwrap();
    let answer = claiming.await.unwrap();
    assert_eq!(answer, ClaimAll::Taken(1, "held".into()));
    for key in ["a", "z"] {
        assert_eq!(store.get(key).await.unwrap(), None, "{key}");
    }
}

/// The statement waits for a transaction that is rolled back, and claims all keys then. Nobody waits for its answer.
async fn a_cancelled_claim_that_still_waits_for_a_key_leaves_no_key_claimed<DB: Fresh + Blocked>() {
    let url = DB::url();
    let store = narrow::<DB>(&url).await;
    leave_expired(&store, "locked").await;
    let other = narrow::<DB>(&url).await;
    let watch = DB::pool(&url, &[]).await;
    let mut taking = other.pool().begin().await.unwrap();
    DB::lock(&mut taking).await;
    let claiming = tokio::spawn({
        let store = store.clone();
        async move {
            let claims = [("a", &VALUE), ("locked", &VALUE), ("z", &VALUE)];
            store.claim_all(&claims, TTL).await
        }
    });
    DB::blocked(&watch, 1).await;
    claiming.abort();
    assert!(claiming.await.unwrap_err().is_cancelled());
    taking.rollback().await.unwrap();
    for key in ["a", "locked", "z"] {
        assert_eq!(store.get(key).await.unwrap(), None, "{key}");
    }
}
