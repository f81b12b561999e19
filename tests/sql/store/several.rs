//! Claims of several keys by one statement.

use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::store::{Bytes, ClaimAll, ClaimAny, Swap};
use idempotent_runtime::{Store, StoreErrorKind};
use idempotent_sql::sql::sqlx::Postgres;
use support::blocked::Blocked;
use support::databases::Kind as _;
use support::wire::{Point, Wire};
use tokio::task::yield_now;
use tokio::time::{Instant, pause, resume, sleep, timeout};
use url::Url;

use crate::store::batches_cut::through;
use crate::store::databases::{Fresh, MAX_WAIT, TTL, connected, kind, leave_expired, narrow};

static VALUE: Bytes = crate::store::databases::VALUE;

on_every_database! {
    a_key_that_a_transaction_takes_during_the_statement_leaves_no_other_key_claimed
    a_withdrawal_comes_after_a_cancelled_claim_that_still_waits_for_a_key
}

/// The key has an expired record when the statement begins, and a live record when the statement gets to it.
async fn a_key_that_a_transaction_takes_during_the_statement_leaves_no_other_key_claimed<
    DB: Fresh + Blocked,
>() {
    let url = DB::url();
    let store = connected::<DB>(&url).await;
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

/// The statement waits for a transaction that is rolled back, and claims all keys then. No caller waits for its answer.
async fn a_withdrawal_comes_after_a_cancelled_claim_that_still_waits_for_a_key<
    DB: Fresh + Blocked,
>() {
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
    let keys = ["a", "locked", "z"];
    let withdraw = async |key| {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            match store.remove(key, &VALUE).await {
                Ok(_) => return,
                // On a slow machine it waited for the lock for too long.
                Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
            }
        }
    };
    let withdrawals = join_all(keys.map(withdraw));
    let (_, rolled_back) = tokio::join!(withdrawals, async {
        // A withdrawal that does not wait for the claim is answered first.
        sleep(Duration::from_millis(200)).await;
        taking.rollback().await
    });
    rolled_back.unwrap();
    for key in keys {
        assert_eq!(store.get(key).await.unwrap(), None, "{key}");
    }
}

/// The statement waits for a lock, and the session has no `lock_timeout`. A silent server looks the same to the client.
#[tokio::test]
async fn a_cancelled_claim_of_several_keys_keeps_its_connection_for_seconds_at_most() {
    let url = Postgres::url();
    let store = narrow::<Postgres>(&url).await;
    leave_expired(&store, "locked").await;
    let other = narrow::<Postgres>(&url).await;
    let watch = Postgres::pool(&url, &[]).await;
    let mut taking = other.pool().begin().await.unwrap();
    Postgres::lock(&mut taking).await;
    let claiming = tokio::spawn({
        let store = store.clone();
        async move {
            let claims = [("a", &VALUE), ("locked", &VALUE)];
            store.claim_all(&claims, TTL).await
        }
    });
    Postgres::blocked(&watch, 1).await;
    claiming.abort();
    assert!(claiming.await.unwrap_err().is_cancelled());
    pause();
    sleep(Duration::from_secs(20)).await;
    resume();
    // The only connection of the pool is free, and a withdrawal no longer waits.
    assert_eq!(store.get("a").await.unwrap(), None);
    let withdrawal = timeout(MAX_WAIT, store.remove("a", &VALUE)).await;
    assert_eq!(withdrawal.unwrap().unwrap(), Swap::Absent);
    taking.rollback().await.unwrap();
}

/// The attempt may store another key later, so a later answer does not say which keys are claimed.
#[tokio::test]
async fn a_claim_of_any_key_that_is_cut_at_any_message_is_unknown() {
    let url = Postgres::url();
    connected::<Postgres>(&url).await;
    let port = url.parse::<Url>().unwrap().port().unwrap();
    let (mut cut, claims) = (0, [("a", &VALUE), ("b", &VALUE)]);
    for point in Point::all() {
        let wire = Wire::cut(port, point);
        let store = through::<Postgres>(&wire, &url, MAX_WAIT).await;
        let Some(store) = store else { continue };
        // sqlx pings the connection that returns to the pool.
        while store.pool().num_idle() == 0 && store.pool().size() > 0 {
            yield_now().await;
        }
        if wire.was_reached() {
            continue;
        }
        let answer = store.claim_any(&claims, TTL).await;
        if !wire.was_reached() {
            assert_eq!(answer.unwrap(), ClaimAny::Claimed(0));
            break;
        }
        assert_eq!(kind(answer), StoreErrorKind::Unknown, "{point:?}");
        cut += 1;
    }
    assert!(cut > 0);
}
