//! Each form of function that takes its caller's transaction: the first call runs, the second call gets its result.

use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;
use idempotence::sql::sqlx::pool::PoolConnection;
use idempotence::sql::sqlx::sqlite::SqlitePoolOptions;
use idempotence::sql::sqlx::{
    self, Connection, Executor, Sqlite, SqliteConnection, SqlitePool, Transaction,
};
use idempotence::sql::{AsConnection, migrate};
use idempotence::{Duplicate, Error, Idempotency, MemoryStore, idempotent};

type Tx7<'c> = Transaction<'c, Sqlite>;

#[derive(Debug)]
enum Trouble {
    Refused(&'static str),
    Declined,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(error.code())
    }
}

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        panic!("{error}")
    }
}

/// A pool of one connection, so that an open transaction blocks the next transaction.
async fn pool() -> SqlitePool {
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    migrate(&pool).await.unwrap();
    pool.execute("CREATE TABLE payment (order_no INTEGER)")
        .await
        .unwrap();
    pool
}

/// Inserts a payment, and returns the number of payments.
async fn insert(tx: &mut SqliteConnection, order_no: i64) -> sqlx::Result<i64> {
    let insert = sqlx::query("INSERT INTO payment VALUES (?)").bind(order_no);
    tx.execute(insert).await?;
    sqlx::query_scalar("SELECT count(*) FROM payment")
        .fetch_one(tx)
        .await
}

/// Makes two equal calls, each in a committed transaction. The second gets the result of the first.
macro_rules! runs_once {
    (|$tx:ident| $call:expr) => {
        let pool = pool().await;
        Idempotency::new(MemoryStore::new())
            .scope(async {
                for _ in 0..2 {
                    let mut $tx = pool.begin().await.unwrap();
                    assert_eq!($call.await.unwrap(), 1);
                    $tx.commit().await.unwrap();
                }
            })
            .await;
        let mut connection = pool.acquire().await.unwrap();
        assert_eq!(insert(&mut connection, 0).await.unwrap(), 2);
    };
}

mod free {
    use super::*;

    #[idempotent(key = "order_no", ttl = "7d", replay = true, tx = tx)]
    async fn transaction(tx: &mut Transaction<'_, Sqlite>, order_no: i64) -> Result<i64, Trouble> {
        Ok(insert(tx, order_no).await?)
    }

    #[idempotent(key = "order_no", ttl = "7d", replay = true, tx = db, name = "named")]
    async fn of_another_name(db: &mut Tx7<'_>, order_no: i64) -> Result<i64, Trouble> {
        // The body gets a reborrow, and may use it like the argument.
        let mut savepoint = db.begin().await?;
        let paid = insert(&mut savepoint, order_no).await?;
        savepoint.commit().await?;
        Ok(paid)
    }

    #[idempotent(key = "order_no", ttl = "7d", replay = true, tx = tx, wait = "1s")]
    async fn connection(order_no: i64, tx: &mut SqliteConnection) -> Result<i64, Trouble> {
        Ok(insert(&mut *tx, order_no).await?)
    }

    #[idempotent(key = "order_no", ttl = "7d", replay = true, tx = tx)]
    async fn generic<T>(tx: &mut T, order_no: i64) -> Result<i64, Trouble>
    where
        T: AsConnection<Database = Sqlite>,
    {
        Ok(insert(tx.as_connection(), order_no).await?)
    }

    #[allow(
        clippy::elidable_lifetime_names,
        reason = "the test is that explicit lifetimes compile"
    )]
    #[idempotent(key = "order_no", ttl = "7d", replay = true, tx = tx)]
    async fn named_lifetimes<'t, 'c>(
        tx: &'t mut Transaction<'c, Sqlite>,
        order_no: &str,
    ) -> Result<i64, Trouble> {
        let order_no = order_no.parse().map_err(|_| Trouble::Declined)?;
        Ok(insert(tx, order_no).await?)
    }

    #[idempotent(key = "order_no", ttl = "7d", replay = true, tx = tx)]
    fn future(
        tx: &mut Tx7<'_>,
        order_no: i64,
    ) -> impl Future<Output = Result<i64, Trouble>> + Send {
        async move { Ok(insert(tx, order_no).await?) }
    }

    #[idempotent(key = "order_no", ttl = "7d", replay = true, tx = tx)]
    fn boxed<'a>(
        tx: &'a mut Tx7<'_>,
        order_no: &'a i64,
    ) -> Pin<Box<dyn Future<Output = Result<i64, Trouble>> + Send + 'a>> {
        Box::pin(async move { Ok(insert(tx, *order_no).await?) })
    }

    #[tokio::test]
    async fn functions_run_once() {
        runs_once!(|tx| transaction(&mut tx, 7));
        runs_once!(|tx| of_another_name(&mut tx, 7));
        runs_once!(|tx| connection(7, &mut tx));
        runs_once!(|tx| generic(&mut tx, 7));
        runs_once!(|tx| generic(&mut *tx, 7));
        runs_once!(|tx| named_lifetimes(&mut tx, "7"));
        runs_once!(|tx| future(&mut tx, 7));
        runs_once!(|tx| boxed(&mut tx, &7));
    }

    #[idempotent(key = "order_no", ttl = "7d", tx = tx, error = |error| error.code())]
    async fn unused(tx: &mut PoolConnection<Sqlite>, order_no: i64) -> Result<i64, &'static str> {
        Ok(order_no)
    }

    #[tokio::test]
    async fn a_connection_outside_a_transaction_is_refused() {
        let mut connection = pool().await.acquire().await.unwrap();
        let handle = Idempotency::new(MemoryStore::new());
        let called = handle.scope(unused(&mut connection, 7)).await;
        assert_eq!(called.unwrap_err(), "store_misconfigured");
    }

    #[tokio::test]
    async fn it_can_be_spawned() {
        let pool = pool().await;
        let call = async move {
            let mut tx = pool.begin().await.unwrap();
            let first = transaction(&mut tx, 7).await.unwrap();
            let other = future(&mut tx, 7).await.unwrap();
            let boxed = boxed(&mut tx, &7).await.unwrap();
            first + other + boxed
        };
        let handle = Idempotency::new(MemoryStore::new());
        let called = tokio::spawn(async move { handle.scope(call).await });
        assert_eq!(called.await.unwrap(), 6);
    }
}

mod methods {
    use super::*;

    struct Orders {
        tenant: String,
        idempotency: Idempotency,
    }

    impl Orders {
        #[idempotent(
            key = "self.tenant, order_no",
            ttl = "7d",
            replay = true,
            tx = tx,
            using = self.idempotency,
        )]
        async fn pay(&self, tx: &mut Tx7<'_>, order_no: i64) -> Result<i64, Trouble> {
            if self.tenant.is_empty() {
                return Err(Trouble::Declined);
            }
            Ok(insert(tx, order_no).await?)
        }
    }

    trait Pays {
        fn pay(
            &self,
            tx: &mut SqliteConnection,
            order_no: i64,
        ) -> impl Future<Output = Result<i64, Trouble>> + Send;
    }

    impl Pays for Orders {
        #[idempotent(key = "order_no", ttl = "7d", replay = true, tx = tx)]
        async fn pay(&self, tx: &mut SqliteConnection, order_no: i64) -> Result<i64, Trouble> {
            Ok(insert(tx, order_no).await?)
        }
    }

    #[async_trait]
    trait PaysBoxed {
        async fn pay(&self, tx: &mut Tx7<'_>, order_no: &str) -> Result<i64, Trouble>;
    }

    #[async_trait]
    impl PaysBoxed for Orders {
        #[idempotent(key = "self.tenant, order_no", ttl = "7d", replay = true, tx = tx)]
        async fn pay(&self, tx: &mut Tx7<'_>, order_no: &str) -> Result<i64, Trouble> {
            let order_no = order_no.parse().map_err(|_| Trouble::Declined)?;
            Ok(insert(tx, order_no).await?)
        }
    }

    #[tokio::test]
    async fn methods_run_once() {
        let orders = Orders {
            tenant: "north".to_owned(),
            idempotency: Idempotency::new(MemoryStore::new()),
        };
        runs_once!(|tx| orders.pay(&mut tx, 7));
        runs_once!(|tx| Pays::pay(&orders, &mut tx, 7));
        runs_once!(|tx| (&orders as &(dyn PaysBoxed + Sync)).pay(&mut tx, "7"));
    }
}

mod options {
    use super::*;

    #[idempotent(
        key = "order_no",
        payload = "amount",
        ttl = "7d",
        tx = tx,
        on_duplicate = |duplicate: Duplicate| {
            let _: &mut Tx7<'_> = tx;
            Ok(-i64::from(duplicate.age().subsec_nanos() < u32::MAX))
        },
    )]
    async fn answered(tx: &mut Tx7<'_>, order_no: i64, amount: i64) -> Result<i64, Trouble> {
        Ok(insert(tx, order_no * amount).await?)
    }

    #[tokio::test]
    async fn on_duplicate_answers_a_duplicate_but_not_a_mismatch() {
        let pool = pool().await;
        let handle = Idempotency::new(MemoryStore::new());
        let called = handle.scope(async {
            let mut tx = pool.begin().await.unwrap();
            assert_eq!(answered(&mut tx, 7, 1).await.unwrap(), 1);
            assert_eq!(answered(&mut tx, 7, 1).await.unwrap(), -1);
            answered(&mut tx, 7, 2).await.unwrap_err()
        });
        let error = called.await;
        assert!(
            matches!(error, Trouble::Refused("payload_mismatch")),
            "{error:?}"
        );
    }

    #[idempotent(key = "order_no", ttl = "7d", tx = tx, success = |paid| *paid.as_ref().unwrap() > 0)]
    async fn judged(tx: &mut Tx7<'_>, order_no: i64, paid: i64) -> Result<i64, Trouble> {
        insert(tx, order_no).await?;
        Ok(paid)
    }

    #[tokio::test]
    async fn an_outcome_without_success_frees_the_key() {
        let pool = pool().await;
        let handle = Idempotency::new(MemoryStore::new());
        let called = handle.scope(async {
            for (paid, expected) in [(0, Some(0)), (1, Some(1)), (2, None)] {
                let mut tx = pool.begin().await.unwrap();
                assert_eq!(judged(&mut tx, 7, paid).await.ok(), expected);
                tx.commit().await.unwrap();
            }
        });
        called.await;
    }
}
