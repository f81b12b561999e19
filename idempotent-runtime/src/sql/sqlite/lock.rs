//! The statements of a lock in SQLite.

use sqlx::{Sqlite, SqliteConnection};

use crate::sql::database::lock::Locks;
use crate::sql::database::time::{TICK, sqlite_now};

impl Locks for Sqlite {
    async fn take_lock(
        connection: &mut SqliteConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<Option<i64>> {
        // This fetches all rows, because the statement commits, or fails to commit, only at its end.
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
        connection: &mut SqliteConnection,
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
        connection: &mut SqliteConnection,
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
        connection: &mut SqliteConnection,
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
