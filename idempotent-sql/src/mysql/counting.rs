//! Counts attempts in MySQL and MariaDB.

use idempotent_runtime::port::sql::count;
use sqlx::{MySql, MySqlConnection};

use crate::database::counting::{Counted, Counting};

/// The stored value as text; `digits` and `last` are its parts if it is a line.
macro_rules! line {
    () => {
        "CONVERT(value USING latin1)"
    };
}
macro_rules! digits {
    () => {
        concat!(
            "SUBSTRING_INDEX(SUBSTRING_INDEX(",
            line!(),
            ", ' last=', 1), '=', -1)"
        )
    };
}
macro_rules! last {
    () => {
        concat!(
            "SUBSTRING_INDEX(SUBSTRING_INDEX(",
            line!(),
            ", '\n', 1), '=', -1)"
        )
    };
}

/// Whether the stored value is a line. The check of the length refuses lines that the pattern wrongly accepts: a second newline at
/// the end, or a wrong number of attempts.
macro_rules! is_line {
    () => {
        concat!(
            line!(),
            " COLLATE latin1_bin REGEXP '^idem1 C count=[1-9][0-9]{0,14} last=([0-9a-f]{16},){0,31}[0-9a-f]{16}\n$' \
             AND LENGTH(value) = 20 + LENGTH(",
            digits!(),
            ") + 17 * LEAST(CAST(",
            digits!(),
            " AS UNSIGNED), 32)"
        )
    };
}

/// What a count changes in a stored row. `$first` is the line of a new window, `$id` the attempt, and `$end` the end of a new
/// window.
///
/// Assignments run from left to right, and each sees the results of the earlier ones, so the expiry is last.
macro_rules! counted {
    ($now:expr, $first:expr, $id:expr, $end:expr) => {
        concat!(
            "value = IF(expires_at <= ",
            $now,
            ", ",
            $first,
            ", IF(",
            is_line!(),
            " AND LOCATE(",
            $id,
            ", value) = 0, CONCAT('idem1 C count=', LEAST(CAST(",
            digits!(),
            " AS UNSIGNED) + 1, 999999999999999), ' last=', IF(LENGTH(",
            last!(),
            ") = 543, SUBSTRING(",
            last!(),
            ", 18), ",
            last!(),
            "), ',', ",
            $id,
            ", '\n'), value)), expires_at = IF(expires_at <= ",
            $now,
            ", ",
            $end,
            ", expires_at)"
        )
    };
}
pub(super) use {counted, digits, is_line, last, line};

/// The answer has the number of the attempt as the last inserted id: 1 for an inserted row; 0 if the stored value is no line. The
/// first assignment sets this id and changes nothing. It reads the row before the count: MariaDB mixes up the old and the new value
/// of a changed `value` in the mode `ORACLE`.
const COUNT: &str = concat!(
    "INSERT INTO idempotence (`key`, value, expires_at) \
     VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? * LAST_INSERT_ID(1) MICROSECOND) \
     ON DUPLICATE KEY UPDATE expires_at = IF(LAST_INSERT_ID(IF(expires_at <= UTC_TIMESTAMP(6), 1, IF(",
    is_line!(),
    ", IF(LOCATE(?, value) = 0, LEAST(CAST(",
    digits!(),
    " AS UNSIGNED) + 1, 999999999999999), CAST(",
    digits!(),
    " AS UNSIGNED) - (LENGTH(value) - 16 - LOCATE(?, value)) DIV 17), 0))) < 0, NULL, expires_at), ",
    counted!(
        "UTC_TIMESTAMP(6)",
        "?",
        "?",
        "UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"
    )
);

/// The record after the count. The window may have ended meanwhile. It is still the window of the attempt.
const LINE: &str = "
SELECT SUBSTRING(value, 1, 1024), GREATEST(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at), 0)
FROM idempotence WHERE `key` = ?";

impl Counting for MySql {
    async fn count(
        connection: &mut MySqlConnection,
        key: &str,
        attempt: u128,
        micros: i64,
    ) -> sqlx::Result<Option<Counted>> {
        let (first, id) = (count::first(attempt), count::id(attempt));
        let (first, id) = (first.as_ref(), id.as_bytes());
        let count = sqlx::query(COUNT)
            .bind(key.as_bytes())
            .bind(first)
            .bind(micros)
            .bind(id)
            .bind(id)
            .bind(first)
            .bind(id)
            .bind(id)
            .bind(micros);
        let number = count.execute(&mut *connection).await?.last_insert_id();
        let line = sqlx::query_as(LINE).bind(key.as_bytes());
        let line: Option<(Vec<u8>, i64)> = line.fetch_optional(connection).await?;
        Ok(match line {
            Some((line, remaining)) if number == 0 => Counted::find(&line, attempt, remaining),
            None if number == 0 => None,
            line => Some(Counted {
                number: Ok(number),
                // The window has ended.
                remaining: line.map_or(0, |(_, remaining)| remaining),
            }),
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use idempotence_test_servers::MariaDbServer;
    use sqlx::{AssertSqlSafe, Row};

    use super::*;
    use crate::store::MySqlStore;

    /// An insert has no plan: it finds a taken key by the index. Only the query for the line has a plan.
    #[tokio::test]
    async fn mysql_finds_the_row_by_its_key() {
        let url = MariaDbServer::shared().unwrap().database().unwrap();
        let store = MySqlStore::connect(&url).await.unwrap();
        let mut connection = store.pool().acquire().await.unwrap();
        let count = MySql::count(&mut connection, "key", 1, 1_000_000).await;
        count.unwrap().unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN {LINE}")));
        let explain = explain.bind(&b"key"[..]);
        let plan = explain.fetch_one(store.pool()).await.unwrap();
        assert_eq!(plan.get::<String, _>("key"), "PRIMARY");
        assert_eq!(plan.get::<String, _>("type"), "const");
    }
}
