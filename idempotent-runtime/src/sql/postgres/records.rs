//! The statements of the store in PostgreSQL.
//!
//! Each statement is its own transaction, and is correct under every isolation level. Under READ COMMITTED a statement sees the
//! rows as they were when it began, but a change examines the current row. If the two differ, stricter levels refuse the
//! statement, and it is sent again.
//!
//! `statement_timestamp()` is the time when the statement arrived: after it was sent, and before it waited for a lock.

use sqlx::{PgConnection, Postgres, query_as};

use crate::sql::database::records::{ListedRow, Records, Statements};
use crate::sql::database::statement::FixedStatement;
use crate::sql::database::statement::Placeholder::{Expected, Key, Limit, Micros, New};

/// A claim that finds a live record writes and locks nothing. It does not return that record: this would cost every claim a
/// fifth more of the server's time.
const CLAIM: &str = "
INSERT INTO idempotence AS old (key, value, expires_at)
SELECT $1, $2, statement_timestamp() + $3 * interval '1 microsecond'
WHERE NOT EXISTS (
    SELECT FROM idempotence WHERE key = $1 AND expires_at > statement_timestamp()
)
ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at
WHERE old.expires_at <= statement_timestamp()";

const REPLACE: &str = "
UPDATE idempotence
SET value = $3, expires_at = statement_timestamp() + $4 * interval '1 microsecond'
WHERE key = $1 AND value = $2 AND expires_at > statement_timestamp()";

const EXCHANGE: &str = "
UPDATE idempotence SET value = $3
WHERE key = $1 AND value = $2 AND expires_at > statement_timestamp()";

/// This does not write the value again, because it may be large.
const RENEW: &str = "
UPDATE idempotence SET expires_at = statement_timestamp() + $3 * interval '1 microsecond'
WHERE key = $1 AND value = $2 AND expires_at > statement_timestamp()";

const REMOVE: &str = "
DELETE FROM idempotence WHERE key = $1 AND value = $2 AND expires_at > statement_timestamp()";

const GET: &str = "
SELECT substring(value FROM 1 FOR $2::int), (extract(epoch FROM expires_at - statement_timestamp()) * 1000000)::bigint
FROM idempotence WHERE key = $1 AND expires_at > statement_timestamp()";

/// The purge skips the rows that other calls have locked to claim them. The array is computed once: a plan that selected the
/// rows again would lock and remove more rows. The `ctid` of a row cannot change while the row is locked.
const PURGE: &str = "
DELETE FROM idempotence
WHERE expires_at <= statement_timestamp() AND ctid = ANY (ARRAY (
    SELECT ctid FROM idempotence WHERE expires_at <= statement_timestamp()
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
))";

const LIST: &str = "
SELECT key, substring(value FROM 1 FOR 512), (extract(epoch FROM expires_at - statement_timestamp()) * 1000000)::bigint
FROM idempotence WHERE key >= $1 ORDER BY key LIMIT $2";

impl Records for Postgres {
    const STATEMENTS: &'static Statements = &Statements {
        claim: FixedStatement::new(CLAIM, &[Key, New, Micros]),
        replace: FixedStatement::new(REPLACE, &[Key, Expected, New, Micros]),
        exchange: FixedStatement::new(EXCHANGE, &[Key, Expected, New]),
        renew: FixedStatement::new(RENEW, &[Key, Expected, Micros]),
        remove: FixedStatement::new(REMOVE, &[Key, Expected]),
        get: FixedStatement::new(GET, &[Key, Limit]),
        purge: FixedStatement::new(PURGE, &[Limit]),
    };

    async fn list(
        connection: &mut PgConnection,
        first: &[u8],
        most: i64,
    ) -> sqlx::Result<Vec<ListedRow>> {
        let list = query_as(LIST).bind(String::from_utf8_lossy(first));
        let rows: Vec<(String, Vec<u8>, i64)> = list.bind(most).fetch_all(connection).await?;
        let rows = rows.into_iter();
        Ok(rows
            .map(|(key, head, remaining)| (key.into_bytes(), head, remaining))
            .collect())
    }
}
