//! `PgBouncer` between the store and PostgreSQL, with the settings of `docs/guide/sql.md`.

use futures_util::future::join_all;
use idempotence_test_servers::{PgBouncer, PostgresServer};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Error, Idempotency, Store};
use idempotent_sql::PostgresStore;
use idempotent_sql::sql::sqlx::Postgres;
use idempotent_sql::sql::sqlx::pool::PoolOptions;

use crate::store::databases::{TTL, VALUE};

async fn everything_works_behind_a_pooler(pool_mode: &str) {
    let server = PostgresServer::shared().unwrap();
    let pooler = PgBouncer::start(server, pool_mode).unwrap();
    let url = pooler.url(&server.database().unwrap());
    // Each store has a pool of its own, so their sessions share the sessions of the pooler. In session mode a connection keeps
    // its session: three times six are fewer than the twenty sessions of the pooler, so no connection waits for ever.
    let connect = async || {
        let pool = PoolOptions::<Postgres>::new()
            .test_before_acquire(false)
            .max_connections(6);
        let store = PostgresStore::new(pool.connect(&url).await.unwrap());
        store.migrate().await.unwrap();
        store
    };
    let stores = [connect().await, connect().await, connect().await];
    for (number, store) in stores.iter().enumerate() {
        for round in 0..3 {
            let keys: Vec<_> = (0..100).map(|key| format!("{round} {key}")).collect();
            let counter = format!("counter {number} {round}");
            let value = VALUE;
            let claims = join_all(keys.iter().map(|key| store.claim(key, &value, TTL)));
            for claim in claims.await {
                assert_eq!(claim.unwrap(), Claim::Claimed);
            }
            let counts = (0..40).map(|attempt| store.count(&counter, 0x1000 + attempt, TTL));
            let counts = join_all(counts).await;
            let mut numbers: Vec<_> = counts
                .into_iter()
                .map(|count| count.unwrap().attempt)
                .collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(1..=40));
            for removal in join_all(keys.iter().map(|key| store.remove(key, &value))).await {
                assert_eq!(removal.unwrap(), Swap::Done);
            }
        }
    }
    let handle = Idempotency::new(stores[0].clone());
    let in_transactions = (0..20).map(async |order: u32| {
        let mut tx = stores[0].pool().begin().await.unwrap();
        let call = handle.call("pay").key(&order).ttl(TTL).replay();
        let paid = call
            .run_in(&mut tx, async |_: &mut _| Ok::<_, Error>(order))
            .await;
        tx.commit().await.unwrap();
        assert_eq!(paid.unwrap(), order);
    });
    join_all(in_transactions).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_behind_pgbouncer_in_session_mode() {
    everything_works_behind_a_pooler("session").await;
}

/// Older versions do not follow prepared statements from one session to another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_behind_pgbouncer_in_transaction_mode_from_version_1_21_on() {
    if PgBouncer::version().unwrap() >= (1, 21) {
        everything_works_behind_a_pooler("transaction").await;
    }
}
