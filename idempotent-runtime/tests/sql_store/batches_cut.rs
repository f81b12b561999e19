//! A connection that is cut at each message of a batch, one after the other.

use std::str::FromStr as _;

use futures_util::future::join_all;
use idempotence_test_servers::PostgresServer;
use idempotent_runtime::sql::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{PostgresStore, Store};

use crate::databases::TTL;
use crate::wire::{Point, Wire};

static VALUE: bytes::Bytes = crate::databases::VALUE;

/// The changes are sent again on other connections. A change whose answer was lost may find its own work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_cut_at_any_message_is_neither_lost_nor_answered_wrongly() {
    let server = PostgresServer::shared().unwrap();
    let url = server.database().unwrap();
    let direct = PostgresStore::connect(&url).await.unwrap();
    let mut cuts = 0;
    for (round, point) in Point::all().enumerate() {
        let wire = Wire::cut(server.port(), point);
        let options = PgConnectOptions::from_str(&wire.url(&url)).unwrap();
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = pool.test_before_acquire(false).connect_lazy_with(options);
        if pool.acquire().await.is_err() {
            // The connection was cut before it was usable.
            continue;
        }
        let store = PostgresStore::new(pool.clone());
        let keys: Vec<_> = (0..20).map(|key| format!("{round} {key}")).collect();
        let claims = join_all(keys.iter().map(|key| store.claim(key, &VALUE, TTL)));
        for claim in claims.await {
            assert_eq!(claim.unwrap(), Claim::Claimed, "{point:?}");
        }
        for key in &keys {
            let stored = direct.get(key).await.unwrap();
            assert_eq!(stored.unwrap().value, VALUE, "{point:?}");
        }
        let renewals = keys
            .iter()
            .map(|key| store.replace(key, &VALUE, &VALUE, TTL));
        for renewal in join_all(renewals).await {
            assert_eq!(renewal.unwrap(), Swap::Done, "{point:?}");
        }
        let removals = join_all(keys.iter().map(|key| store.remove(key, &VALUE)));
        for removal in removals.await {
            let removal = removal.unwrap();
            assert!([Swap::Done, Swap::Absent].contains(&removal), "{point:?}");
        }
        for key in &keys {
            let stored = direct.get(key).await.unwrap();
            assert!(stored.is_none(), "{point:?}");
        }
        pool.close().await;
        drop(store);
        if !wire.reached() {
            break;
        }
        cuts += 1;
    }
    // Three points at each message of the single statements and of the batches.
    assert!(cuts > 15, "{cuts}");
}
