//! The statements of the store in PostgreSQL.
//!
//! Each statement is its own transaction, and is correct under every isolation level. Under READ COMMITTED a statement sees the
//! rows as they were when it began, but a change examines the current row. If the two differ, stricter levels refuse the
//! statement, and it is sent again.
//!
//! `statement_timestamp()` is the time when the statement arrived: after it was sent, and before it waited for a lock.

use bytes::Bytes;
use sqlx::{Error, PgConnection, Postgres, query_as, query_scalar};

use crate::database::records::{FoundKey, ListedRow, Records, Statements};
use crate::database::statement::FixedStatement;
use crate::database::statement::Placeholder::{Expected, Key, Limit, Micros, New};

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

/// $1 keys, $2 values, $3 microseconds. Returns whether all are claimed.
///
/// Keys that are free when the statement begins are inserted in their order, so two statements cannot deadlock. If another
/// transaction claims one of them meanwhile, the cast fails on purpose: the error undoes the others.
const CLAIM_ALL: &str = "
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::bytea[]) AS wanted (key, value)
), claimed AS (
    INSERT INTO idempotence AS old (key, value, expires_at)
    SELECT key, value, statement_timestamp() + $3 * interval '1 microsecond' FROM wanted
    WHERE NOT EXISTS (
        SELECT FROM wanted AS one JOIN idempotence AS stored ON stored.key = one.key
        WHERE stored.value <> one.value AND stored.expires_at > statement_timestamp()
    )
    ORDER BY key COLLATE \"C\"
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value,
        expires_at = CASE WHEN old.expires_at <= statement_timestamp() THEN EXCLUDED.expires_at
            ELSE old.expires_at END
    WHERE old.value = EXCLUDED.value OR old.expires_at <= statement_timestamp()
    RETURNING key
)
SELECT CASE count(*) WHEN 0 THEN false WHEN cardinality($1) THEN true
    ELSE (count(*) || ' of the keys are free')::boolean END FROM claimed";

/// $1 keys, $2 values, $3 microseconds, $4 bytes. Returns the places of the keys that have a record, with the first bytes of the values
/// of other callers.
///
/// If another transaction claims the free key after the statement has begun, nothing is claimed, and the free key is not returned.
const CLAIM_ANY: &str = "
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS wanted (key, value, place)
), taken AS (
    SELECT place, CASE WHEN stored.value <> wanted.value
        THEN substring(stored.value FROM 1 FOR $4::int) END AS other
    FROM wanted JOIN idempotence AS stored ON stored.key = wanted.key
    WHERE stored.expires_at > statement_timestamp()
), claimed AS (
    INSERT INTO idempotence AS old (key, value, expires_at)
    SELECT key, value, statement_timestamp() + $3 * interval '1 microsecond' FROM wanted
    WHERE place NOT IN (SELECT place FROM taken)
        AND NOT EXISTS (SELECT FROM taken WHERE other IS NULL)
    ORDER BY place LIMIT 1
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at
    WHERE old.expires_at <= statement_timestamp()
    RETURNING key
)
SELECT place, NULL FROM wanted JOIN claimed USING (key) UNION ALL SELECT place, other FROM taken
ORDER BY place";

/// The cast of a text that is no value of the type.
const NO_SUCH_VALUE: &str = "22P02";

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
    const CLAIMS_ANY: bool = true;
    const STATEMENTS: &'static Statements = &Statements {
        claim: FixedStatement::new(CLAIM, &[Key, New, Micros]),
        replace: FixedStatement::new(REPLACE, &[Key, Expected, New, Micros]),
        exchange: FixedStatement::new(EXCHANGE, &[Key, Expected, New]),
        renew: FixedStatement::new(RENEW, &[Key, Expected, Micros]),
        remove: FixedStatement::new(REMOVE, &[Key, Expected]),
        get: FixedStatement::new(GET, &[Key, Limit]),
        purge: FixedStatement::new(PURGE, &[Limit]),
    };

    async fn claim_all(
        connection: &mut PgConnection,
        claims: &[(&str, &Bytes)],
        micros: i64,
    ) -> sqlx::Result<bool> {
        let (keys, values): (Vec<_>, Vec<_>) =
            claims.iter().map(|(key, value)| (*key, &***value)).unzip();
        let claim = query_scalar(CLAIM_ALL).bind(&keys).bind(&values);
        match claim.bind(micros).fetch_one(connection).await {
            Err(Error::Database(refusal)) if refusal.code().as_deref() == Some(NO_SUCH_VALUE) => {
                Ok(false)
            }
            claimed => claimed,
        }
    }

    async fn claim_any(
        connection: &mut PgConnection,
        claims: &[(&str, &Bytes)],
        micros: i64,
        most: i32,
    ) -> sqlx::Result<Vec<FoundKey>> {
        let (keys, values): (Vec<_>, Vec<_>) =
            claims.iter().map(|(key, value)| (*key, &***value)).unzip();
        let claim = query_as(CLAIM_ANY).bind(&keys).bind(&values);
        let found: Vec<(i64, Option<Vec<u8>>)> =
            claim.bind(micros).bind(most).fetch_all(connection).await?;
        let found = found.into_iter().map(|(place, other)| {
            let place = usize::try_from(place - 1).unwrap_or_default();
            (place, other.map(Into::into))
        });
        Ok(found.collect())
    }

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
