//! Claims with a fence in SQLite.

use bytes::Bytes;
use idempotent_runtime::port::sql::{sqlite_end, sqlite_now};
use sqlx::{Sqlite, SqliteConnection};

use crate::database::fencing::{FencedRequest, Fencing};

/// Inserts both rows or none: the row of the claim, and the row of its number.
///
/// The statement has the write lock of the file from its beginning, so the numbers have the order of the claims.
const CLAIM_FENCED: &str = concat!(
    "INSERT INTO idempotence (key, value, expires_at)
    SELECT new.key, new.value, ",
    sqlite_end!("new.micros"),
    " FROM (
        SELECT ?1 AS key, ?2 AS value, ?3 AS micros
        UNION ALL SELECT ?4, CAST('idem1 F fence=' || (",
    sqlite_now!(),
    ") || ' attempt=1 open' || char(10) || ?2 AS BLOB), ?5
    ) AS new
    WHERE NOT EXISTS (
        SELECT 1 FROM idempotence AS taken WHERE taken.key = ?1 AND taken.value <> ?2 AND taken.expires_at > ",
    sqlite_now!(),
    ")
    ON CONFLICT (key) DO UPDATE SET value = CASE
        WHEN idempotence.key = ?1 OR idempotence.expires_at <= ",
    sqlite_now!(),
    " THEN excluded.value ELSE coalesce((
        SELECT CASE WHEN word <> 'ended' AND claim = ?2 THEN idempotence.value ELSE
            CAST('idem1 F fence=' || max(CAST(number AS INTEGER) + 1, ",
    sqlite_now!(),
    ") || ' attempt=' || min(CAST(attempt AS INTEGER) + 1, 999999999)
                || CASE word WHEN 'ended' THEN ' open' ELSE ' takeover' END || char(10) || ?2 AS BLOB) END
        FROM (
            SELECT line, claim, number, substr(rest, 1, instr(rest, ' ') - 1) AS attempt,
                substr(rest, instr(rest, ' ') + 1) AS word
            FROM (
                SELECT line, claim, substr(text, 15, instr(text, ' attempt=') - 15) AS number,
                    substr(text, instr(text, ' attempt=') + 9) AS rest
                FROM (
                    SELECT line, claim, CAST(line AS TEXT) AS text
                    FROM (
                        SELECT substr(idempotence.value, 1, instr(idempotence.value, X'0A') - 1) AS line,
                            substr(idempotence.value, instr(idempotence.value, X'0A') + 1) AS claim
                    )
                )
            )
        )
        WHERE line = CAST('idem1 F fence=' || number || ' attempt=' || attempt || ' ' || word AS BLOB)
            AND number GLOB '[1-9]*' AND number NOT GLOB '*[^0-9]*' AND length(number) <= 16
            AND CAST(number AS INTEGER) < 9000000000000000
            AND (attempt = '0' OR attempt GLOB '[1-9]*') AND attempt NOT GLOB '*[^0-9]*' AND length(attempt) <= 9
            AND (word IN ('open', 'takeover') OR word = 'ended' AND length(claim) = 0)
    ), idempotence.value) END,
    expires_at = CASE WHEN idempotence.expires_at > ",
    sqlite_now!(),
    " AND (idempotence.key = ?1 OR substr(idempotence.value, 1, 14) <> CAST('idem1 F fence=' AS BLOB))
        THEN idempotence.expires_at ELSE excluded.expires_at END
    RETURNING CASE key WHEN ?4 THEN substr(value, 1, 100 + length(?2)) END"
);

impl Fencing for Sqlite {
    const HAS_STATEMENT: bool = true;

    async fn claim_fenced(
        connection: &mut SqliteConnection,
        request: &FencedRequest<'_>,
    ) -> sqlx::Result<Option<Bytes>> {
        let claim = sqlx::query_scalar(CLAIM_FENCED)
            .bind(request.key)
            .bind(request.value)
            .bind(request.micros)
            .bind(request.fence_key)
            .bind(request.fence_micros);
        // All rows, so that an error of the commit, which comes after the rows, is returned.
        let records: Vec<Option<Vec<u8>>> = claim.fetch_all(connection).await?;
        Ok(records.into_iter().flatten().next().map(Bytes::from))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use idempotent_runtime::store::{Fence, FencedClaim, Store as _, Swap};
    use sqlx::{AssertSqlSafe, Row};

    use super::*;
    use crate::store::SqliteStore;

    #[tokio::test]
    async fn sqlite_finds_both_rows_by_their_keys() {
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {CLAIM_FENCED}")));
        let plan = explain.fetch_all(store.pool()).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("SEARCH taken USING INDEX"), "{plan}");
        assert!(!plan.contains("SCAN idempotence"), "{plan}");
        assert!(!plan.contains("SCAN taken"), "{plan}");
    }

    #[tokio::test]
    async fn sqlite_keeps_every_byte_of_a_claim() {
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        let ttl = Duration::from_mins(1);
        let fence = async |value: &'static [u8]| {
            let value = Bytes::from_static(value);
            let claim = store.claim_fenced("key", "key:fence", &value, ttl);
            match claim.await.unwrap() {
                FencedClaim::Claimed(fence) => fence,
                FencedClaim::Taken(other) => panic!("{other:?}"),
            }
        };
        let mut last: Option<Fence> = None;
        for value in [b"\0\xff\n'\0".as_slice(), b"\n", b"\xc3(", b"\0\0"] {
            let drawn = fence(value).await;
            assert_eq!(fence(value).await, drawn, "a repeated claim");
            if let Some(last) = last {
                assert!(drawn.number > last.number && drawn.took_over, "{drawn:?}");
                assert_eq!(drawn.attempt, last.attempt + 1);
            }
            last = Some(drawn);
            let removal = store.remove("key", &Bytes::from_static(value)).await;
            assert_eq!(removal.unwrap(), Swap::Done);
        }
    }
}
