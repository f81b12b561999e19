//! What differs between the databases.

use std::fmt::Debug;

use sqlx::{AssertSqlSafe, MySql, Postgres, Sqlite};

use crate::layers::derived::{Number, Word};
use crate::layers::status::Status;
use support::blocked::Blocked;
use support::databases::{Fresh, Value};
use support::implies::Implies;

pub(crate) trait Subject: Blocked
where
    Self: Implies<i16, Is: State<Self>>
        + Implies<i32, Is: State<Self>>
        + Implies<Option<i32>, Is: State<Self>>
        + Implies<i64, Is: State<Self>>
        + Implies<Option<i64>, Is: State<Self>>
        + Implies<String, Is: State<Self>>
        + Implies<Option<String>, Is: State<Self>>
        + Implies<Status, Is: State<Self>>
        + Implies<Option<Status>, Is: State<Self>>
        + Implies<Word, Is: State<Self>>
        + Implies<Option<Word>, Is: State<Self>>
        + Implies<Number, Is: State<Self>>
        + Implies<Option<Number>, Is: State<Self>>,
{
    /// The names of the constraints of `user_coupon`.
    const PRIMARY: &'static str;
    const UNIQUE: &'static str;
    const DROP_UNIQUE: &'static str;
    /// The type of a column with generated numbers.
    const AUTO: &'static str;
    /// The types of columns for texts and for integers.
    const TEXTS: &'static [&'static str];
    const INTEGERS: &'static [&'static str];
    /// The character that quotes names in the tests.
    const QUOTED_BY: &'static str;

    /// The schema of the tables.
    fn schema(fresh: &Fresh<Self>) -> impl Future<Output = String> + Send;

    /// Converts a statement with `?` to the placeholders of this database.
    fn text(statement: &str) -> AssertSqlSafe<String>;

    fn rows_affected(done: Self::QueryResult) -> u64;
}

/// A type of states.
pub(crate) trait State<DB: sqlx::Database>:
    Value<DB> + PartialEq + Debug + Clone + Send + Sync + 'static
{
}

impl<DB, S> State<DB> for S
where
    DB: sqlx::Database,
    S: Value<DB> + PartialEq + Debug + Clone + Send + Sync + 'static,
{
}

impl Subject for Postgres {
    const PRIMARY: &'static str = "user_coupon_pkey";
    const UNIQUE: &'static str = "uk_user_coupon";
    const DROP_UNIQUE: &'static str = "DROP INDEX uk_user_coupon";
    const AUTO: &'static str = "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    const TEXTS: &'static [&'static str] = &["TEXT", "VARCHAR(20)"];
    const INTEGERS: &'static [&'static str] = &["SMALLINT", "INT", "BIGINT"];
    const QUOTED_BY: &'static str = "\"";

    async fn schema(_: &Fresh<Self>) -> String {
        "public".to_owned()
    }

    fn text(statement: &str) -> AssertSqlSafe<String> {
        let mut text = statement.to_owned();
        for number in 1.. {
            let Some(place) = text.find('?') else { break };
            text.replace_range(place..=place, &format!("${number}"));
        }
        AssertSqlSafe(text)
    }

    fn rows_affected(done: Self::QueryResult) -> u64 {
        done.rows_affected()
    }
}

impl Subject for MySql {
    const PRIMARY: &'static str = "PRIMARY";
    const UNIQUE: &'static str = "uk_user_coupon";
    const DROP_UNIQUE: &'static str = "DROP INDEX uk_user_coupon ON user_coupon";
    const AUTO: &'static str = "id BIGINT AUTO_INCREMENT PRIMARY KEY";
    const TEXTS: &'static [&'static str] = &[
        "VARCHAR(20)",
        "CHAR(20)",
        "TEXT",
        "ENUM('PAYING', 'PAID', 'REFUNDED')",
        "VARCHAR(20) CHARACTER SET latin1",
        "VARCHAR(20) COLLATE utf8mb4_bin",
    ];
    const INTEGERS: &'static [&'static str] = &[
        "TINYINT",
        "TINYINT UNSIGNED",
        "SMALLINT",
        "SMALLINT UNSIGNED",
        "MEDIUMINT",
        "INT",
        "INT UNSIGNED",
        "BIGINT",
        "BIGINT UNSIGNED",
    ];
    const QUOTED_BY: &'static str = "`";

    async fn schema(fresh: &Fresh<Self>) -> String {
        let schema = sqlx::query_scalar("SELECT database()");
        schema.fetch_one(&fresh.pool).await.unwrap()
    }

    fn text(statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.to_owned())
    }

    fn rows_affected(done: Self::QueryResult) -> u64 {
        done.rows_affected()
    }
}

impl Subject for Sqlite {
    const PRIMARY: &'static str = "user_coupon.id";
    const UNIQUE: &'static str = "user_coupon.user_id, user_coupon.coupon_id";
    const DROP_UNIQUE: &'static str = "DROP INDEX uk_user_coupon";
    const AUTO: &'static str = "id INTEGER PRIMARY KEY";
    const TEXTS: &'static [&'static str] = &["TEXT", "VARCHAR(20)", "\"order status\""];
    const INTEGERS: &'static [&'static str] = &["INTEGER", "INT", "BIGINT", "SMALLINT"];
    const QUOTED_BY: &'static str = "\"";

    async fn schema(_: &Fresh<Self>) -> String {
        "main".to_owned()
    }

    fn text(statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.to_owned())
    }

    fn rows_affected(done: Self::QueryResult) -> u64 {
        done.rows_affected()
    }
}
