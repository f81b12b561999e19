//! How many statements an operation sends.

use idempotent_runtime::Store;
use idempotent_runtime::store::{Claim, ClaimAll, ClaimAny, Swap};
use idempotent_sql::MySqlStore;
use idempotent_sql::sql::sqlx::{Executor, MySql, Postgres};

use crate::store::databases::{Fresh, OTHER, TTL, VALUE, narrow, postgres};
use support::databases::Kind;

/// The `xmax` of a row is the transaction that has locked or changed it.
#[tokio::test]
async fn a_duplicate_writes_and_locks_nothing_on_postgres() {
    const LOCKED: &str = "SELECT count(*) FROM idempotence WHERE xmax <> '0'::xid";

    let (store, other) = (postgres().await, OTHER);
    let pool = store.pool();
    store.claim("key", &VALUE, TTL).await.unwrap();
    for _ in 0..3 {
        let claim = store.claim("key", &OTHER, TTL).await;
        assert_eq!(claim.unwrap(), Claim::Taken(VALUE));
        let claim = store.claim("key", &VALUE, TTL).await;
        assert_eq!(claim.unwrap(), Claim::Claimed);
        let swap = store.replace("key", &OTHER, &OTHER, TTL).await;
        assert_eq!(swap.unwrap(), Swap::Other(VALUE));
        let swap = store.remove("key", &OTHER).await;
        assert_eq!(swap.unwrap(), Swap::Other(VALUE));
        let claims = [("a", &other), ("key", &other)];
        let claim = store.claim_all(&claims, TTL).await;
        assert_eq!(claim.unwrap(), ClaimAll::Taken(1, VALUE));
        let claim = store.claim_any(&claims[1..], TTL).await;
        assert_eq!(claim.unwrap(), ClaimAny::Taken(vec![VALUE]));
        assert_eq!(Postgres::number(pool, LOCKED).await, 0);
    }
    // The usual statement for an upsert does write or lock.
    let usual = "INSERT INTO idempotence SELECT * FROM idempotence \
                 ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value WHERE false";
    pool.execute(usual).await.unwrap();
    assert_eq!(Postgres::number(pool, LOCKED).await, 1);
}

#[tokio::test]
async fn a_claim_is_one_statement_on_mysql_and_a_duplicate_two() {
    let store = narrow::<MySql>(&MySql::url()).await;
    let before = statements(&store).await;
    store.claim("key", &VALUE, TTL).await.unwrap();
    store.replace("key", &VALUE, &VALUE, TTL).await.unwrap();
    store.replace("key", &VALUE, &OTHER, TTL).await.unwrap();
    store.exchange("key", &OTHER, &VALUE).await.unwrap();
    store.get("key").await.unwrap();
    store.remove("key", &VALUE).await.unwrap();
    let value = VALUE;
    let claims = [("a", &value), ("b", &value), ("c", &value)];
    let claim = store.claim_all(&claims, TTL).await;
    assert_eq!(claim.unwrap(), ClaimAll::Claimed);
    let won = statements(&store).await;
    // The query for the number of statements is also a statement.
    assert_eq!(won - before, 7 + 1);
    store.claim("key", &VALUE, TTL).await.unwrap();
    let claim = store.claim("key", &OTHER, TTL).await;
    assert_eq!(claim.unwrap(), Claim::Taken(VALUE));
    let swap = store.replace("key", &OTHER, &OTHER, TTL).await;
    assert_eq!(swap.unwrap(), Swap::Other(VALUE));
    let swap = store.exchange("key", &OTHER, &OTHER).await;
    assert_eq!(swap.unwrap(), Swap::Other(VALUE));
    let swap = store.remove("key", &OTHER).await;
    assert_eq!(swap.unwrap(), Swap::Other(VALUE));
    assert_eq!(statements(&store).await - won, 1 + 4 * 2 + 1);
}

async fn statements(store: &MySqlStore) -> i64 {
    let executed = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.session_status \
                    WHERE variable_name = 'COM_STMT_EXECUTE'";
    MySql::number(store.pool(), executed).await
}
