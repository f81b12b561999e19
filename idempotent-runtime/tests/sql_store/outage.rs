//! A server that goes away and comes back.

use std::time::{Duration, Instant};

use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_runtime::store::Claim;
use idempotent_runtime::{MySqlStore, PostgresStore, SqlStore, Store, StoreErrorKind};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::databases::{Fresh, OTHER, TTL, VALUE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_postgres_comes_back_with_its_records() {
    let server = PostgresServer::start().unwrap();
    let url = server.database().unwrap();
    let store = PostgresStore::connect(&url).await.unwrap();
    goes_on_after(&store, || server.restart().unwrap()).await;
    is_away_while(&store, || server.kill().unwrap()).await;
    server.restart().unwrap();
    goes_on(&store).await;
    is_silent_while(&store, || server.pause().unwrap()).await;
    server.resume().unwrap();
    goes_on(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_mysql_comes_back_with_its_records() {
    let server = MariaDbServer::start().unwrap();
    let url = server.database().unwrap();
    let store = MySqlStore::connect(&url).await.unwrap();
    goes_on_after(&store, || server.restart().unwrap()).await;
    is_away_while(&store, || server.kill().unwrap()).await;
    server.restart().unwrap();
    goes_on(&store).await;
    is_silent_while(&store, || server.pause().unwrap()).await;
    server.resume().unwrap();
    goes_on(&store).await;
}

/// Each operation after a restart succeeds at once, although each connection of the pool is broken.
async fn goes_on_after<DB: Fresh>(store: &SqlStore<DB>, restart: impl FnOnce()) {
    store.claim("held", &VALUE, TTL).await.unwrap();
    let mut asking = JoinSet::new();
    for _ in 0..30 {
        let store = store.clone();
        asking.spawn(async move { store.get("held").await });
    }
    for answer in asking.join_all().await {
        answer.unwrap();
    }
    assert!(store.pool().size() > 3, "{:?}", store.pool());
    restart();
    goes_on(store).await;
}

async fn goes_on<DB: Fresh>(store: &SqlStore<DB>) {
    for _ in 0..20 {
        let claim = store.claim("held", &OTHER, TTL).await;
        assert_eq!(claim.unwrap(), Claim::Taken(VALUE));
    }
}

async fn is_away_while<DB: Fresh>(store: &SqlStore<DB>, kill: impl FnOnce()) {
    kill();
    let begun = Instant::now();
    let error = store.claim("held", &OTHER, TTL).await.unwrap_err();
    // The first of its tries may have been sent to a connection that broke only then.
    let kinds = [StoreErrorKind::NotApplied, StoreErrorKind::Unknown];
    assert!(kinds.contains(&error.kind()), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

async fn is_silent_while<DB: Fresh>(store: &SqlStore<DB>, pause: impl FnOnce()) {
    pause();
    for _ in 0..3 {
        let value = OTHER;
        let claim = store.claim("held", &value, TTL);
        timeout(Duration::from_millis(100), claim)
            .await
            .unwrap_err();
    }
}
