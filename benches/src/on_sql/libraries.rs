//! The dedup row in transactions of other libraries: by a guarded call, and by hand in the same library.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deadpool_postgres::{Manager, Pool as Deadpool, Transaction as Cached};
use diesel::pg::data_types::PgTimestamp;
use diesel::upsert::excluded;
use diesel::{ExpressionMethods as _, query_dsl::methods::FilterDsl as _};
use diesel_async::pooled_connection::deadpool::Pool as DieselPool;
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod,
};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _};
use idempotence::sql::sqlx::Postgres;
use idempotence::{Error, Idempotency, idempotent};
use sea_orm::{
    ConnectOptions, ConnectionTrait as _, DatabaseConnection, DatabaseTransaction, DbBackend,
    Statement, TransactionTrait as _,
};
use sqlx_08::postgres::PgPoolOptions;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, Transaction};

use super::contenders::{PREFIX_IN_TX, RECORD_LEN};
use super::statements::{WEEK, number};
use super::{OnSql, Statements as _};
use crate::upload::{self, Clock, Upload};
use crate::{ATTRIBUTE, BY_HAND, Lap, key, owner};

/// As many connections as the pool of sqlx 0.9 has.
const CONNECTIONS: u32 = 10;
const PUT: &str = Postgres::PUT;
const ORDER: &str = Postgres::ORDER;

impl OnSql<Postgres> {
    /// First calls in transactions of each library that insert an order, from `tasks` tasks: the attribute and by hand.
    pub fn libraries(&self, tasks: u32) -> Vec<(&'static str, Vec<Lap<'_>>)> {
        let url = &self.few.url;
        let manager = Manager::new(url.parse().expect("a URL"), NoTls);
        let deadpool = Deadpool::builder(manager).max_size(CONNECTIONS as usize);
        let deadpool = deadpool.build().expect("a pool");
        // No pool sends a statement before it gives a connection away.
        let mut config = ManagerConfig::<AsyncPgConnection>::default();
        config.recycling_method = RecyclingMethod::Fast;
        let manager = AsyncDieselConnectionManager::new_with_config(url, config);
        let diesel = DieselPool::builder(manager).max_size(CONNECTIONS as usize);
        let mut sea_orm = ConnectOptions::new(url);
        sea_orm
            .max_connections(CONNECTIONS)
            .test_before_acquire(false)
            .sqlx_logging(false);
        let sea_orm = self.runtime.block_on(sea_orm::Database::connect(sea_orm));
        let sqlx_08 = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .test_before_acquire(false);
        let sqlx_08 = self.runtime.block_on(sqlx_08.connect(url));
        vec![
            ("sqlx 0.9", self.transactions(tasks).few),
            (
                "tokio-postgres",
                self.through(tasks, &Unprepared(deadpool.clone())),
            ),
            ("deadpool-postgres", self.through(tasks, &deadpool)),
            (
                "diesel-async",
                self.through(tasks, &diesel.build().expect("a pool")),
            ),
            ("SeaORM", self.through(tasks, &sea_orm.expect("a pool"))),
            ("sqlx 0.8", self.through(tasks, &sqlx_08.expect("a pool"))),
        ]
    }

    fn through<P: Clone>(&self, tasks: u32, pool: &P) -> Vec<Lap<'_>>
    where
        Through<P>: Upload,
    {
        let lap = |handle: Option<&Idempotency>| {
            let (pool, handle) = (pool.clone(), handle.cloned());
            upload::lap(&self.runtime, tasks, Clock::Calls, Through { pool, handle })
        };
        vec![
            (ATTRIBUTE, lap(Some(&self.few.attribute))),
            (BY_HAND, lap(None)),
        ]
    }
}

/// Transactions of a pool. Without a handle the dedup row is written by hand.
#[derive(Clone)]
struct Through<P> {
    pool: P,
    handle: Option<Idempotency>,
}

/// The key and the value of a row by hand.
fn row(user_id: u64, file_md5: &str) -> (String, Vec<u8>) {
    let key = PREFIX_IN_TX.to_owned() + &key(":", user_id, file_md5);
    let value = owner() + &"-".repeat(RECORD_LEN - 32);
    (key, value.into_bytes())
}

fn micros() -> i64 {
    i64::try_from(WEEK.as_micros()).expect("a few digits")
}

/// A pool whose transactions are used as those of tokio-postgres alone, which keeps no prepared statements.
#[derive(Clone)]
struct Unprepared(Deadpool);

impl Upload for Through<Unprepared> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        #[idempotent(name = "bench.tokiop", using = handle, key = "user_id, file_md5", ttl = "7d", tx = tx)]
        async fn guarded(
            handle: &Idempotency,
            tx: &Transaction<'_>,
            user_id: u64,
            file_md5: &str,
        ) -> Result<(), Error> {
            order(tx, user_id).await;
            Ok(())
        }

        async fn order(tx: &Transaction<'_>, user_id: u64) {
            let number = number(user_id);
            let values = &[(&number as _, Type::TEXT), (&1_i64 as _, Type::INT8)];
            let order = tx.execute_typed(ORDER, values).await;
            order.expect("an answer");
        }

        let mut client = self.pool.0.get().await.expect("a connection");
        let tx = client.transaction().await.expect("a transaction");
        if let Some(handle) = &self.handle {
            let done = guarded(handle, &tx, user_id, &file_md5).await;
            done.expect("a new order");
        } else {
            // One round trip. `execute` takes two, because it prepares the statement each time.
            let (key, value) = row(user_id, &file_md5);
            let micros = micros();
            let values = &[
                (&key as _, Type::TEXT),
                (&value as _, Type::BYTEA),
                (&micros as _, Type::INT8),
            ];
            let put = tx.execute_typed(PUT, values).await;
            assert_eq!(put.expect("an answer"), 1, "the order is made");
            order(&tx, user_id).await;
        }
        tx.commit().await.expect("a commit");
        file_md5.len()
    }
}

impl Upload for Through<Deadpool> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        #[idempotent(name = "bench.deadpl", using = handle, key = "user_id, file_md5", ttl = "7d", tx = tx)]
        async fn guarded(
            handle: &Idempotency,
            tx: &Cached<'_>,
            user_id: u64,
            file_md5: &str,
        ) -> Result<(), Error> {
            order(tx, user_id).await;
            Ok(())
        }

        async fn order(tx: &Cached<'_>, user_id: u64) {
            let order = tx.prepare_cached(ORDER).await.expect("a statement");
            let done = Transaction::execute(tx, &order, &[&number(user_id), &1_i64]).await;
            done.expect("an answer");
        }

        let mut client = self.pool.get().await.expect("a connection");
        let tx = client.transaction().await.expect("a transaction");
        if let Some(handle) = &self.handle {
            let done = guarded(handle, &tx, user_id, &file_md5).await;
            done.expect("a new order");
        } else {
            let (key, value) = row(user_id, &file_md5);
            let put = tx.prepare_cached(PUT).await.expect("a statement");
            let put = Transaction::execute(&tx, &put, &[&key, &value, &micros()]).await;
            assert_eq!(put.expect("an answer"), 1, "the order is made");
            order(&tx, user_id).await;
        }
        tx.commit().await.expect("a commit");
        file_md5.len()
    }
}

diesel::table! {
    by_hand (key) {
        key -> Text,
        value -> Binary,
        expires_at -> Timestamptz,
    }
}

diesel::table! {
    orders (number) {
        number -> Text,
        amount -> BigInt,
    }
}

impl Upload for Through<DieselPool<AsyncPgConnection>> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        #[idempotent(name = "bench.diesel", using = handle, key = "user_id, file_md5", ttl = "7d", tx = tx)]
        async fn guarded(
            handle: &Idempotency,
            tx: &mut AsyncPgConnection,
            user_id: u64,
            file_md5: &str,
        ) -> Result<(), Error> {
            order(tx, user_id).await;
            Ok(())
        }

        async fn order(tx: &mut AsyncPgConnection, user_id: u64) {
            let order = (orders::number.eq(number(user_id)), orders::amount.eq(1_i64));
            let order = diesel::insert_into(orders::table).values(order);
            order.execute(tx).await.expect("an answer");
        }

        async fn put(tx: &mut AsyncPgConnection, user_id: u64, file_md5: &str) {
            let (key, value) = row(user_id, file_md5);
            let row = (
                by_hand::key.eq(key),
                by_hand::value.eq(value),
                by_hand::expires_at.eq(in_a_week()),
            );
            let put = diesel::insert_into(by_hand::table).values(row);
            let put = put.on_conflict(by_hand::key).do_update().set((
                by_hand::value.eq(excluded(by_hand::value)),
                by_hand::expires_at.eq(excluded(by_hand::expires_at)),
            ));
            let put = put.filter(by_hand::expires_at.le(diesel::dsl::now));
            let put = put.execute(tx).await;
            assert_eq!(put.expect("an answer"), 1, "the order is made");
        }

        let mut connection = self.pool.get().await.expect("a connection");
        let connection: &mut AsyncPgConnection = &mut connection;
        let handle = self.handle.as_ref();
        let body = async |tx: &mut AsyncPgConnection| {
            if let Some(handle) = handle {
                let done = guarded(handle, tx, user_id, &file_md5).await;
                done.expect("a new order");
            } else {
                put(tx, user_id, &file_md5).await;
                order(tx, user_id).await;
            }
            Ok::<_, diesel::result::Error>(())
        };
        connection.transaction(body).await.expect("a commit");
        file_md5.len()
    }
}

/// A week from now, in microseconds since the year 2000.
fn in_a_week() -> PgTimestamp {
    const YEAR_2000: Duration = Duration::from_secs(946_684_800);
    let from = UNIX_EPOCH + YEAR_2000;
    let since = (SystemTime::now() + WEEK).duration_since(from);
    let micros = since.expect("a later time").as_micros();
    PgTimestamp(i64::try_from(micros).expect("a few digits"))
}

impl Upload for Through<DatabaseConnection> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        #[idempotent(name = "bench.seaorm", using = handle, key = "user_id, file_md5", ttl = "7d", tx = tx)]
        async fn guarded(
            handle: &Idempotency,
            tx: &DatabaseTransaction,
            user_id: u64,
            file_md5: &str,
        ) -> Result<(), Error> {
            order(tx, user_id).await;
            Ok(())
        }

        async fn order(tx: &DatabaseTransaction, user_id: u64) {
            let values = [number(user_id).into(), 1_i64.into()];
            let order = Statement::from_sql_and_values(DbBackend::Postgres, ORDER, values);
            tx.execute_raw(order).await.expect("an answer");
        }

        let tx = self.pool.begin().await.expect("a transaction");
        if let Some(handle) = &self.handle {
            let done = guarded(handle, &tx, user_id, &file_md5).await;
            done.expect("a new order");
        } else {
            let (key, value) = row(user_id, &file_md5);
            let values = [key.into(), value.into(), micros().into()];
            let put = Statement::from_sql_and_values(DbBackend::Postgres, PUT, values);
            let put = tx.execute_raw(put).await.expect("an answer");
            assert_eq!(put.rows_affected(), 1, "the order is made");
            order(&tx, user_id).await;
        }
        tx.commit().await.expect("a commit");
        file_md5.len()
    }
}

impl Upload for Through<sqlx_08::PgPool> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        #[idempotent(name = "bench.sqlx08", using = handle, key = "user_id, file_md5", ttl = "7d", tx = tx)]
        async fn guarded(
            handle: &Idempotency,
            tx: &mut sqlx_08::PgTransaction<'_>,
            user_id: u64,
            file_md5: &str,
        ) -> Result<(), Error> {
            order(tx, user_id).await;
            Ok(())
        }

        async fn order(tx: &mut sqlx_08::PgConnection, user_id: u64) {
            let order = sqlx_08::query(ORDER).bind(number(user_id)).bind(1_i64);
            order.execute(tx).await.expect("an answer");
        }

        let mut tx = self.pool.begin().await.expect("a transaction");
        if let Some(handle) = &self.handle {
            let done = guarded(handle, &mut tx, user_id, &file_md5).await;
            done.expect("a new order");
        } else {
            let (key, value) = row(user_id, &file_md5);
            let put = sqlx_08::query(PUT).bind(key).bind(value).bind(micros());
            let put = put.execute(&mut *tx).await.expect("an answer");
            assert_eq!(put.rows_affected(), 1, "the order is made");
            order(&mut tx, user_id).await;
        }
        tx.commit().await.expect("a commit");
        file_md5.len()
    }
}
