//! The statements of a lock in SQLite.

use idempotent_runtime::port::sql::{sqlite_end, sqlite_now};
use sqlx::{Sqlite, SqliteConnection};

use crate::database::lock::{LockStatements, Locks};
use crate::database::statement::FixedStatement;
use crate::database::statement::Placeholder::{Expected, Key, Micros};

const HOLDER: &str = concat!(
    "SELECT fence, expires_at - ",
    sqlite_now!(),
    " FROM idempotence_lock WHERE name = ?1 AND expires_at > ",
    sqlite_now!()
);

const RENEW: &str = concat!(
    "UPDATE idempotence_lock SET expires_at = max(expires_at, ",
    sqlite_end!("?3"),
    ") WHERE name = ?1 AND owner = ?2 AND expires_at > ",
    sqlite_now!()
);

const RELEASE: &str = "UPDATE idempotence_lock SET expires_at = 0 WHERE name = ?1 AND owner = ?2";

impl Locks for Sqlite {
    const LOCK_STATEMENTS: &'static LockStatements = &LockStatements {
        holder: FixedStatement::new(HOLDER, &[Key]),
        renew: FixedStatement::new(RENEW, &[Key, Expected, Micros]),
        release: FixedStatement::new(RELEASE, &[Key, Expected]),
    };

    async fn take_lock(
        connection: &mut SqliteConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<Option<i64>> {
        // This fetches all rows, because the statement commits, or fails to commit, only at its end.
        let fences = sqlx::query_scalar(concat!(
            "INSERT INTO idempotence_lock AS held (name, owner, fence, expires_at) VALUES (?1, ?2, 1, ",
            sqlite_end!("?3"),
            ") ON CONFLICT (name) DO UPDATE SET \
               owner = excluded.owner, \
               fence = CASE WHEN held.owner = excluded.owner THEN held.fence ELSE held.fence + 1 END, \
               expires_at = max(held.expires_at, excluded.expires_at) \
             WHERE held.owner = excluded.owner OR held.expires_at <= ",
            sqlite_now!(),
            " RETURNING fence"
        ))
        .bind(name)
        .bind(owner)
        .bind(micros)
        .fetch_all(connection)
        .await?;
        Ok(fences.first().copied())
    }
}
