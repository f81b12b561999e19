//! An order and its payment with sqlx 0.8, here as `sqlx_08`, because these tests also have sqlx 0.9.
//!
//! The key of the call, the order and the payment are in one transaction, which the caller begins and commits.

use idempotence::sql::{self, Retry};
use idempotence::{Error, Idempotency, MemoryStore, idempotent};
use sqlx_08::{PgPool, Postgres, Transaction, query, query_scalar, raw_sql};

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The call was refused, for example as a duplicate with another amount.
    #[error(transparent)]
    Refused(#[from] Error),
    #[error("no paid order has this id")]
    NotPaid,
    #[error(transparent)]
    Database(#[from] sqlx_08::Error),
}

/// The service.
pub struct Shop {
    pool: PgPool,
    idempotency: Idempotency,
}

impl Shop {
    /// Connects to the database at `url`, and makes its tables.
    pub async fn open(url: &str) -> Result<Self, OrderError> {
        let pool = PgPool::connect(url).await?;
        let schema = sql::schema::<sql::sqlx::Postgres>();
        raw_sql(schema).execute(&pool).await?;
        let tables = "CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, no TEXT NOT NULL, cents BIGINT NOT NULL, \
                      state TEXT NOT NULL DEFAULT 'PAID'); \
                      CREATE TABLE payment (order_id BIGINT NOT NULL REFERENCES orders, cents BIGINT NOT NULL)";
        raw_sql(tables).execute(&pool).await?;
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
        let mut tx = self.pool.begin().await?;
        let id = self.insert(&mut tx, order_no, cents).await?;
        tx.commit().await?;
        Ok(id)
    }

    #[idempotent(
        name = "orders.place", using = self.idempotency, key = order_no, payload = cents, ttl = "7d",
        replay = true, tx = tx
    )]
    async fn insert(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        order_no: &str,
        cents: i64,
    ) -> Result<i64, OrderError> {
        let order = query_scalar("INSERT INTO orders (no, cents) VALUES ($1, $2) RETURNING id");
        let order = order.bind(order_no).bind(cents);
        let id: i64 = order.fetch_one(&mut **tx).await?;
        let payment = query("INSERT INTO payment (order_id, cents) VALUES ($1, $2)");
        let payment = payment.bind(id).bind(cents);
        payment.execute(&mut **tx).await?;
        Ok(id)
    }

    /// Ships a paid order. `false`: another call has shipped it. Further work of the shipment belongs in this transaction.
    pub async fn ship(&self, id: i64) -> Result<bool, OrderError> {
        let mut tx = self.pool.begin().await?;
        let ship = query("UPDATE orders SET state = 'SHIPPED' WHERE id = $1 AND state = 'PAID'");
        let shipped = ship.bind(id).execute(&mut *tx).await?;
        let is_first = shipped.rows_affected() == 1;
        if !is_first {
            let state = query_scalar("SELECT state FROM orders WHERE id = $1 FOR UPDATE");
            let state: Option<String> = state.bind(id).fetch_optional(&mut *tx).await?;
            if state.as_deref() != Some("SHIPPED") {
                return Err(OrderError::NotPaid);
            }
        }
        tx.commit().await?;
        Ok(is_first)
    }
}
