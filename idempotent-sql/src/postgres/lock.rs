//! The statements of a lock in PostgreSQL.

use sqlx::{PgConnection, Postgres};

use crate::database::lock::{LockStatements, Locks};
use crate::database::statement::FixedStatement;
use crate::database::statement::Placeholder::{Expected, Key, Micros};

const HOLDER: &str = "SELECT fence, (extract(epoch FROM expires_at - statement_timestamp()) * 1000000)::bigint \
             FROM idempotence_lock WHERE name = $1 AND expires_at > statement_timestamp()";

const RENEW: &str = "UPDATE idempotence_lock \
             SET expires_at = greatest(expires_at, statement_timestamp() + $3 * interval '1 microsecond') \
             WHERE name = $1 AND owner = $2 AND expires_at > statement_timestamp()";

const RELEASE: &str =
    "UPDATE idempotence_lock SET expires_at = to_timestamp(0) WHERE name = $1 AND owner = $2";

impl Locks for Postgres {
    const LOCK_STATEMENTS: &'static LockStatements = &LockStatements {
        holder: FixedStatement::new(HOLDER, &[Key]),
        renew: FixedStatement::new(RENEW, &[Key, Expected, Micros]),
        release: FixedStatement::new(RELEASE, &[Key, Expected]),
    };

    async fn take_lock(
        connection: &mut PgConnection,
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
}
