//! Counts attempts in PostgreSQL.

use idempotent_runtime::port::sql::count;
use sqlx::{PgConnection, Postgres};

use crate::database::counting::{Counted, Counting};

/// The newline is written as `chr(10)`, because settings decide what a backslash means in a string. A line is shorter than 1024
/// bytes, so only 1024 bytes of a foreign value are read.
const COUNT: &str = "
INSERT INTO idempotence AS old (key, value, expires_at)
VALUES ($1, $2, statement_timestamp() + $3 * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE SET
    value = CASE WHEN old.expires_at <= statement_timestamp() THEN EXCLUDED.value ELSE coalesce((
        SELECT decode(
            'idem1 C count=' || least(count + 1, 999999999999999) || ' last='
                || CASE remembered WHEN 32 THEN substr(last, 18) ELSE last END || ',' || $4 || chr(10),
            'escape')
        FROM (
            SELECT line, last, count, least(count, 32)::integer AS remembered
            FROM (
                SELECT line, last, CASE
                    WHEN digits <> '' AND length(digits) <= 15 AND translate(digits, '0123456789', '') = ''
                    THEN digits::bigint END AS count
                FROM (
                    SELECT line, split_part(split_part(line, '=', 2), ' ', 1) AS digits,
                        split_part(split_part(line, '=', 3), chr(10), 1) AS last
                    FROM (SELECT encode(old.value, 'escape') COLLATE \"C\" AS line) AS text
                ) AS parts
            ) AS counted
        ) AS checked
        WHERE line = 'idem1 C count=' || count || ' last=' || last || chr(10)
            AND translate(last, '123456789abcdef', '000000000000000') || ',' = repeat('0000000000000000,', remembered)
            AND count > 0 AND strpos(last, $4) = 0
    ), old.value) END,
    expires_at = CASE WHEN old.expires_at <= statement_timestamp() THEN EXCLUDED.expires_at
        ELSE old.expires_at END
RETURNING substring(value FROM 1 FOR 1024), (extract(epoch FROM expires_at - statement_timestamp()) * 1000000)::bigint";

impl Counting for Postgres {
    async fn count(
        connection: &mut PgConnection,
        key: &str,
        attempt: u128,
        micros: i64,
    ) -> sqlx::Result<Option<Counted>> {
        let first = count::first(attempt);
        let count = sqlx::query_as(COUNT)
            .bind(key)
            .bind(first.as_ref())
            .bind(micros)
            .bind(count::id(attempt));
        let (line, remaining): (Vec<u8>, i64) = count.fetch_one(connection).await?;
        Ok(Counted::find(&line, attempt, remaining))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use idempotence_test_servers::PostgresServer;
    use sqlx::{AssertSqlSafe, Row};

    use super::*;
    use crate::store::PostgresStore;

    const FIRST: &[u8] = b"idem1 C count=1 last=0000000000000001\n";
    const ID: &str = "0000000000000002";

    #[tokio::test]
    async fn postgres_finds_the_row_by_its_key() {
        let url = PostgresServer::shared().unwrap().database().unwrap();
        let store = PostgresStore::connect(&url).await.unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN {COUNT}")));
        let explain = explain.bind("key").bind(FIRST).bind(1_000_000_i64).bind(ID);
        let plan = explain.fetch_all(store.pool()).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(
            plan.contains("Conflict Arbiter Indexes: idempotence_pkey"),
            "{plan}"
        );
        assert!(!plan.contains("Scan on idempotence"), "{plan}");
    }
}
