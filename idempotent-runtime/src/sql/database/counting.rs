//! How attempts are counted, in the words of each database.
//!
//! One statement counts: it begins a window, or puts the [line](crate::store::counting) with one more attempt in the place of the one
//! that stands, as long as that is good. It finds the row by its key, and keeps what it must not count: a line that has the attempt
//! already, and whatever is no such line. What stands there then has the attempt in it, and so its number.

use std::future::Future;

use bytes::Bytes;

#[cfg(feature = "sqlite")]
use super::time::{TICK, sqlite_now};

/// The statements that count.
pub trait Counting: sqlx::Database {
    /// Counts the attempt `id` under `key`, as the `first` of a window of so many microseconds or as one more; the line that stands there
    /// afterwards, and for how long yet.
    fn count(
        connection: &mut Self::Connection,
        key: &str,
        first: &[u8],
        id: &str,
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<(Bytes, i64)>>> + Send;
}

/// A newline in a text of SQL is written as it is: whether a backslash is one is a matter of settings. A line is shorter than
/// 1024 bytes, so no more is read of what somebody else put there.
#[cfg(feature = "postgres")]
const POSTGRES: &str = "
INSERT INTO idempotence AS standing (key, value, expires_at)
VALUES ($1, $2, statement_timestamp() + $3 * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE SET
    value = CASE WHEN standing.expires_at <= statement_timestamp() THEN EXCLUDED.value ELSE coalesce((
        SELECT decode(
            'idem1 C count=' || least(count + 1, 999999999999999) || ' last='
                || CASE kept WHEN 32 THEN substr(last, 18) ELSE last END || ',' || $4 || chr(10),
            'escape')
        FROM (
            SELECT line, last, count, least(count, 32)::integer AS kept
            FROM (
                SELECT line, last, CASE
                    WHEN digits <> '' AND length(digits) <= 15 AND translate(digits, '0123456789', '') = ''
                    THEN digits::bigint END AS count
                FROM (
                    SELECT line, split_part(split_part(line, '=', 2), ' ', 1) AS digits,
                        split_part(split_part(line, '=', 3), chr(10), 1) AS last
                    FROM (SELECT encode(standing.value, 'escape') COLLATE \"C\" AS line) AS text
                ) AS parts
            ) AS counted
        ) AS checked
        WHERE line = 'idem1 C count=' || count || ' last=' || last || chr(10)
            AND translate(last, '123456789abcdef', '000000000000000') || ',' = repeat('0000000000000000,', kept)
            AND count > 0 AND strpos(last, $4) = 0
    ), standing.value) END,
    expires_at = CASE WHEN standing.expires_at <= statement_timestamp() THEN EXCLUDED.expires_at
        ELSE standing.expires_at END
RETURNING substring(value FROM 1 FOR 1024), (extract(epoch FROM expires_at - statement_timestamp()) * 1000000)::bigint";

#[cfg(feature = "postgres")]
impl Counting for sqlx::Postgres {
    async fn count(
        connection: &mut sqlx::PgConnection,
        key: &str,
        first: &[u8],
        id: &str,
        micros: i64,
    ) -> sqlx::Result<Option<(Bytes, i64)>> {
        let count = sqlx::query_as(POSTGRES)
            .bind(key)
            .bind(first)
            .bind(micros)
            .bind(id);
        let line: Option<(Vec<u8>, i64)> = count.fetch_optional(connection).await?;
        Ok(line.map(|(line, left)| (line.into(), left)))
    }
}

/// The parts of a line, as MySQL cuts them out of what stands there.
#[cfg(feature = "mysql")]
macro_rules! line {
    () => {
        "CONVERT(value USING latin1)"
    };
}
#[cfg(feature = "mysql")]
macro_rules! digits {
    () => {
        concat!(
            "SUBSTRING_INDEX(SUBSTRING_INDEX(",
            line!(),
            ", ' last=', 1), '=', -1)"
        )
    };
}
#[cfg(feature = "mysql")]
macro_rules! last {
    () => {
        concat!(
            "SUBSTRING_INDEX(SUBSTRING_INDEX(",
            line!(),
            ", '\n', 1), '=', -1)"
        )
    };
}

/// Assignments are made from left to right, and each sees those before it, so the expiry is the last. What the pattern lets pass, a
/// newline at the end or a number that is not that of the attempts, the length does not.
#[cfg(feature = "mysql")]
const MYSQL: &str = concat!(
    "INSERT INTO idempotence (`key`, value, expires_at) VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
     ON DUPLICATE KEY UPDATE value = IF(expires_at <= UTC_TIMESTAMP(6), ?, IF(",
    line!(),
    " COLLATE latin1_bin REGEXP '^idem1 C count=[1-9][0-9]{0,14} last=([0-9a-f]{16},){0,31}[0-9a-f]{16}\n$' \
     AND LENGTH(value) = 20 + LENGTH(",
    digits!(),
    ") + 17 * LEAST(CAST(",
    digits!(),
    " AS UNSIGNED), 32) AND LOCATE(?, value) = 0, CONCAT('idem1 C count=', LEAST(CAST(",
    digits!(),
    " AS UNSIGNED) + 1, 999999999999999), ' last=', IF(LENGTH(",
    last!(),
    ") = 543, SUBSTRING(",
    last!(),
    ", 18), ",
    last!(),
    "), ',', ?, '\n'), value)), \
     expires_at = IF(expires_at <= UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, expires_at)"
);

/// A window that has ended since then is the one that the attempt was counted in.
#[cfg(feature = "mysql")]
const MYSQL_LINE: &str = "
SELECT SUBSTRING(value, 1, 1024), GREATEST(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at), 0)
FROM idempotence WHERE `key` = ?";

#[cfg(feature = "mysql")]
impl Counting for sqlx::MySql {
    async fn count(
        connection: &mut sqlx::MySqlConnection,
        key: &str,
        first: &[u8],
        id: &str,
        micros: i64,
    ) -> sqlx::Result<Option<(Bytes, i64)>> {
        let count = sqlx::query(MYSQL)
            .bind(key.as_bytes())
            .bind(first)
            .bind(micros)
            .bind(first)
            .bind(id.as_bytes())
            .bind(id.as_bytes())
            .bind(micros);
        count.execute(&mut *connection).await?;
        let line = sqlx::query_as(MYSQL_LINE).bind(key.as_bytes());
        let line: Option<(Vec<u8>, i64)> = line.fetch_optional(connection).await?;
        Ok(line.map(|(line, left)| (line.into(), left)))
    }
}

/// Of so many attempts as a line has kept, in the words of `GLOB`.
#[cfg(feature = "sqlite")]
macro_rules! kept_ids {
    () => {
        "replace(hex(zeroblob(kept)), '00', \
         replace('................', '.', '[0-9a-f]') || ',')"
    };
}

#[cfg(feature = "sqlite")]
const SQLITE: &str = concat!(
    "INSERT INTO idempotence (key, value, expires_at) VALUES (?1, ?2, ",
    sqlite_now!(),
    " + ?3) ON CONFLICT (key) DO UPDATE SET value = CASE WHEN idempotence.expires_at <= ",
    sqlite_now!(),
    " THEN excluded.value ELSE coalesce((
        SELECT CAST('idem1 C count=' || min(count + 1, 999999999999999) || ' last='
            || CASE kept WHEN 32 THEN substr(last, 18) ELSE last END || ',' || ?4 || char(10) AS BLOB)
        FROM (
            SELECT digits, last, CAST(digits AS INTEGER) AS count, min(CAST(digits AS INTEGER), 32) AS kept
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
    kept_ids!(),
    " AND instr(last, ?4) = 0
    ), idempotence.value) END, expires_at = CASE WHEN idempotence.expires_at <= ",
    sqlite_now!(),
    " THEN excluded.expires_at ELSE idempotence.expires_at END"
);

/// A window that has ended since then is the one that the attempt was counted in.
#[cfg(feature = "sqlite")]
const SQLITE_LINE: &str = concat!(
    "SELECT substr(value, 1, 1024), max(expires_at - ",
    sqlite_now!(),
    ", 0) FROM idempotence WHERE key = ?1"
);

#[cfg(feature = "sqlite")]
impl Counting for sqlx::Sqlite {
    async fn count(
        connection: &mut sqlx::SqliteConnection,
        key: &str,
        first: &[u8],
        id: &str,
        micros: i64,
    ) -> sqlx::Result<Option<(Bytes, i64)>> {
        let count = sqlx::query(SQLITE)
            .bind(key)
            .bind(first)
            .bind(micros + TICK)
            .bind(id);
        count.execute(&mut *connection).await?;
        let line = sqlx::query_as(SQLITE_LINE).bind(key);
        let line: Option<(Vec<u8>, i64)> = line.fetch_optional(connection).await?;
        Ok(line.map(|(line, left)| (line.into(), left)))
    }
}

#[cfg(all(
    test,
    unix,
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]
mod tests {
    use idempotence_test_servers::{MariaDbServer, PostgresServer};
    use sqlx::{AssertSqlSafe, Row};

    use super::*;
    use crate::sql::store::{MySqlStore, PostgresStore, SqliteStore};

    const FIRST: &[u8] = b"idem1 C count=1 last=0000000000000001\n";
    const ID: &str = "0000000000000002";

    #[tokio::test]
    async fn postgres_finds_the_row_by_its_key() {
        let url = PostgresServer::shared().unwrap().database().unwrap();
        let store = PostgresStore::connect(&url).await.unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN {POSTGRES}")));
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

    /// Where a key is taken, the insert has found it; only the question for the line has a plan.
    #[tokio::test]
    async fn mysql_finds_the_row_by_its_key() {
        let url = MariaDbServer::shared().unwrap().database().unwrap();
        let store = MySqlStore::connect(&url).await.unwrap();
        sqlx::MySql::count(
            &mut *store.pool().acquire().await.unwrap(),
            "key",
            FIRST,
            ID,
            1_000_000,
        )
        .await
        .unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN {MYSQL_LINE}")));
        let explain = explain.bind(&b"key"[..]);
        let plan = explain.fetch_one(store.pool()).await.unwrap();
        assert_eq!(plan.get::<String, _>("key"), "PRIMARY");
        assert_eq!(plan.get::<String, _>("type"), "const");
    }

    #[tokio::test]
    async fn sqlite_finds_the_row_by_its_key() {
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        let plan = async |statement: &str| {
            let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
            let plan = explain.fetch_all(store.pool()).await.unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
            plan.join("\n")
        };
        let line = plan(SQLITE_LINE).await;
        assert!(
            line.contains("SEARCH idempotence USING INDEX sqlite_autoindex_idempotence_1 (key=?)"),
            "{line}"
        );
        let count = plan(SQLITE).await;
        assert!(
            !count.contains("SCAN idempotence") && !count.contains("SEARCH"),
            "{count}"
        );
    }
}
