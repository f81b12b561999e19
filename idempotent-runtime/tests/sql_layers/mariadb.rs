//! On MariaDB.

#[path = "inserts.rs"]
mod inserts;
#[path = "names.rs"]
mod names;
#[path = "states.rs"]
mod states;
#[path = "tables.rs"]
mod tables;
#[path = "transitions.rs"]
mod transitions;
#[path = "versions.rs"]
mod versions;

use std::time::Duration;

use idempotent_runtime::sql::{self, Transition};
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, Connection};
use tokio::sync::Mutex;

use self::tables::{coupons, orders, pay, put, run, status, take, taken};
use crate::status::Status;

type Db = sqlx::MySql;
type Fresh = crate::fresh::Fresh<Db>;

/// How the constraints of `user_coupon` are called.
const PRIMARY: &str = "PRIMARY";
const UNIQUE: &str = "uk_user_coupon";
const DROP_UNIQUE: &str = "DROP INDEX uk_user_coupon ON user_coupon";
/// A number that the database makes.
const AUTO: &str = "id BIGINT AUTO_INCREMENT PRIMARY KEY";
/// What columns that hold texts, and integers, may be declared as.
const TEXTS: &[&str] = &[
    "VARCHAR(20)",
    "CHAR(20)",
    "TEXT",
    "ENUM('PAYING', 'PAID', 'REFUNDED')",
    "VARCHAR(20) CHARACTER SET latin1",
    "VARCHAR(20) COLLATE utf8mb4_bin",
];
const INTEGERS: &[&str] = &[
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
/// What a test quotes names with.
const QUOTE: &str = "`";

/// Where tables are.
async fn schema(fresh: &Fresh) -> String {
    let schema = sqlx::query_scalar("SELECT database()");
    schema.fetch_one(&fresh.pool).await.unwrap()
}

/// A statement with `?`, as this database has it.
fn text(statement: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(statement.to_owned())
}

/// Waits until so many statements wait for a lock.
async fn waiting(fresh: &Fresh, statements: i64) {
    /// The server looks anew only if nobody asked for 100 ms.
    static TURN: Mutex<()> = Mutex::const_new(());

    let waiting = "SELECT count(*) FROM information_schema.innodb_trx t \
                   JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                   WHERE trx_state = 'LOCK WAIT' AND p.db = database()";
    crate::until("statements wait for a lock", async || {
        let _turn = TURN.lock().await;
        tokio::time::sleep(Duration::from_millis(120)).await;
        let count = sqlx::query_scalar::<_, i64>(waiting);
        count.fetch_one(&fresh.pool).await.unwrap() >= statements
    })
    .await;
}

fn number(error: &sqlx::Error) -> u16 {
    let error = error.as_database_error().unwrap();
    error.downcast_ref::<MySqlDatabaseError>().number()
}

/// `REPEATABLE READ` is the default. A plain read would say `PAYING` until the transaction ends.
#[tokio::test]
async fn the_winner_is_seen_behind_a_snapshot_of_before() {
    let actual = Status::Refunded;
    for (before, after, expected) in [
        (Status::Paying, Status::Paid, Transition::AlreadyThere),
        (
            Status::Paid,
            Status::Refunded,
            Transition::Illegal { actual },
        ),
        (Status::Created, Status::Paying, Transition::Applied),
    ] {
        let fresh = orders([before]).await;
        let mut tx = fresh.pool.begin().await.unwrap();
        assert_eq!(status(&mut *tx).await, before);
        put(&fresh.pool, after).await;
        assert_eq!(status(&mut *tx).await, before, "the snapshot");

        assert_eq!(pay().run(&mut tx).await.unwrap(), expected);
    }
}

/// From 11.6 on it is the default of MariaDB to refuse instead.
#[tokio::test]
async fn where_snapshots_are_isolated_what_they_hide_is_an_error_that_says_try_again() {
    let fresh = orders([Status::Paying]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let known = sqlx::query("SET innodb_snapshot_isolation = ON");
    known.execute(&mut *connection).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(status(&mut *tx).await, Status::Paying);
    put(&fresh.pool, Status::Paid).await;
    let error = pay().run(&mut tx).await.unwrap_err();
    assert_eq!(number(&error), 1020, "{error}");
    assert!(sql::is_retryable(&error));
}

/// All who wait for the first to decide get a shared lock when it rolls back, and want it alone.
#[tokio::test]
async fn when_the_first_of_three_rolls_back_a_deadlock_is_no_duplicate() {
    let fresh = coupons().await;
    let mut first = fresh.pool.begin().await.unwrap();
    assert!(take(&mut first, 1, 1, "1").await.unwrap());
    let others = [(2, "2"), (3, "3")].map(|(id, phone)| {
        let pool = fresh.pool.clone();
        tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            let inserted = take(&mut tx, id, 1, phone).await?;
            tx.commit().await.unwrap();
            Ok(inserted)
        })
    });
    waiting(&fresh, 2).await;
    first.rollback().await.unwrap();

    let mut inserted = 0;
    let mut deadlocks = 0;
    for other in others {
        match other.await.unwrap() {
            Ok(true) => inserted += 1,
            Ok(false) => panic!("a duplicate of a row that was rolled back, or not decided yet"),
            Err(error) => {
                assert_eq!(number(&error), 1213, "{error}");
                assert!(sql::is_retryable(&error));
                assert!(!sql::duplicate_of(&error, UNIQUE));
                deadlocks += 1;
            }
        }
    }
    assert_eq!((inserted, deadlocks), (1, 1));
    // Run again, as the error says.
    let mut tx = fresh.pool.begin().await.unwrap();
    assert!(!take(&mut tx, 4, 1, "4").await.unwrap());
    assert_eq!(taken(&fresh.pool).await, 1);
}

#[tokio::test]
async fn a_lock_timeout_is_no_duplicate() {
    let fresh = coupons().await;
    let mut first = fresh.pool.begin().await.unwrap();
    assert!(take(&mut first, 1, 1, "1").await.unwrap());
    let mut second = fresh.pool.begin().await.unwrap();
    run(&mut *second, "SET innodb_lock_wait_timeout = 1").await;
    let error = take(&mut second, 2, 1, "2").await.unwrap_err();
    assert_eq!(number(&error), 1205, "{error}");
    assert!(sql::is_retryable(&error));
}

/// Servers speak the language of their owner; the name of the key stays at the end.
#[tokio::test]
async fn a_duplicate_is_a_duplicate_in_every_language() {
    let fresh = coupons().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(
        take(&mut connection, 1, 1, "1' for key 'uk_user_coupon")
            .await
            .unwrap()
    );
    let mut texts = std::collections::HashSet::new();
    for language in [
        "bg_BG", "cs_CZ", "da_DK", "nl_NL", "en_US", "et_EE", "fr_FR", "ka_GE", "de_DE", "el_GR",
        "hi_IN", "hu_HU", "it_IT", "ja_JP", "ko_KR", "no_NO", "pl_PL", "pt_PT", "ro_RO", "ru_RU",
        "sr_RS", "sk_SK", "es_ES", "sv_SE", "uk_UA", "zh_CN",
    ] {
        let set = sqlx::query("SET lc_messages = ?").bind(language);
        set.execute(&mut *connection).await.unwrap();
        assert!(
            !take(&mut connection, 2, 1, "2").await.unwrap(),
            "{language}"
        );
        let phone = take(&mut connection, 2, 2, "1' for key 'uk_user_coupon");
        let error = phone.await.unwrap_err();
        assert!(sql::duplicate_of(&error, "uk_phone"), "{error}");
        assert!(!sql::duplicate_of(&error, UNIQUE), "{error}");
        texts.insert(error.to_string());
    }
    assert!(texts.len() > 5, "the server has other languages: {texts:?}");
}

/// Its bytes, read as signed ones, would be -56.
#[tokio::test]
async fn a_large_unsigned_state_is_told_as_it_is() {
    let fresh = Fresh::new().await;
    states::every_answer(&fresh, "TINYINT UNSIGNED NOT NULL", [1_i32, 2, 200]).await;
    states::every_answer(&fresh, "INT UNSIGNED NOT NULL", [1_i64, 2, 4_000_000_000]).await;
    states::every_answer(&fresh, "BIGINT UNSIGNED NOT NULL", [1, 2, u64::MAX]).await;
}

/// `REPEATABLE READ` is the default. A plain read would not see the row that the database refuses another one for.
#[tokio::test]
async fn a_duplicate_of_a_row_that_a_snapshot_hides_is_a_duplicate() {
    let fresh = coupons().await;
    let mut tx = fresh.pool.begin().await.unwrap();
    assert_eq!(taken(&mut *tx).await, 0);
    let mut other = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut other, 1, 1, "1").await.unwrap());
    assert_eq!(taken(&mut *tx).await, 0, "the snapshot");
    assert!(!take(&mut tx, 1, 1, "1").await.unwrap());
}

/// Two duplicates that wanted the row for themselves would wait for each other.
#[tokio::test]
async fn many_duplicates_in_open_transactions_are_no_deadlock() {
    let fresh = coupons().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut connection, 1, 1, "1").await.unwrap());
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut tx = fresh.pool.begin().await.unwrap();
        assert!(!take(&mut tx, 1, 1, "1").await.unwrap());
        open.push(tx);
    }
}
