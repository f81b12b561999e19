//! An order and its payment in entities of SeaORM.
//!
//! The key of the call, the order and the payment are in one transaction, which the caller begins and commits.

use idempotence::sql::{self, Retry, sqlx::Postgres};
use idempotence::{Error, Idempotency, MemoryStore, idempotent};
use sea_orm::prelude::*;
use sea_orm::{Database, DatabaseTransaction, QuerySelect as _, Set, TransactionTrait as _};

pub mod orders {
    use sea_orm::entity::prelude::*;
    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub no: String,
        pub cents: i64,
        pub state: String,
    }
    impl ActiveModelBehavior for ActiveModel {}
}

pub mod payment {
    use sea_orm::entity::prelude::*;
    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "payment")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub order_id: i64,
        pub cents: i64,
    }
    impl ActiveModelBehavior for ActiveModel {}
}

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The call was refused, for example as a duplicate with another amount.
    #[error(transparent)]
    Refused(#[from] Error),
    #[error("no paid order has this id")]
    NotPaid,
    #[error(transparent)]
    Database(#[from] DbErr),
}

/// The service.
pub struct Shop {
    db: DatabaseConnection,
    idempotency: Idempotency,
}

impl Shop {
    /// Connects to the database at `url`, and makes its tables.
    pub async fn open(url: &str) -> Result<Self, OrderError> {
        let db = Database::connect(url).await?;
        let tables = "CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, no TEXT NOT NULL, cents BIGINT NOT NULL, \
                      state TEXT NOT NULL DEFAULT 'PAID'); \
                      CREATE TABLE payment (order_id BIGINT PRIMARY KEY REFERENCES orders, cents BIGINT NOT NULL)";
        db.execute_unprepared(tables).await?;
        db.execute_unprepared(sql::schema::<Postgres>()).await?;
        // Only the prefix of the handle's keys is used: the row is in the database.
        let idempotency = Idempotency::new(MemoryStore::new());
        Ok(Self { db, idempotency })
    }

    /// Places an order with its payment. A second call with the same number gets the id of the first order.
    pub async fn place(&self, order_no: &str, cents: i64) -> Result<i64, OrderError> {
        // Also after a lost connection, and a `COMMIT` whose reply was lost: the row says whether the order exists.
        let policy = Retry::with_row();
        policy.run(|| self.attempt(order_no, cents)).await
    }

    async fn attempt(&self, order_no: &str, cents: i64) -> Result<i64, OrderError> {
        let tx = self.db.begin().await?;
        let id = self.add(&tx, order_no, cents).await?;
        tx.commit().await?;
        Ok(id)
    }

    #[idempotent(
        name = "orders.place", using = self.idempotency, key = no, payload = cents, ttl = "7d",
        replay = true, tx = tx
    )]
    async fn add(&self, tx: &DatabaseTransaction, no: &str, cents: i64) -> Result<i64, OrderError> {
        let order = orders::ActiveModel {
            no: Set(no.to_owned()),
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

    /// Ships a paid order. `false`: another call has shipped it. Further work of the shipment belongs in this transaction.
    pub async fn ship(&self, id: i64) -> Result<bool, OrderError> {
        let tx = self.db.begin().await?;
        let ship = orders::Entity::update_many().filter(orders::Column::Id.eq(id));
        let ship = ship.filter(orders::Column::State.eq("PAID"));
        let ship = ship.col_expr(orders::Column::State, Expr::value("SHIPPED"));
        let is_first = ship.exec(&tx).await?.rows_affected == 1;
        if !is_first {
            let order = orders::Entity::find_by_id(id).lock_exclusive();
            let order = order.one(&tx).await?;
            if order.is_none_or(|order| order.state != "SHIPPED") {
                return Err(OrderError::NotPaid);
            }
        }
        tx.commit().await?;
        Ok(is_first)
    }
}
