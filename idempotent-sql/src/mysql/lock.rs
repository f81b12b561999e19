//! The statements of a lock in MySQL and MariaDB.

use sqlx::{MySql, MySqlConnection};

use crate::database::lock::{LockStatements, Locks};
use crate::database::statement::FixedStatement;
use crate::database::statement::Placeholder::{Expected, KeyBytes, Micros};

const HOLDER: &str = "SELECT fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) \
             FROM idempotence_lock WHERE name = ? AND expires_at > UTC_TIMESTAMP(6)";

const RENEW: &str = "UPDATE idempotence_lock \
             SET expires_at = GREATEST(expires_at, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
             WHERE name = ? AND owner = ? AND expires_at > UTC_TIMESTAMP(6)";

const RELEASE: &str =
    "UPDATE idempotence_lock SET expires_at = '1970-01-01' WHERE name = ? AND owner = ?";

impl Locks for MySql {
    const LOCK_STATEMENTS: &'static LockStatements = &LockStatements {
        holder: FixedStatement::new(HOLDER, &[KeyBytes]),
        renew: FixedStatement::new(RENEW, &[Micros, KeyBytes, Expected]),
        release: FixedStatement::new(RELEASE, &[KeyBytes, Expected]),
    };

    async fn take_lock(
        connection: &mut MySqlConnection,
        name: &str,
        owner: &[u8],
        micros: i64,
    ) -> sqlx::Result<Option<i64>> {
        // Assignments run from left to right, and each sees the results of the earlier ones: the fence uses the old owner, and
        // both the fence and the owner use the old expiry. The reply has the fence as its last insert id, which is 0 if another
        // owner has the lock. The number of rows is the same in both cases.
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
}
