//! Counts attempts in SQLite.

use idempotent_runtime::port::sql::{count, sqlite_end, sqlite_now};
use sqlx::{Sqlite, SqliteConnection};

use crate::database::counting::{Counted, Counting};

/// The `GLOB` pattern of the `remembered` attempts in a line.
macro_rules! remembered_ids {
    () => {
        "replace(hex(zeroblob(remembered)), '00', \
         replace('................', '.', '[0-9a-f]') || ',')"
    };
}

/// The window may end before the answer. It is still the window of the attempt.
const COUNT: &str = concat!(
    "INSERT INTO idempotence (key, value, expires_at) VALUES (?1, ?2, ",
    sqlite_end!("?3"),
    ") ON CONFLICT (key) DO UPDATE SET value = CASE WHEN idempotence.expires_at <= ",
    sqlite_now!(),
    " THEN excluded.value ELSE coalesce((
        SELECT CAST('idem1 C count=' || min(count + 1, 999999999999999) || ' last='
            || CASE remembered WHEN 32 THEN substr(last, 18) ELSE last END || ',' || ?4 || char(10) AS BLOB)
        FROM (
            SELECT digits, last, CAST(digits AS INTEGER) AS count, min(CAST(digits AS INTEGER), 32) AS remembered
            FROM (
                SELECT substr(line, 15, at - 15) AS digits, substr(line, at + 6, length(line) - at - 6) AS last
                FROM (
                    SELECT line, instr(line, ' last=') AS at
                    FROM (SELECT CAST(idempotence.value AS TEXT) AS line)
                )
            )
        )
        WHERE digits GLOB '[1-9]*' AND digits NOT GLOB '*[^0-9]*' AND length(digits) <= 15
            AND idempotence.value = CAST('idem1 C count=' || digits || ' last=' || last || char(10) AS BLOB)
            AND last || ',' GLOB ",
    remembered_ids!(),
    " AND instr(last, ?4) = 0
    ), idempotence.value) END, expires_at = CASE WHEN idempotence.expires_at <= ",
    sqlite_now!(),
    " THEN excluded.expires_at ELSE idempotence.expires_at END RETURNING substr(value, 1, 1024), max(expires_at - ",
    sqlite_now!(),
    ", 0)"
);

impl Counting for Sqlite {
    async fn count(
        connection: &mut SqliteConnection,
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
        // All rows, so that an error of the commit, which comes after the row, is returned.
        let lines: Vec<(Vec<u8>, i64)> = count.fetch_all(connection).await?;
        let line = lines.first();
        Ok(line.and_then(|(line, remaining)| Counted::find(line, attempt, *remaining)))
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Row};

    use super::*;
    use crate::store::SqliteStore;

    #[tokio::test]
    async fn sqlite_finds_the_row_by_its_key() {
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        let plan = async |statement: &str| {
            let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
            let plan = explain.fetch_all(store.pool()).await.unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
            plan.join("\n")
        };
        let count = plan(COUNT).await;
        assert!(
            !count.contains("SCAN idempotence") && !count.contains("SEARCH"),
            "{count}"
        );
    }
}
