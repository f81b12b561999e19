//! Claims with a fence in PostgreSQL.

use bytes::Bytes;
use sqlx::{PgConnection, Postgres};

use crate::database::fencing::{FencedRequest, Fencing};

/// The database's clock in microseconds since 1970.
macro_rules! clock {
    () => {
        "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"
    };
}

/// Only a claim that is stored draws a number, because the second part inserts one row for the row of the first part. The row of
/// the key stays locked until both are committed, so the numbers have the order of the claims.
///
/// The newline is written as `chr(10)`, because settings decide what a backslash means in a string.
const CLAIM_FENCED: &str = concat!(
    "
WITH claimed AS (
    INSERT INTO idempotence AS old (key, value, expires_at)
    SELECT $1::text, $2::bytea, statement_timestamp() + $3::bigint * interval '1 microsecond'
    WHERE NOT EXISTS (
        SELECT FROM idempotence WHERE key = $1 AND value <> $2 AND expires_at > statement_timestamp()
    )
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value,
        expires_at = CASE WHEN old.expires_at <= statement_timestamp() THEN EXCLUDED.expires_at
            ELSE old.expires_at END
    WHERE old.value = $2 OR old.expires_at <= statement_timestamp()
    RETURNING key
)
INSERT INTO idempotence AS last (key, value, expires_at)
SELECT $4::text,
    decode('idem1 F fence=' || ",
    clock!(),
    " || ' attempt=1 open' || chr(10), 'escape') || $2,
    statement_timestamp() + $5::bigint * interval '1 microsecond'
FROM claimed
ON CONFLICT (key) DO UPDATE SET
    value = CASE WHEN last.expires_at <= statement_timestamp() THEN EXCLUDED.value ELSE coalesce((
        SELECT CASE WHEN word <> 'ended' AND claim = $2 THEN last.value ELSE
            decode('idem1 F fence=' || greatest(number + 1, ",
    clock!(),
    ") || ' attempt=' || least(attempt + 1, 999999999)
                || CASE word WHEN 'ended' THEN ' open' ELSE ' takeover' END || chr(10), 'escape') || $2 END
        FROM (
            SELECT line, substring(line FROM 'fence=([0-9]{1,16}) ')::bigint AS number,
                substring(line FROM 'attempt=([0-9]{1,9}) ')::integer AS attempt,
                substring(line FROM '[a-z]+$') AS word,
                substring(last.value FROM length(line) + 1 FOR 1) AS newline,
                substring(last.value FROM length(line) + 2) AS claim
            FROM (SELECT split_part(encode(last.value, 'escape') COLLATE \"C\", chr(10), 1) AS line) AS text
        ) AS parts
        WHERE line ~ '^idem1 F fence=[1-9][0-9]{0,15} attempt=(0|[1-9][0-9]{0,8}) (open|takeover|ended)$'
            AND number < 9000000000000000 AND newline = decode('0a', 'hex')
            AND (word <> 'ended' OR length(claim) = 0)
    ), last.value) END,
    expires_at = EXCLUDED.expires_at
RETURNING substring(value FROM 1 FOR 100 + length($2))"
);

impl Fencing for Postgres {
    const HAS_STATEMENT: bool = true;

    async fn claim_fenced(
        connection: &mut PgConnection,
        request: &FencedRequest<'_>,
    ) -> sqlx::Result<Option<Bytes>> {
        let claim = sqlx::query_scalar(CLAIM_FENCED)
            .bind(request.key)
            .bind(request.value)
            .bind(request.micros)
            .bind(request.fence_key)
            .bind(request.fence_micros);
        let record: Option<Vec<u8>> = claim.fetch_optional(connection).await?;
        Ok(record.map(Bytes::from))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use idempotence_test_servers::PostgresServer;
    use sqlx::{AssertSqlSafe, Row};

    use super::*;
    use crate::store::PostgresStore;

    #[tokio::test]
    async fn postgres_finds_both_rows_by_their_keys() {
        let url = PostgresServer::shared().unwrap().database().unwrap();
        let store = PostgresStore::connect(&url).await.unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN {CLAIM_FENCED}")));
        let explain = explain.bind("key").bind(&b"value"[..]).bind(1_000_000_i64);
        let explain = explain.bind("fence").bind(1_000_000_i64);
        let plan = explain.fetch_all(store.pool()).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        let arbiters = plan.matches("Conflict Arbiter Indexes: idempotence_pkey");
        assert_eq!(arbiters.count(), 2, "{plan}");
        assert!(!plan.contains("Seq Scan on idempotence"), "{plan}");
    }
}
