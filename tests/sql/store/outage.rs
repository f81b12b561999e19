//! A server that stops and starts again.

use std::time::Duration;

use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_runtime::store::Claim;
use idempotent_runtime::{Store, StoreErrorKind};
use idempotent_sql::SqlStore;
use idempotent_sql::sql::sqlx::{MySql, Postgres};
use tokio::time::timeout;

use crate::measure::takes_less_than;
use crate::store::databases::{Fresh, OTHER, TTL, VALUE, connected};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_postgres_has_its_records() {
    let server = PostgresServer::start().unwrap();
    let url = server.database().unwrap();
    let store = connected::<Postgres>(&url).await;
    works_after(&store, || server.restart().unwrap()).await;
    fails_after(&store, || server.kill().unwrap()).await;
    server.restart().unwrap();
    works(&store).await;
    hangs_after(&store, || server.pause().unwrap()).await;
    server.resume().unwrap();
    works(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_mysql_has_its_records() {
    let server = MariaDbServer::start().unwrap();
    let url = server.database().unwrap();
    let store = connected::<MySql>(&url).await;
    works_after(&store, || server.restart().unwrap()).await;
    fails_after(&store, || server.kill().unwrap()).await;
    server.restart().unwrap();
    works(&store).await;
    hangs_after(&store, || server.pause().unwrap()).await;
    server.resume().unwrap();
    works(&store).await;
}

/// Each operation after a restart succeeds at once, although every connection of the pool is broken.
async fn works_after<DB: Fresh>(store: &SqlStore<DB>, restart: impl FnOnce()) {
    store.claim("held", &VALUE, TTL).await.unwrap();
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(store.pool().acquire().await.unwrap());
    }
    drop(connections);
    restart();
    works(store).await;
}

async fn works<DB: Fresh>(store: &SqlStore<DB>) {
    for _ in 0..20 {
        let claim = store.claim("held", &OTHER, TTL).await;
        assert_eq!(claim.unwrap(), Claim::Taken(VALUE));
    }
}

async fn fails_after<DB: Fresh>(store: &SqlStore<DB>, kill: impl FnOnce()) {
    kill();
    takes_less_than(Duration::from_secs(20), async || {
        let error = store.claim("held", &OTHER, TTL).await.unwrap_err();
        // The first attempt may have been sent on a connection that broke afterwards.
        let kinds = [StoreErrorKind::NotApplied, StoreErrorKind::Unknown];
        assert!(kinds.contains(&error.kind()), "{error:?}");
    })
    .await;
}

async fn hangs_after<DB: Fresh>(store: &SqlStore<DB>, pause: impl FnOnce()) {
    pause();
    for _ in 0..3 {
        let value = OTHER;
        let claim = store.claim("held", &value, TTL);
        timeout(Duration::from_millis(100), claim)
            .await
            .unwrap_err();
    }
}
