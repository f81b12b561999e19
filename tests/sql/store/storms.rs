//! Storms of claims of one key: each caller gets an answer, and no error.
//!
//! A test in `idempotent-sql/src/store/attempts` loses many races for certain, and fails with the old limit of three.

use std::str::FromStr as _;
use std::sync::Arc;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Store as _, StoreError};
use idempotent_sql::SqlStore;
use idempotent_sql::sql::sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use idempotent_sql::sql::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idempotent_sql::sql::sqlx::{AssertSqlSafe, Executor as _, MySql, MySqlConnection};
use idempotent_sql::sql::sqlx::{Postgres, Sqlite};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::store::databases::{Fresh, TTL, connected, leave_expired};
use support::databases::Kind as _;

const CLAIMERS: u32 = 32;
const ROUNDS: u32 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_claim_of_a_storm_has_an_answer_at_any_isolation_on_postgres() {
    for isolation in ["read committed", "repeatable read", "serializable"] {
        let url = Postgres::url();
        connected::<Postgres>(&url).await;
        let options = PgConnectOptions::from_str(&url).unwrap();
        let options = options.options([("default_transaction_isolation", isolation)]);
        let pool = PgPoolOptions::new().max_connections(CLAIMERS);
        storms(&SqlStore::new(pool.connect_lazy_with(options))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_claim_of_a_storm_has_an_answer_at_any_isolation_on_mysql() {
    for isolation in ["READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"] {
        let url = MySql::url();
        connected::<MySql>(&url).await;
        let pool = MySqlPoolOptions::new()
            .max_connections(CLAIMERS)
            .after_connect(move |connection: &mut MySqlConnection, _| {
                let set = format!("SET SESSION tx_isolation = '{isolation}'");
                Box::pin(async move {
                    connection.execute(AssertSqlSafe(set)).await?;
                    Ok(())
                })
            })
            .connect_lazy_with(MySqlConnectOptions::from_str(&url).unwrap());
        storms(&SqlStore::new(pool)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_claim_of_a_storm_has_an_answer_on_sqlite() {
    let store = connected::<Sqlite>(&Sqlite::url()).await;
    storms(&store).await;
}

/// Storms with batches and without.
async fn storms<DB: Fresh>(store: &SqlStore<DB>) {
    for batch in [true, false] {
        let store = store.clone().batch(batch);
        for round in 0..ROUNDS {
            let key = format!("round {round}, batch {batch}");
            if round % 2 == 0 {
                leave_expired(&store, &key).await;
            }
            assert_eq!(winners(&store, &key, 1).await, 1, "{key}");
        }
        assert!(winners(&store, "released", 20).await > 0);
    }
}

/// How many claims of a storm get the key. With several claims each, a winner removes its record before its next claim.
async fn winners<DB: Fresh>(store: &SqlStore<DB>, key: &str, claims: u32) -> u32 {
    let start = Arc::new(Barrier::new(CLAIMERS as usize));
    let mut claiming = JoinSet::new();
    for claimer in 0..CLAIMERS {
        let (store, key, start) = (store.clone(), key.to_owned(), Arc::clone(&start));
        claiming.spawn(async move {
            let mut won = 0;
            start.wait().await;
            for claim in 0..claims {
                let value = Bytes::from(format!("claimer {claimer}, claim {claim}"));
                if store.claim(&key, &value, TTL).await? != Claim::Claimed {
                    continue;
                }
                won += 1;
                if claims > 1 {
                    assert_eq!(store.remove(&key, &value).await?, Swap::Done);
                }
            }
            Ok::<_, StoreError>(won)
        });
    }
    let won = claiming.join_all().await;
    won.into_iter().map(Result::unwrap).sum()
}
