//! Calls whose guard begins the transaction, on a database that stays silent.

use std::time::Duration;

use idempotence_test_servers::PostgresServer;
use idempotent_runtime::{GuardedCall, Idempotency, MemoryStore};
use idempotent_sql::sql::Retry;
use sqlx::pool::PoolOptions;
use sqlx::{Executor as _, Postgres};
use tokio::time::timeout;

use crate::retry::databases::payments;
use crate::retry::{HOUR, MAX_WAIT, Trouble};

/// A body that is dropped rolls back. So must a `BEGIN` that has no answer yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_dropped_during_begin_leaves_no_transaction_in_the_pool() {
    let server = PostgresServer::start().unwrap();
    let url = server.database().unwrap();
    let options = || PoolOptions::<Postgres>::new().test_before_acquire(false);
    let pool = options().max_connections(1).connect(&url).await.unwrap();
    let table = "CREATE TABLE payment (order_no BIGINT NOT NULL)";
    pool.execute(table).await.unwrap();
    server.pause().unwrap();
    let handle = within(MAX_WAIT);
    let call = paying(&handle, 1).run_in_new(&pool, Retry::with_row(), async |_: &mut _| {
        Ok::<_, Trouble>(())
    });
    let sent = Duration::from_millis(500);
    timeout(sent, call).await.unwrap_err();
    server.resume().unwrap();
    pool.execute("INSERT INTO payment VALUES (1)")
        .await
        .unwrap();
    let other = options().connect(&url).await.unwrap();
    assert_eq!(payments(&other, 1).await, 1);
}

fn paying(handle: &Idempotency, order: u32) -> GuardedCall {
    handle.call("orders.pay").key(&order).ttl(HOUR)
}

fn within(deadline: Duration) -> Idempotency {
    let handle = Idempotency::builder(MemoryStore::new()).deadline(deadline);
    handle.build().unwrap()
}
