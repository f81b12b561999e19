//! A payment that must happen once per order: one correct flow and two wrong flows.

use std::time::Duration;

use idempotent_runtime::{Error, Idempotency, MemoryStore};

use idempotent_sql::sql;
use sqlx::{AssertSqlSafe, Connection, Executor, MySql, Pool, Postgres, Sqlite};
use tokio::runtime::Runtime;

use crate::crash::process::step;

/// An order that is paid.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) number: u32,
    /// The name of the process that pays. In production, equal calls have the same name. The test must know which call paid.
    pub(crate) by: String,
}

/// When the row that blocks equal calls is committed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Flow {
    InTheTransaction,
    /// Before the work.
    MarkedFirst,
    /// After the work.
    MarkedLast,
}

impl Flow {
    pub(crate) fn named(name: &str) -> Self {
        let all = [Self::InTheTransaction, Self::MarkedFirst, Self::MarkedLast];
        let mut all = all.into_iter();
        all.find(|flow| format!("{flow:?}") == name).unwrap()
    }
}

pub(crate) type Answer = Result<String, Failed>;

/// Why a call got no answer. The client may retry.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
pub(crate) enum Failed {
    Guard(Error),
    Database(sqlx::Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Guard(error)
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// Makes the tables.
pub(crate) fn set_up(url: &str) {
    let runtime = Runtime::new().unwrap();
    match scheme(url) {
        "postgres" => runtime.block_on(postgres::set_up(url)),
        "mysql" => runtime.block_on(mysql::set_up(url)),
        _ => runtime.block_on(sqlite::set_up(url)),
    }
}

/// The business rows of an order.
pub(crate) fn rows(url: &str, number: u32) -> Vec<String> {
    let runtime = Runtime::new().unwrap();
    match scheme(url) {
        "postgres" => runtime.block_on(postgres::rows(url, number)),
        "mysql" => runtime.block_on(mysql::rows(url, number)),
        _ => runtime.block_on(sqlite::rows(url, number)),
    }
}

/// Pays. Returns the answer to the client.
pub(crate) async fn pay(flow: Flow, url: &str, order: &Order) -> Answer {
    match scheme(url) {
        "postgres" => postgres::pay(flow, url, order).await,
        "mysql" => mysql::pay(flow, url, order).await,
        _ => sqlite::pay(flow, url, order).await,
    }
}

fn scheme(url: &str) -> &str {
    url.split_once(':').unwrap().0
}

fn paid(order: &Order) -> String {
    format!("paid by {}", order.by)
}

fn statement(text: String) -> sqlx::RawSql {
    sqlx::raw_sql(AssertSqlSafe(text))
}

macro_rules! flows {
    ($database:ident, $Database:ty) => {
        mod $database {
            use super::*;

            type Client = <$Database as sqlx::Database>::Connection;

            pub(crate) async fn set_up(url: &str) {
                let pool = Pool::<$Database>::connect(url).await.unwrap();
                sql::migrate(&pool).await.unwrap();
                for table in [
                    // There is no unique index on the number: it would hide the mistakes of the wrong flows.
                    "CREATE TABLE orders (number INT NOT NULL, paid VARCHAR(100) NOT NULL)",
                    "CREATE TABLE seen (number INT PRIMARY KEY)",
                ] {
                    pool.execute(table).await.unwrap();
                }
                pool.close().await;
            }

            pub(crate) async fn rows(url: &str, number: u32) -> Vec<String> {
                let mut client = Client::connect(url).await.unwrap();
                let rows = format!("SELECT paid FROM orders WHERE number = {number}");
                let rows = sqlx::query_scalar(AssertSqlSafe(rows));
                rows.fetch_all(&mut client).await.unwrap()
            }

            pub(crate) async fn pay(flow: Flow, url: &str, order: &Order) -> Answer {
                let mut client = Client::connect(url).await?;
                let answer = match flow {
                    Flow::InTheTransaction => in_the_transaction(&mut client, order).await?,
                    Flow::MarkedFirst => marked_first(&mut client, order).await?,
                    Flow::MarkedLast => marked_last(&mut client, order).await?,
                };
                step("answer");
                // This is the last message. It does not matter whether it arrives.
                let _ = client.close().await;
                Ok(answer)
            }

            async fn in_the_transaction(client: &mut Client, order: &Order) -> Answer {
                step("begin");
                let mut tx = client.begin().await?;
                step("claim");
                let idempotency = Idempotency::new(MemoryStore::new());
                let paid = idempotency
                    .call("orders.pay")
                    .key(&order.number)
                    .ttl(Duration::from_hours(1))
                    .replay()
                    .run_in(&mut tx, async |tx: &mut Client| -> Answer {
                        step("insert");
                        insert(tx, order).await?;
                        step("store the result");
                        Ok(paid(order))
                    })
                    .await?;
                step("commit");
                tx.commit().await?;
                Ok(paid)
            }

            async fn marked_first(client: &mut Client, order: &Order) -> Answer {
                step("mark");
                if let Err(error) = mark(client, order).await {
                    let marked = error
                        .as_database_error()
                        .is_some_and(|it| it.is_unique_violation());
                    return if marked {
                        Ok("already paid".to_owned())
                    } else {
                        Err(error.into())
                    };
                }
                step("insert");
                insert(client, order).await?;
                Ok(paid(order))
            }

            async fn marked_last(client: &mut Client, order: &Order) -> Answer {
                step("look");
                let seen = format!("SELECT number FROM seen WHERE number = {}", order.number);
                if client.fetch_optional(statement(seen)).await?.is_some() {
                    return Ok("already paid".to_owned());
                }
                step("insert");
                insert(client, order).await?;
                step("mark");
                mark(client, order).await?;
                Ok(paid(order))
            }

            async fn insert(client: &mut Client, order: &Order) -> sqlx::Result<()> {
                let paid = paid(order);
                let insert = format!("INSERT INTO orders VALUES ({}, '{paid}')", order.number);
                client.execute(statement(insert)).await.map(drop)
            }

            async fn mark(client: &mut Client, order: &Order) -> sqlx::Result<()> {
                let mark = format!("INSERT INTO seen VALUES ({})", order.number);
                client.execute(statement(mark)).await.map(drop)
            }
        }
    };
}

flows!(postgres, Postgres);
flows!(mysql, MySql);
flows!(sqlite, Sqlite);
