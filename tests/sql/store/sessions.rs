//! The store works with any settings of the sessions.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use idempotent_runtime::Store;
use idempotent_runtime::store::Swap;
use idempotent_sql::sql::sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use idempotent_sql::sql::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idempotent_sql::sql::sqlx::{AssertSqlSafe, Executor, MySql, MySqlConnection, Postgres};
use idempotent_sql::{MySqlStore, PostgresStore, SqlStore};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::store::databases::{Fresh, OTHER, TTL, VALUE, connected, leave_expired, mysql};
use crate::store::races::claimed;
use support::databases::Kind;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_isolation_and_time_zone_works_on_postgres() {
    for (isolation, zone) in [
        ("read committed", "Asia/Kathmandu"),
        ("repeatable read", "America/St_Johns"),
        ("serializable", "Europe/Berlin"),
    ] {
        let url = Postgres::url();
        let admin = connected::<Postgres>(&url).await;
        let options = PgConnectOptions::from_str(&url).unwrap().options([
            ("default_transaction_isolation", isolation),
            ("timezone", zone),
            ("datestyle", "SQL, DMY"),
            ("intervalstyle", "sql_standard"),
            ("extra_float_digits", "-15"),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(10)
            .connect_lazy_with(options);
        works_among(&PostgresStore::new(pool), &admin).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_isolation_time_zone_and_mode_works_on_mysql() {
    for (isolation, zone, mode) in [
        ("READ-UNCOMMITTED", "+05:45", "''"),
        ("READ-COMMITTED", "-03:30", "'ANSI,NO_BACKSLASH_ESCAPES'"),
        ("REPEATABLE-READ", "+13:00", "'ORACLE'"),
        (
            "SERIALIZABLE",
            "-12:00",
            "'TRADITIONAL,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
        ),
    ] {
        let url = MySql::url();
        let admin = connected::<MySql>(&url).await;
        let set = format!(
            "SET SESSION tx_isolation = '{isolation}', time_zone = '{zone}', sql_mode = {mode}"
        );
        let pool = MySqlPoolOptions::new()
            .max_connections(10)
            .after_connect(move |connection: &mut MySqlConnection, _| {
                let set = set.clone();
                Box::pin(async move {
                    connection.execute(AssertSqlSafe(set)).await?;
                    Ok(())
                })
            })
            .connect_lazy_with(MySqlConnectOptions::from_str(&url).unwrap());
        works_among(&MySqlStore::new(pool), &admin).await;
    }
}

/// Asserts that every answer is right, also for a store with default sessions on the same tables, and that one of many racers
/// gets the key.
async fn works_among<DB: Fresh>(store: &SqlStore<DB>, admin: &SqlStore<DB>) {
    for (one, other) in [(store, admin), (admin, store)] {
        assert!(claimed(one, "key", &VALUE, TTL).await);
        assert!(!claimed(other, "key", &OTHER, TTL).await);
        let remaining = other.get("key").await.unwrap().unwrap().ttl.unwrap();
        assert!(TTL / 2 < remaining && remaining <= TTL, "{remaining:?}");
        let renewal = other.replace("key", &VALUE, &VALUE, TTL * 2).await;
        assert_eq!(renewal.unwrap(), Swap::Done);
        let remaining = one.get("key").await.unwrap().unwrap().ttl.unwrap();
        assert!(TTL < remaining && remaining <= TTL * 2, "{remaining:?}");
        let swap = one.replace("key", &VALUE, &OTHER, TTL).await;
        assert_eq!(swap.unwrap(), Swap::Done);
        let swap = other.remove("key", &VALUE).await;
        assert_eq!(swap.unwrap(), Swap::Other(OTHER));
        let swap = other.remove("key", &OTHER).await;
        assert_eq!(swap.unwrap(), Swap::Done);
        for attempts in [0..40, 20..60] {
            for attempt in attempts {
                let store = [one, other][attempt % 2];
                let count = store.count("counted", attempt as u128, TTL).await;
                assert_eq!(count.unwrap().attempt, attempt as u64 + 1);
            }
        }
        forget(admin, "counted").await;
    }
    for round in 0..5 {
        let key = format!("raced for {round}");
        if round % 2 == 0 {
            leave_expired(store, &key).await;
        }
        assert_eq!(winners(store, &key).await, 1);
    }
    leave_expired(admin, "expired").await;
    store.purge_expired().await.unwrap();
    assert_eq!(
        DB::number(admin.pool(), "SELECT count(*) FROM idempotence").await,
        5
    );
}

async fn forget<DB: Fresh>(store: &SqlStore<DB>, key: &str) {
    let stored = store.get(key).await.unwrap().unwrap();
    let removed = store.remove(key, &stored.value).await;
    assert_eq!(removed.unwrap(), Swap::Done);
}

async fn winners<DB: Fresh>(store: &SqlStore<DB>, key: &str) -> usize {
    let start = Arc::new(Barrier::new(32));
    let mut racing = JoinSet::new();
    for racer in 0..32 {
        let (store, key, start) = (store.clone(), key.to_owned(), Arc::clone(&start));
        racing.spawn(async move {
            let value = Bytes::from(format!("racer {racer}"));
            start.wait().await;
            claimed(&store, &key, &value, TTL).await
        });
    }
    let claimed = racing.join_all().await;
    claimed.into_iter().filter(|claimed| *claimed).count()
}

/// The store needs this to interpret the number of rows.
#[tokio::test]
async fn the_client_counts_the_found_rows() {
    let store = mysql().await;
    store.claim("key", &VALUE, TTL).await.unwrap();
    let same = "UPDATE idempotence SET value = value";
    let done = store.pool().execute(same).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
}
