//! An order and its payment in entities of SeaORM.
//!
//! The key of the call, the order and the payment are in one transaction, which the caller begins and commits.

use std::time::Duration;

use idempotence::sql::{self, sqlx::Postgres};
use idempotence::{Error, Idempotency, MemoryStore, idempotent};
use sea_orm::{
    ActiveModelTrait as _, ConnectionTrait as _, Database, DatabaseConnection, DatabaseTransaction,
    DbErr, Set, TransactionTrait as _,
};

pub mod orders {
    use sea_orm::entity::prelude::*;
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub no: String,
        pub cents: i64,
    }
    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub mod payment {
    use sea_orm::entity::prelude::*;
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "payment")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub order_id: i64,
        pub cents: i64,
    }
    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The call was refused, for example as a duplicate with another amount.
    #[error(transparent)]
    Refused(#[from] Error),
    #[error(transparent)]
    Database(#[from] DbErr),
}

/// The service.
pub struct Shop {
    database: DatabaseConnection,
    idempotency: Idempotency,
}

impl Shop {
    /// Connects to the database at `url`, and makes its tables.
    pub async fn open(url: &str) -> Result<Self, OrderError> {
        let database = Database::connect(url).await?;
        let tables = "CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, no TEXT NOT NULL, cents BIGINT NOT NULL); \
                      CREATE TABLE payment (order_id BIGINT PRIMARY KEY REFERENCES orders, cents BIGINT NOT NULL)";
        database.execute_unprepared(tables).await?;
        let schema = sql::schema::<Postgres>();
        database.execute_unprepared(schema).await?;
        // Only the prefix of the handle's keys is used: the row is in the database.
        let idempotency = Idempotency::new(MemoryStore::new());
        Ok(Self {
            database,
            idempotency,
        })
    }

    /// Places an order with its payment. A second call with the same number gets the id of the first order.
    pub async fn place(&self, order_no: &str, cents: i64) -> Result<i64, OrderError> {
        for attempt in 1_u32.. {
            match self.attempt(order_no, cents).await {
                // A deadlock, or a lost connection, also during the `COMMIT`: the row says whether the order exists.
                Err(error) if attempt < 10 && sql::is_retryable_with_row(&error) => {
                    tokio::time::sleep(Duration::from_millis(20) * attempt).await;
                }
                outcome => return outcome,
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn attempt(&self, order_no: &str, cents: i64) -> Result<i64, OrderError> {
        let tx = self.database.begin().await?;
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
        tx: &DatabaseTransaction,
        order_no: &str,
        cents: i64,
    ) -> Result<i64, OrderError> {
        let order = orders::ActiveModel {
            no: Set(order_no.to_owned()),
            cents: Set(cents),
            ..Default::default()
        };
        let order = order.insert(tx).await?;
        let payment = payment::ActiveModel {
            order_id: Set(order.id),
            cents: Set(cents),
        };
        payment.insert(tx).await?;
        Ok(order.id)
    }
}
