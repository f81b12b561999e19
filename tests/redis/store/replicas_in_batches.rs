//! Many writes that wait for replicas with one `WAIT`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{self, Value, cmd};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Store, StoreErrorKind};
use tokio::time::timeout;

use crate::store::batches::calls;
use crate::store::replicas::{Pair, patient, shared_with_replica};
use crate::store::servers::{DONE, MAX_WAIT, TTL, VALUE, chain, connection_to, kind, next, send};

const MANY: usize = 300;

fn keys(name: &str) -> Vec<String> {
    (0..MANY).map(|key| format!("{name}:{key}")).collect()
}

/// A store whose writes go in batches and wait for a replica, because other callers use it all the time.
pub(crate) async fn crowded_with_replica() -> RedisStore {
    let store = shared_with_replica().await;
    for _ in 0..6 {
        let store = store.clone();
        tokio::spawn(async move {
            let key = format!("crowd:{}", next());
            let (value, done) = (VALUE, DONE);
            loop {
                store.claim(&key, &value, TTL).await.unwrap();
                store.replace(&key, &value, &done, TTL).await.unwrap();
                store.remove(&key, &done).await.unwrap();
            }
        });
    }
    tokio::task::yield_now().await;
    store
}

/// The keys that the replica has.
async fn on_replica(pair: &Pair, keys: &[String]) -> usize {
    let values = send(&pair.replica, cmd("MGET").arg(keys)).await;
    let values: Vec<Value> = redis::from_redis_value(values).unwrap();
    values.iter().filter(|value| **value != Value::Nil).count()
}

#[tokio::test]
async fn many_writes_wait_for_the_replica_once_and_are_in_the_replica() {
    let pair = Pair::start().await;
    let connection = connection_to(&pair.primary).await;
    let by_connection = patient().from_connection(connection).await.unwrap();
    let stores: [&dyn Store; 2] = [&pair.store("20s").await, &by_connection];
    for (number, store) in stores.into_iter().enumerate() {
        let keys = keys(&format!("many{number}"));
        for round in 0..3 {
            // Scripts that the server does not know go again, before another `WAIT`.
            send(&pair.primary, cmd("SCRIPT").arg("FLUSH")).await;
            let before = calls(&pair.primary, "wait").await;
            let (value, done) = (VALUE, DONE);
            let claims = keys.iter().map(|key| store.claim(key, &value, TTL));
            for claim in join_all(claims).await {
                assert_eq!(claim.unwrap(), Claim::Claimed);
            }
            assert_eq!(on_replica(&pair, &keys).await, MANY, "round {round}");
            let renewals = keys
                .iter()
                .map(|key| store.replace(key, &value, &value, TTL));
            for renewal in join_all(renewals).await {
                assert_eq!(renewal.unwrap(), Swap::Done);
            }
            let results = keys
                .iter()
                .map(|key| store.replace(key, &value, &done, TTL));
            for result in join_all(results).await {
                assert_eq!(result.unwrap(), Swap::Done);
            }
            let waits = calls(&pair.primary, "wait").await - before;
            assert!(waits < 3 * MANY / 8, "{waits}");
            let removals = keys.iter().map(|key| store.remove(key, &done));
            for removal in join_all(removals).await {
                assert_eq!(removal.unwrap(), Swap::Done);
            }
        }
    }
}

#[tokio::test]
async fn only_writes_of_a_batch_fail_if_the_replica_is_late() {
    let pair = Pair::start().await;
    let (store, patient) = (pair.store("50ms").await, pair.store("20s").await);
    let keys = keys("late");
    // Every third key belongs to another caller.
    let (value, other) = (VALUE, DONE);
    let taken = keys
        .iter()
        .step_by(3)
        .map(|key| patient.claim(key, &other, TTL));
    for claim in join_all(taken).await {
        claim.unwrap();
    }
    pair.replica.pause().unwrap();
    let claims = keys.iter().map(|key| store.claim(key, &value, TTL));
    for (at, claim) in join_all(claims).await.into_iter().enumerate() {
        if at % 3 == 0 {
            assert_eq!(claim.unwrap(), Claim::Taken(other.clone()), "{at}");
        } else {
            let error = claim.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unknown);
            let text = chain(&error);
            assert!(
                text.contains("0 of 1 replicas have it after 50ms"),
                "{text}"
            );
            assert!(error.location().is_some(), "{text}");
        }
    }
    // The records are stored already, and still wait.
    let claims = keys
        .iter()
        .skip(1)
        .step_by(3)
        .map(|key| store.claim(key, &value, TTL));
    for claim in join_all(claims).await {
        assert_eq!(kind(claim), StoreErrorKind::Unknown);
    }
    pair.replica.resume().unwrap();
    let claims = keys
        .iter()
        .skip(1)
        .step_by(3)
        .map(|key| patient.claim(key, &value, TTL));
    for claim in join_all(claims).await {
        assert_eq!(claim.unwrap(), Claim::Claimed);
    }
}

/// Claims keys at all times and stops the replica in the middle. Returns how many claims began after this and are acknowledged.
async fn acknowledged_without_replica(pair: &Pair, store: &RedisStore) -> usize {
    let is_paused = Arc::new(AtomicBool::new(false));
    let (done, wrong) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let callers = (0..64).map(|_| {
        let (store, is_paused) = (store.clone(), Arc::clone(&is_paused));
        let (done, wrong) = (Arc::clone(&done), Arc::clone(&wrong));
        tokio::spawn(async move {
            loop {
                let began_paused = is_paused.load(Ordering::SeqCst);
                let claim = store
                    .claim(&format!("middle:{}", next()), &VALUE, TTL)
                    .await;
                let counter = if began_paused { &wrong } else { &done };
                counter.fetch_add(usize::from(claim.is_ok()), Ordering::SeqCst);
                if began_paused {
                    return;
                }
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    let many = async {
        while done.load(Ordering::SeqCst) < 500 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(MAX_WAIT, many).await.unwrap();
    pair.replica.pause().unwrap();
    is_paused.store(true, Ordering::SeqCst);
    for caller in callers {
        timeout(MAX_WAIT, caller).await.unwrap().unwrap();
    }
    pair.replica.resume().unwrap();
    wrong.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_replica_that_stops_in_the_middle_acknowledges_no_later_write() {
    let pair = Pair::start().await;
    let store = pair.store("50ms").await;
    assert_eq!(acknowledged_without_replica(&pair, &store).await, 0);

    // Without a wait the test finds the mistake.
    let hasty = RedisStore::connect(&pair.primary.url()).await.unwrap();
    assert_ne!(acknowledged_without_replica(&pair, &hasty).await, 0);
}
