//! The statements of the store in SQLite.
//!
//! Each statement that writes is its own transaction. It takes the write lock of the file before it reads, so nothing
//! changes in between. No statement returns rows that it wrote, because the client returns such rows before they are
//! committed, and would not report a failed commit.

use bytes::Bytes;
use sqlx::{Executor, Row, Sqlite, SqliteConnection, query, query_as};

use crate::sql::database::records::{ListedRow, Records};
use crate::sql::database::time::{TICK, sqlite_now};

const CLAIM: &str = concat!(
    "INSERT INTO idempotence (key, value, expires_at) VALUES (?1, ?2, ",
    sqlite_now!(),
    " + ?3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
     WHERE idempotence.expires_at <= ",
    sqlite_now!()
);
const REPLACE: &str = concat!(
    "UPDATE idempotence SET value = ?3, expires_at = ",
    sqlite_now!(),
    " + ?4 WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const EXCHANGE: &str = concat!(
    "UPDATE idempotence SET value = ?3 WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const RENEW: &str = concat!(
    "UPDATE idempotence SET expires_at = ",
    sqlite_now!(),
    " + ?3 WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const REMOVE: &str = concat!(
    "DELETE FROM idempotence WHERE key = ?1 AND value = ?2 AND expires_at > ",
    sqlite_now!()
);
const GET: &str = concat!(
    "SELECT substr(value, 1, ?2), expires_at - ",
    sqlite_now!(),
    " FROM idempotence WHERE key = ?1 AND expires_at > ",
    sqlite_now!()
);
const PURGE: &str = concat!(
    "DELETE FROM idempotence WHERE key IN (SELECT key FROM idempotence WHERE expires_at <= ",
    sqlite_now!(),
    " ORDER BY expires_at LIMIT ?1)"
);
const LIST: &str = concat!(
    "SELECT key, substr(value, 1, 512), expires_at - ",
    sqlite_now!(),
    " FROM idempotence WHERE key >= ?1 ORDER BY key LIMIT ?2"
);

impl Records for Sqlite {
    const ANSWERS_LATE: bool = false;
    const MAX_SENDS: u32 = 20;

    async fn claim(
        connection: &mut SqliteConnection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let claim = query(CLAIM).bind(key).bind(value).bind(micros + TICK);
        Ok(connection.execute(claim).await?.rows_affected() == 1)
    }

    async fn replace(
        connection: &mut SqliteConnection,
        key: &str,
        expected: &[u8],
        value: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let replace = query(REPLACE).bind(key).bind(expected);
        let replace = replace.bind(value).bind(micros + TICK);
        Ok(connection.execute(replace).await?.rows_affected() == 1)
    }

    async fn exchange(
        connection: &mut SqliteConnection,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> sqlx::Result<bool> {
        let exchange = query(EXCHANGE).bind(key).bind(expected).bind(value);
        Ok(connection.execute(exchange).await?.rows_affected() == 1)
    }

    async fn renew(
        connection: &mut SqliteConnection,
        key: &str,
        expected: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let renew = query(RENEW).bind(key).bind(expected).bind(micros + TICK);
        Ok(connection.execute(renew).await?.rows_affected() == 1)
    }

    async fn remove(
        connection: &mut SqliteConnection,
        key: &str,
        expected: &[u8],
    ) -> sqlx::Result<bool> {
        let remove = query(REMOVE).bind(key).bind(expected);
        Ok(connection.execute(remove).await?.rows_affected() == 1)
    }

    async fn get(
        connection: &mut SqliteConnection,
        key: &str,
        most: i32,
    ) -> sqlx::Result<Option<(Bytes, i64)>> {
        let get = query(GET).bind(key).bind(most);
        let row = connection.fetch_optional(get).await?;
        row.map(|row| Ok((row.try_get::<Vec<u8>, _>(0)?.into(), row.try_get(1)?)))
            .transpose()
    }

    async fn purge(connection: &mut SqliteConnection, most: u32) -> sqlx::Result<u64> {
        let purge = query(PURGE).bind(most);
        Ok(connection.execute(purge).await?.rows_affected())
    }

    async fn list(
        connection: &mut SqliteConnection,
        first: &str,
        most: i64,
    ) -> sqlx::Result<Vec<ListedRow>> {
        let list = query_as(LIST).bind(first).bind(most);
        list.fetch_all(connection).await
    }
}
