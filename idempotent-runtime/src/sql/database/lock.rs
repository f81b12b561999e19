//! What a lock sends, in the words of each database.
//!
//! Time is the database's, as it was when the statement began, so a statement that waited for another one
//! sees a time that is too early rather than too late. A release keeps the owner, so that a second one finds
//! what the first did; the lock is free because its lease is over.

use std::future::Future;

#[cfg(feature = "sqlite")]
use super::time::{TICK, sqlite_now};

/// The statements of a lock. Each commits by itself, and may be sent twice.
pub trait Statements: sqlx::Database {
    /// Takes what is free, or is this owner's; the fence, unless another owner has the lock.
    fn take_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;

    /// Who has the lock: the fence, and the microseconds until its lease ends.
    fn lock_holder(
        connection: &mut Self::Connection,
        name: &str,
    ) -> impl Future<Output = sqlx::Result<Option<(i64, i64)>>> + Send;

    /// Makes the lease end no earlier than in `micros`; whether it was this owner's and is not over.
    fn renew_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Ends the lease; whether it was this owner's.
    fn release_lock(
        connection: &mut Self::Connection,
        name: &str,
        owner: &[u8],
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;
}

#[cfg(feature = "postgres")]
impl Statements for sqlx::Postgres {
    async fn take_lock(
        connection: &mut sqlx::PgConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar(
            "INSERT INTO idempotence_lock AS held (name, owner, fence, expires_at) \
             VALUES ($1, $2, 1, statement_timestamp() + $3 * interval '1 microsecond') \
             ON CONFLICT (name) DO UPDATE SET \
               owner = excluded.owner, \
               fence = CASE WHEN held.owner = excluded.owner THEN held.fence ELSE held.fence + 1 END, \
               expires_at = greatest(held.expires_at, excluded.expires_at) \
             WHERE held.owner = excluded.owner OR held.expires_at <= statement_timestamp() \
             RETURNING fence",
        )
        .bind(name)
        .bind(owner)
        .bind(micros)
        .fetch_optional(connection)
        .await
    }

    async fn lock_holder(
        connection: &mut sqlx::PgConnection,
        name: &str,
    ) -> sqlx::Result<Option<(i64, i64)>> {
        sqlx::query_as(
            "SELECT fence, (extract(epoch FROM expires_at - statement_timestamp()) * 1000000)::bigint \
             FROM idempotence_lock WHERE name = $1 AND expires_at > statement_timestamp()",
        )
        .bind(name)
        .fetch_optional(connection)
        .await
    }

    async fn renew_lock(
        connection: &mut sqlx::PgConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let done = sqlx::query(
            "UPDATE idempotence_lock \
             SET expires_at = greatest(expires_at, statement_timestamp() + $3 * interval '1 microsecond') \
             WHERE name = $1 AND owner = $2 AND expires_at > statement_timestamp()",
        )
        .bind(name)
        .bind(owner)
        .bind(micros)
        .execute(connection)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn release_lock(
        connection: &mut sqlx::PgConnection,
        name: &str,
        owner: &[u8],
    ) -> sqlx::Result<bool> {
        let done = sqlx::query(
            "UPDATE idempotence_lock SET expires_at = to_timestamp(0) WHERE name = $1 AND owner = $2",
        )
        .bind(name)
        .bind(owner)
        .execute(connection)
        .await?;
        Ok(done.rows_affected() > 0)
    }
}

#[cfg(feature = "mysql")]
impl Statements for sqlx::MySql {
    async fn take_lock(
        connection: &mut sqlx::MySqlConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<Option<i64>> {
        // Assignments run from left to right and see those before them: the fence looks at the old owner, and
        // both it and the owner look at the old expiry. The reply carries the fence as the last insert id,
        // which is 0 if another owner has the lock: it cannot be told from the number of rows.
        let done = sqlx::query(
            "INSERT INTO idempotence_lock (name, owner, fence, expires_at) \
             VALUES (?, ?, LAST_INSERT_ID(1), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
             ON DUPLICATE KEY UPDATE \
               fence = IF(owner = ? OR expires_at <= UTC_TIMESTAMP(6), \
                 LAST_INSERT_ID(fence + (owner <> ?)), fence + LAST_INSERT_ID(0)), \
               owner = IF(expires_at <= UTC_TIMESTAMP(6), ?, owner), \
               expires_at = IF(owner = ?, \
                 GREATEST(expires_at, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND), expires_at)",
        )
        .bind(name.as_bytes())
        .bind(owner)
        .bind(micros)
        .bind(owner)
        .bind(owner)
        .bind(owner)
        .bind(owner)
        .bind(micros)
        .execute(connection)
        .await?;
        let fence = i64::try_from(done.last_insert_id()).ok();
        Ok(fence.filter(|fence| *fence > 0))
    }

    async fn lock_holder(
        connection: &mut sqlx::MySqlConnection,
        name: &str,
    ) -> sqlx::Result<Option<(i64, i64)>> {
        sqlx::query_as(
            "SELECT fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) \
             FROM idempotence_lock WHERE name = ? AND expires_at > UTC_TIMESTAMP(6)",
        )
        .bind(name.as_bytes())
        .fetch_optional(connection)
        .await
    }

    async fn renew_lock(
        connection: &mut sqlx::MySqlConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let done = sqlx::query(
            "UPDATE idempotence_lock \
             SET expires_at = GREATEST(expires_at, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
             WHERE name = ? AND owner = ? AND expires_at > UTC_TIMESTAMP(6)",
        )
        .bind(micros)
        .bind(name.as_bytes())
        .bind(owner)
        .execute(connection)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn release_lock(
        connection: &mut sqlx::MySqlConnection,
        name: &str,
        owner: &[u8],
    ) -> sqlx::Result<bool> {
        let done = sqlx::query(
            "UPDATE idempotence_lock SET expires_at = '1970-01-01' WHERE name = ? AND owner = ?",
        )
        .bind(name.as_bytes())
        .bind(owner)
        .execute(connection)
        .await?;
        Ok(done.rows_affected() > 0)
    }
}

#[cfg(feature = "sqlite")]
impl Statements for sqlx::Sqlite {
    async fn take_lock(
        connection: &mut sqlx::SqliteConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<Option<i64>> {
        // All rows, because with them comes the end of the statement: only then it is committed, or has
        // failed to.
        let fences = sqlx::query_scalar(concat!(
            "INSERT INTO idempotence_lock AS held (name, owner, fence, expires_at) VALUES (?1, ?2, 1, ",
            sqlite_now!(),
            " + ?3) ON CONFLICT (name) DO UPDATE SET \
               owner = excluded.owner, \
               fence = CASE WHEN held.owner = excluded.owner THEN held.fence ELSE held.fence + 1 END, \
               expires_at = max(held.expires_at, excluded.expires_at) \
             WHERE held.owner = excluded.owner OR held.expires_at <= ",
            sqlite_now!(),
            " RETURNING fence"
        ))
        .bind(name)
        .bind(owner)
        .bind(micros + TICK)
        .fetch_all(connection)
        .await?;
        Ok(fences.first().copied())
    }

    async fn lock_holder(
        connection: &mut sqlx::SqliteConnection,
        name: &str,
    ) -> sqlx::Result<Option<(i64, i64)>> {
        sqlx::query_as(concat!(
            "SELECT fence, expires_at - ",
            sqlite_now!(),
            " FROM idempotence_lock WHERE name = ?1 AND expires_at > ",
            sqlite_now!()
        ))
        .bind(name)
        .fetch_optional(connection)
        .await
    }

    async fn renew_lock(
        connection: &mut sqlx::SqliteConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let done = sqlx::query(concat!(
            "UPDATE idempotence_lock SET expires_at = max(expires_at, ",
            sqlite_now!(),
            " + ?3) WHERE name = ?1 AND owner = ?2 AND expires_at > ",
            sqlite_now!()
        ))
        .bind(name)
        .bind(owner)
        .bind(micros + TICK)
        .execute(connection)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn release_lock(
        connection: &mut sqlx::SqliteConnection,
        name: &str,
        owner: &[u8],
    ) -> sqlx::Result<bool> {
        let done = sqlx::query(
            "UPDATE idempotence_lock SET expires_at = 0 WHERE name = ?1 AND owner = ?2",
        )
        .bind(name)
        .bind(owner)
        .execute(connection)
        .await?;
        Ok(done.rows_affected() > 0)
    }
}
