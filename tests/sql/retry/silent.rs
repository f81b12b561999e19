//! Calls whose guard begins the transaction, on a database that stays silent.

use std::time::Duration;

use futures_util::future::join_all;
use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_runtime::{Error, GuardedCall, Idempotency, MemoryStore};
use idempotent_sql::sql::{self, Retry};
use sqlx::pool::PoolOptions;
use sqlx::{Executor as _, PgConnection, Pool, Postgres};
use tokio::time::timeout;
use url::Url;

use crate::retry::databases::{Server, fresh, insert, payments};
use crate::retry::{HOUR, MAX_WAIT, Runs, Trouble};
use support::turns::Turns;
use support::wire::{Point, Wire};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_postgres_is_unavailable_and_leaves_no_transaction_in_the_pool() {
    let server = PostgresServer::start().unwrap();
    let url = server.database().unwrap();
    is_unavailable_while_frozen::<Postgres>(&url, || server.pause(), || server.resume()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_mariadb_is_unavailable_and_leaves_no_transaction_in_the_pool() {
    let server = MariaDbServer::start().unwrap();
    let url = server.database().unwrap();
    is_unavailable_while_frozen::<sqlx::MySql>(&url, || server.pause(), || server.resume()).await;
}

async fn is_unavailable_while_frozen<DB: Server>(
    url: &str,
    freeze: impl FnOnce() -> std::io::Result<()>,
    thaw: impl FnOnce() -> std::io::Result<()>,
) {
    // The only connection of the pool sends `BEGIN` first, not a ping.
    let options = || PoolOptions::<DB>::new().test_before_acquire(false);
    let pool = options().max_connections(1).connect(url).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    let table = "CREATE TABLE payment (order_no BIGINT NOT NULL)";
    pool.execute(table).await.unwrap();
    let runs = Runs::default();
    let pay = async |deadline, order: u32| {
        let handle = within(deadline);
        let call = paying(&handle, order).run_in_new(
            &pool,
            Retry::with_row(),
            async |tx: &mut DB::Connection| {
                runs.one();
                insert(tx, order).await?;
                Ok::<_, Trouble>(())
            },
        );
        timeout(MAX_WAIT, call).await.unwrap()
    };
    pay(MAX_WAIT, 1).await.unwrap();
    let other = options().connect(url).await.unwrap();
    is_idle(&pool).await;
    freeze().unwrap();
    let refused = pay(Duration::from_secs(1), 2).await.unwrap_err();
    thaw().unwrap();
    let Trouble::Guard(Error::Unavailable(_)) = &refused else {
        panic!("{refused}");
    };
    let text = refused.to_string();
    assert!(text.contains("began no transaction within 31s"), "{text}");
    assert_eq!(runs.count(), 1);

    // The `BEGIN` is executed now. A statement of anyone else on this connection must be committed.
    pool.execute("INSERT INTO payment VALUES (3)")
        .await
        .unwrap();
    assert_eq!(payments(&other, 3).await, 1);
    pay(MAX_WAIT, 2).await.unwrap();
    assert_eq!(payments(&other, 2).await, 1);
}

/// A body that is dropped rolls back. So must a `BEGIN` that has no answer yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_dropped_during_begin_leaves_no_transaction_in_the_pool() {
    let server = PostgresServer::start().unwrap();
    let url = server.database().unwrap();
    let turns = Turns::before(server.port()).await;
    let mut through = url.parse::<Url>().unwrap();
    through.set_port(Some(turns.port())).unwrap();
    let options = || PoolOptions::<Postgres>::new().test_before_acquire(false);
    let pool = options().max_connections(1).connect(through.as_str());
    let pool = pool.await.unwrap();
    let table = "CREATE TABLE payment (order_no BIGINT NOT NULL)";
    pool.execute(table).await.unwrap();
    is_idle(&pool).await;
    server.pause().unwrap();
    let before = turns.count();
    let handle = within(MAX_WAIT);
    let call = paying(&handle, 1).run_in_new(&pool, Retry::with_row(), async |_: &mut _| {
        Ok::<_, Trouble>(())
    });
    let is_sent = async {
        while turns.count() == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = call => panic!("the server has stopped"),
        () = is_sent => {}
    }
    server.resume().unwrap();
    pool.execute("INSERT INTO payment VALUES (1)")
        .await
        .unwrap();
    let other = options().connect(&url).await.unwrap();
    assert_eq!(payments(&other, 1).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_falls_silent_at_any_message_is_paid_once() {
    let fresh = fresh::<Postgres>().await;
    let port = fresh.url.parse::<Url>().unwrap().port().unwrap();
    let points = Point::all().take(3 * MESSAGES);
    let points = points.chain([Point::CommitUnanswered]);
    let calls = (1..).zip(points).map(|(order, point)| {
        let url = &fresh.url;
        async move {
            let wire = Wire::to(port, point);
            let pool = PoolOptions::<Postgres>::new().test_before_acquire(false);
            let pool = pool.connect_lazy(&wire.url(url)).unwrap();
            let answer = timeout(MAX_WAIT, pay(&within(SILENCE), &pool, order)).await;
            (order, point, wire, answer.unwrap())
        }
    });
    let calls = join_all(calls).await;
    let answers: Vec<_> = calls
        .iter()
        .map(|(_, point, _, answer)| (point, answer))
        .collect();
    let is_lost = |answer: &_| matches!(answer, Err(Trouble::Guard(Error::LeaseLost(_))));
    let (_, _, wire, commit) = calls.last().unwrap();
    // On a slow machine a call may be refused before it sends `COMMIT`.
    assert!(is_lost(commit) || !wire.was_reached(), "{answers:?}");
    assert!(answers.iter().any(|(_, answer)| answer.is_ok()));
    // The server does not know that its clients have given up.
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    fresh.pool.execute(end).await.unwrap();
    for (order, point, ..) in &calls {
        let again = pay(&within(MAX_WAIT), &fresh.pool, *order).await;
        assert_eq!(again.unwrap(), *order, "{point:?}");
        assert_eq!(payments(&fresh.pool, *order).await, 1, "{point:?}");
    }
}

/// Pays an order. The statement of the body has a limit of its own.
async fn pay(handle: &Idempotency, pool: &Pool<Postgres>, order: u32) -> Result<u32, Trouble> {
    let body = async |tx: &mut PgConnection| {
        let inserted = timeout(SILENCE, insert(tx, order)).await;
        inserted.map_err(|_| Trouble::Declined)??;
        Ok(order)
    };
    let call = paying(handle, order).wait(Duration::from_millis(1));
    // The wire stays silent, so more attempts show nothing.
    let policy = Retry::with_row().tries(2);
    call.replay().run_in_new(pool, policy, body).await
}

/// Waits until the connection is back in its pool, so that the next message on it is `BEGIN`.
async fn is_idle<DB: Server>(pool: &Pool<DB>) {
    while pool.num_idle() == 0 {
        tokio::task::yield_now().await;
    }
}

fn paying(handle: &Idempotency, order: u32) -> GuardedCall {
    handle.call("orders.pay").key(&order).ttl(HOUR)
}

fn within(deadline: Duration) -> Idempotency {
    let handle = Idempotency::builder(MemoryStore::new()).deadline(deadline);
    handle.build().unwrap()
}

/// A call of a new connection sends fewer messages.
const MESSAGES: usize = 12;
/// A busy machine answers faster.
const SILENCE: Duration = Duration::from_secs(5);
