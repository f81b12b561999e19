//! A server that is killed while many callers use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_runtime::store::Claim;
use idempotent_runtime::{Store, StoreErrorKind};
use idempotent_sql::sql::sqlx::{MySql, Postgres};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::store::databases::{Fresh, MAX_WAIT, TTL, connected};

static VALUE: bytes::Bytes = crate::store::databases::VALUE;

/// Claims that are acknowledged are stored, whenever the server dies.
async fn a_server_that_is_killed_with_a_batch_in_flight_keeps_what_it_acknowledged<DB: Fresh>(
    url: &str,
    kill_and_restart: [&dyn Fn(); 2],
) {
    let [kill, restart] = kill_and_restart;
    let store = connected::<DB>(url).await;
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
                    // On a slow machine it waited for a connection for too long.
                    Err(error)
                        if error.kind() == StoreErrorKind::NotApplied
                            && !killed.load(Ordering::SeqCst) => {}
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
