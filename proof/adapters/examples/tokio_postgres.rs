//! An order and its payment with tokio-postgres and a pool of deadpool-postgres.
//!
//! The key of the call, the order and the payment are in one transaction, which the caller begins and commits.

use deadpool_postgres::{Manager, Pool, PoolError, Transaction};
use idempotence::sql::{self, Retry, sqlx::Postgres};
use idempotence::{Error, Idempotency, MemoryStore, idempotent};
use tokio_postgres::NoTls;

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The call was refused, for example as a duplicate with another amount.
    #[error(transparent)]
    Refused(#[from] Error),
    #[error("no paid order has this id")]
    NotPaid,
    /// A statement failed. A message of its own keeps the whole error as the source, so that a lost connection is recognized.
    #[error("a statement failed")]
    Database(#[from] tokio_postgres::Error),
    /// The pool has no connection.
    #[error("no connection")]
    Pool(#[from] PoolError),
}

/// The service.
pub struct Shop {
    pool: Pool,
    idempotency: Idempotency,
}

impl Shop {
    /// Connects to the database at `url`, and makes its tables.
    pub async fn open(url: &str) -> Result<Self, OrderError> {
        let manager = Manager::new(url.parse()?, NoTls);
        let pool = Pool::builder(manager).max_size(8).build();
        let pool = pool.expect("a pool without timeouts needs no runtime");
        let client = pool.get().await?;
        client.batch_execute(sql::schema::<Postgres>()).await?;
        let tables = "CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, no TEXT NOT NULL, cents BIGINT NOT NULL, \
                      state TEXT NOT NULL DEFAULT 'PAID'); \
                      CREATE TABLE payment (order_id BIGINT NOT NULL REFERENCES orders, cents BIGINT NOT NULL)";
        client.batch_execute(tables).await?;
        // Only the prefix of the handle's keys is used: the row is in the database.
        let idempotency = Idempotency::new(MemoryStore::new());
        Ok(Self { pool, idempotency })
    }

    /// Places an order with its payment. A second call with the same number gets the id of the first order.
    pub async fn place(&self, order_no: &str, cents: i64) -> Result<i64, OrderError> {
        // Also after a lost connection, and a `COMMIT` whose reply was lost: the row says whether the order exists.
        let policy = Retry::with_row();
        policy.run(|| self.attempt(order_no, cents)).await
    }

    async fn attempt(&self, order_no: &str, cents: i64) -> Result<i64, OrderError> {
        let mut client = self.pool.get().await?;
        let tx = client.transaction().await?;
        let id = self.insert(&tx, order_no, cents).await?;
        tx.commit().await?;
        Ok(id)
    }

    #[idempotent(
        name = "orders.place", using = self.idempotency, key = order_no, payload = cents, ttl = "7d",
        replay = true, tx = tx
    )]
    async fn insert(
        &self,
        tx: &Transaction<'_>,
        order_no: &str,
        cents: i64,
    ) -> Result<i64, OrderError> {
        let order = "INSERT INTO orders (no, cents) VALUES ($1, $2) RETURNING id";
        let order = tx.query_one(order, &[&order_no, &cents]).await?;
        let id: i64 = order.get(0);
        let payment = "INSERT INTO payment (order_id, cents) VALUES ($1, $2)";
        tx.execute(payment, &[&id, &cents]).await?;
        Ok(id)
    }

    /// Ships a paid order. `false`: another call has shipped it. Further work of the shipment belongs in this transaction.
    pub async fn ship(&self, id: i64) -> Result<bool, OrderError> {
        let mut client = self.pool.get().await?;
        let tx = client.transaction().await?;
        let ship = "UPDATE orders SET state = 'SHIPPED' WHERE id = $1 AND state = 'PAID'";
        let is_first = tx.execute(ship, &[&id]).await? == 1;
        if !is_first {
            let state = "SELECT state FROM orders WHERE id = $1 FOR UPDATE";
            let order = tx.query_opt(state, &[&id]).await?;
            if order.is_none_or(|order| order.get::<_, &str>(0) != "SHIPPED") {
                return Err(OrderError::NotPaid);
            }
        }
        tx.commit().await?;
        Ok(is_first)
    }
}
