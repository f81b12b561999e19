//! A user's own type around a connection, with its own driver: only public names are used.

use std::error::Error as _;

use idempotence::sql::driver::{
    ColumnType, Dialect, Driver, DriverError, Field, TransactionPool, Value,
};
use idempotence::{Idempotency, idempotent};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, NoTls};

use crate::setting::Trouble;

#[path = "begun.rs"]
#[allow(clippy::duplicate_mod)]
mod begun;
#[path = "suite_on_postgres.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Postgres;
type LibraryError = Error;
type Tx<'a> = &'a mut Session;

/// The start of a connection.
const POOL_ROUND_TRIPS: usize = 1;

struct Session(Client);

impl Driver for Session {
    type Connection = Self;

    fn connection(&mut self) -> &mut Self {
        self
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<u64, DriverError> {
        let changed = self.0.execute_typed(text, &typed(values)).await;
        changed.map_err(failed)
    }

    async fn first_row(
        &mut self,
        text: &str,
        values: &[Value<'_>],
        columns: &[ColumnType],
    ) -> Result<Option<Vec<Field>>, DriverError> {
        let rows = self.0.query_typed(text, &typed(values)).await;
        let rows = rows.map_err(failed)?;
        let row = rows.first().map(|row| {
            let field = |(i, column): (usize, &ColumnType)| match column {
                ColumnType::Text => row.get::<_, Option<String>>(i).into(),
                ColumnType::Bytes => row.get::<_, Option<Vec<u8>>>(i).into(),
                ColumnType::Integer => row.get::<_, Option<i64>>(i).into(),
                ColumnType::Float => row.get::<_, Option<f64>>(i).into(),
            };
            columns.iter().enumerate().map(field).collect()
        });
        Ok(row)
    }

    async fn execute_all(&mut self, texts: &str) -> Result<(), DriverError> {
        self.0.batch_execute(texts).await.map_err(failed)
    }
}

/// A new connection for each transaction, which ends with it.
#[derive(Clone)]
struct Pool(String);

impl TransactionPool for Pool {
    type Transaction = Session;
    type Error = Error;

    async fn begin(&self) -> Result<Session, DriverError> {
        let session = Session::connect(&self.0).await.map_err(failed)?;
        session.0.batch_execute("BEGIN").await.map_err(failed)?;
        Ok(session)
    }

    async fn commit(session: Session) -> Result<(), Error> {
        session.0.batch_execute("COMMIT").await
    }

    async fn roll_back(session: Session) -> Result<(), Error> {
        session.0.batch_execute("ROLLBACK").await
    }
}

async fn open_pool(url: &str, _: u32) -> Pool {
    Pool(url.to_owned())
}

use send_in as send_begun;

fn typed<'a>(values: &'a [Value<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    let typed = |value: &'a Value<'a>| -> (&'a (dyn ToSql + Sync), Type) {
        match value {
            Value::Text(text) => (text, Type::TEXT),
            Value::Bytes(bytes) => (bytes, Type::BYTEA),
            Value::Integer(number) => (number, Type::INT8),
            Value::Float(number) => (number, Type::FLOAT8),
        }
    };
    values.iter().map(typed).collect()
}

fn failed(error: Error) -> DriverError {
    let Some(refusal) = error.as_db_error() else {
        return if error.is_closed() || error.source().is_some() {
            DriverError::lost(error)
        } else {
            DriverError::other(error)
        };
    };
    let state = refusal.code().code().to_owned();
    let constraint = refusal.constraint().unwrap_or_default().to_owned();
    DriverError::postgres(state, error).of_constraint(constraint)
}

impl Session {
    async fn connect(url: &str) -> Result<Self, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self(client))
    }

    async fn begin(&mut self) -> Result<Tx<'_>, Error> {
        self.0.batch_execute("BEGIN").await?;
        Ok(self)
    }
}

fn driver<'a>(tx: &'a mut Tx<'_>) -> &'a mut Session {
    tx
}

#[idempotent(
    name = "orders.pay", using = handle, key = order, ttl = "1h", wait = "1m", replay = true, tx = tx
)]
async fn pay(
    handle: &Idempotency,
    tx: &mut Session,
    order: u32,
    receipt: u32,
) -> Result<u32, Trouble<Error>> {
    let insert = format!("INSERT INTO payment VALUES ({order})");
    let inserted = tx.0.batch_execute(&insert).await;
    inserted.map_err(Trouble::Library)?;
    Ok(receipt)
}

async fn commit(tx: Tx<'_>) -> Result<(), Error> {
    tx.0.batch_execute("COMMIT").await
}

async fn rollback(tx: Tx<'_>) {
    tx.0.batch_execute("ROLLBACK").await.unwrap();
}

async fn send_in(tx: &mut Session, statement: &str) -> Result<(), Error> {
    tx.0.batch_execute(statement).await
}

async fn text(tx: &mut Tx<'_>, statement: &str) -> String {
    tx.0.query_one(statement, &[]).await.unwrap().get(0)
}
