//! The commands that a call sends, as they are written by hand: put a value if the key is free, and remove this value.

use std::time::{Duration, SystemTime};

use redis::aio::MultiplexedConnection;
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::exit::{Failure, with_causes};

/// The endpoint of the calls, and the beginning of the names of the keys.
pub(crate) const ENDPOINT: &str = "idempotence.bench";

/// How long a key lives that could not be removed.
pub(crate) const TTL: Duration = Duration::from_mins(1);

pub(crate) struct ByHand {
    connection: Connection,
    prefix: String,
    remove: redis::Script,
}

enum Connection {
    Redis(MultiplexedConnection),
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

const REMOVE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The connections to a database, as many as the pool of a store has.
const CONNECTIONS: u32 = 10;

impl ByHand {
    /// `None` for several servers, because by hand it would be another program.
    pub(crate) async fn connect(url: &str, prefix: &str) -> Result<Option<Self>, Failure> {
        // The parameters of a store are not parameters of its client.
        let address = url.split_once('?').map_or(url, |(address, _)| address);
        let connection = match url.split_once(':').map_or("", |(scheme, _)| scheme) {
            "redis" | "rediss" | "valkey" | "valkeys" => {
                let client = redis::Client::open(address).map_err(failed)?;
                let connection = client.get_multiplexed_async_connection();
                Connection::Redis(connection.await.map_err(failed)?)
            }
            "postgres" | "postgresql" => {
                let pool = sqlx::postgres::PgPoolOptions::new().max_connections(CONNECTIONS);
                Connection::Postgres(pool.connect(url).await.map_err(failed)?)
            }
            "mysql" | "mariadb" => {
                let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(CONNECTIONS);
                Connection::MySql(pool.connect(url).await.map_err(failed)?)
            }
            "sqlite" => {
                let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
                Connection::Sqlite(pool.connect(address).await.map_err(failed)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(Self {
            connection,
            prefix: prefix.to_owned(),
            remove: redis::Script::new(REMOVE),
        }))
    }

    pub(crate) async fn call(&self, number: u64) -> Result<(), Failure> {
        let (key, value) = self.record(number);
        match &self.connection {
            Connection::Redis(connection) => self
                .on_redis(connection, &key, &value)
                .await
                .map_err(failed),
            Connection::Postgres(pool) => on_postgres(pool, &key, &value).await.map_err(failed),
            Connection::MySql(pool) => on_mysql(pool, &key, &value).await.map_err(failed),
            Connection::Sqlite(pool) => on_sqlite(pool, &key, &value).await.map_err(failed),
        }
    }

    /// A key and a value, about as long as those of a call.
    fn record(&self, number: u64) -> (String, String) {
        let process = std::process::id();
        let key = format!(
            "{}:{ENDPOINT}.by-hand:{process:016x}{number:016x}",
            self.prefix
        );
        (key, format!("{number:0100x}"))
    }

    async fn on_redis(
        &self,
        connection: &MultiplexedConnection,
        key: &str,
        value: &str,
    ) -> redis::RedisResult<()> {
        let mut connection = connection.clone();
        let mut claim = redis::cmd("SET");
        let ttl = u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX);
        claim.arg(key).arg(value).arg("NX").arg("PX").arg(ttl);
        let _: redis::Value = claim.query_async(&mut connection).await?;
        let mut remove = self.remove.prepare_invoke();
        let _: i64 = remove
            .key(key)
            .arg(value)
            .invoke_async(&mut connection)
            .await?;
        Ok(())
    }
}

async fn on_postgres(pool: &PgPool, key: &str, value: &str) -> sqlx::Result<()> {
    let claim = "INSERT INTO idempotence (key, value, expires_at) VALUES ($1, $2, now() + interval '1 minute') ON CONFLICT DO NOTHING";
    let claim = sqlx::query(claim).bind(key).bind(value.as_bytes());
    claim.execute(pool).await?;
    let remove = "DELETE FROM idempotence WHERE key = $1 AND value = $2";
    let remove = sqlx::query(remove).bind(key).bind(value.as_bytes());
    remove.execute(pool).await?;
    Ok(())
}

async fn on_mysql(pool: &MySqlPool, key: &str, value: &str) -> sqlx::Result<()> {
    let claim = "INSERT IGNORE INTO idempotence (`key`, value, expires_at) VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE)";
    let claim = sqlx::query(claim)
        .bind(key.as_bytes())
        .bind(value.as_bytes());
    claim.execute(pool).await?;
    let remove = "DELETE FROM idempotence WHERE `key` = ? AND value = ?";
    let remove = sqlx::query(remove)
        .bind(key.as_bytes())
        .bind(value.as_bytes());
    remove.execute(pool).await?;
    Ok(())
}

async fn on_sqlite(pool: &SqlitePool, key: &str, value: &str) -> sqlx::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let expires_at = i64::try_from((now.unwrap_or_default() + TTL).as_micros());
    let claim = "INSERT OR IGNORE INTO idempotence (key, value, expires_at) VALUES (?1, ?2, ?3)";
    let claim = sqlx::query(claim).bind(key).bind(value.as_bytes());
    claim
        .bind(expires_at.unwrap_or(i64::MAX))
        .execute(pool)
        .await?;
    let remove = "DELETE FROM idempotence WHERE key = ?1 AND value = ?2";
    let remove = sqlx::query(remove).bind(key).bind(value.as_bytes());
    remove.execute(pool).await?;
    Ok(())
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::runtime(format!("by hand: {}", with_causes(&error)))
}
