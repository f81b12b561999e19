//! An order and its payment with Diesel and diesel-async.
//!
//! The key of the call, the order and the payment are in one transaction, which `connection.transaction` begins and commits.

use diesel::{ConnectionError, ExpressionMethods as _, OptionalExtension as _, QueryDsl as _};
use diesel_async::{
    AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _,
};
use idempotence::sql::{self, Retry, sqlx::Postgres};
use idempotence::{Error, Idempotency, MemoryStore, idempotent};

diesel::table! {
    orders (id) {
        id -> BigInt,
        no -> Text,
        cents -> BigInt,
        state -> Text,
    }
}

diesel::table! {
    payment (order_id) {
        order_id -> BigInt,
        cents -> BigInt,
    }
}

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The call was refused, for example as a duplicate with another amount.
    #[error(transparent)]
    Refused(#[from] Error),
    #[error("no paid order has this id")]
    NotPaid,
    /// A statement failed. A message of its own keeps the whole error as the source, so that a deadlock is recognized.
    #[error("a statement failed")]
    Database(#[from] diesel::result::Error),
    /// There is no connection.
    #[error("no connection")]
    Connection(#[from] ConnectionError),
}

/// The service. A real one has a pool of connections.
pub struct Shop {
    url: String,
    idempotency: Idempotency,
}

impl Shop {
    /// Connects to the database at `url`, and makes its tables.
    pub async fn open(url: &str) -> Result<Self, OrderError> {
        let mut connection = AsyncPgConnection::establish(url).await?;
        connection.batch_execute(sql::schema::<Postgres>()).await?;
        let tables = "CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, no TEXT NOT NULL, cents BIGINT NOT NULL, \
                      state TEXT NOT NULL DEFAULT 'PAID'); \
                      CREATE TABLE payment (order_id BIGINT PRIMARY KEY REFERENCES orders, cents BIGINT NOT NULL)";
        connection.batch_execute(tables).await?;
        // Only the prefix of the handle's keys is used: the row is in the database.
        let idempotency = Idempotency::new(MemoryStore::new());
        let url = url.to_owned();
        Ok(Self { url, idempotency })
    }

    /// Places an order with its payment. A second call with the same number gets the id of the first order.
    pub async fn place(&self, order_no: &str, cents: i64) -> Result<i64, OrderError> {
        // Also after a lost connection, and a `COMMIT` whose reply was lost: the row says whether the order exists.
        let policy = Retry::with_row();
        policy.run(|| self.attempt(order_no, cents)).await
    }

    async fn attempt(&self, order_no: &str, cents: i64) -> Result<i64, OrderError> {
        let mut connection = AsyncPgConnection::establish(&self.url).await?;
        let insert = async |tx: &mut AsyncPgConnection| self.insert(tx, order_no, cents).await;
        connection.transaction(insert).await
    }

    #[idempotent(
        name = "orders.place", using = self.idempotency, key = order_no, payload = cents, ttl = "7d",
        replay = true, tx = tx
    )]
    async fn insert(
        &self,
        tx: &mut AsyncPgConnection,
        order_no: &str,
        cents: i64,
    ) -> Result<i64, OrderError> {
        let id: i64 = diesel::insert_into(orders::table)
            .values((orders::no.eq(order_no), orders::cents.eq(cents)))
            .returning(orders::id)
            .get_result(tx)
            .await?;
        diesel::insert_into(payment::table)
            .values((payment::order_id.eq(id), payment::cents.eq(cents)))
            .execute(tx)
            .await?;
        Ok(id)
    }

    /// Ships a paid order. `false`: another call has shipped it. Further work of the shipment belongs in this transaction.
    pub async fn ship(&self, id: i64) -> Result<bool, OrderError> {
        let mut connection = AsyncPgConnection::establish(&self.url).await?;
        let ship = async |tx: &mut AsyncPgConnection| {
            let order = orders::table.find(id);
            let ship = diesel::update(order.filter(orders::state.eq("PAID")));
            let is_first = ship.set(orders::state.eq("SHIPPED")).execute(tx).await? == 1;
            if !is_first {
                let state = order.select(orders::state).for_update();
                let state: Option<String> = state.first(tx).await.optional()?;
                if state.as_deref() != Some("SHIPPED") {
                    return Err(OrderError::NotPaid);
                }
            }
            Ok(is_first)
        };
        connection.transaction(ship).await
    }
}
