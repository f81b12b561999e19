//! What only MariaDB does.

use idempotent_sql::sql::{self, Transition};
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Connection, MySql};

use crate::layers::databases::Subject as _;
use crate::layers::states::every_answer;
use crate::layers::status::Status;
use crate::layers::tables::{coupons, orders, pay, put, run, status, take, taken};
use support::blocked::Blocked as _;
use support::databases::Fresh;

fn number(error: &sqlx::Error) -> u16 {
    let error = error.as_database_error().unwrap();
    error.downcast_ref::<MySqlDatabaseError>().number()
}

/// `REPEATABLE READ` is the default. A plain read would return `PAYING` until the transaction ends.
#[tokio::test]
async fn the_winner_is_seen_with_an_older_snapshot() {
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
        let fresh = orders::<MySql>([before]).await;
        let mut tx = fresh.pool.begin().await.unwrap();
        assert_eq!(status(&mut *tx).await, before);
        put(&fresh.pool, after).await;
        assert_eq!(status(&mut *tx).await, before, "the snapshot");

        assert_eq!(pay().run(&mut tx).await.unwrap(), expected);
    }
}

/// MariaDB 11.6 and newer refuse the statement by default.
#[tokio::test]
async fn with_isolated_snapshots_a_newer_change_is_a_retryable_error() {
    let fresh = orders::<MySql>([Status::Paying]).await;
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

/// After the rollback of the first transaction the other transactions get a shared lock, and each of them wants an exclusive
/// lock.
#[tokio::test]
async fn when_the_first_of_three_rolls_back_a_deadlock_is_not_a_duplicate() {
    let fresh = coupons::<MySql>().await;
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
    MySql::blocked(&fresh.pool, 2).await;
    first.rollback().await.unwrap();

    let mut inserted = 0;
    let mut deadlocks = 0;
    for other in others {
        match other.await.unwrap() {
            Ok(true) => inserted += 1,
            Ok(false) => {
                panic!("a row that was rolled back or is uncommitted must have no duplicate")
            }
            Err(error) => {
                assert_eq!(number(&error), 1213, "{error}");
                assert!(sql::is_retryable(&error));
                assert!(!sql::duplicate_of(&error, MySql::UNIQUE));
                deadlocks += 1;
            }
        }
    }
    assert_eq!((inserted, deadlocks), (1, 1));
    // The transaction is retried, as the error asks.
    let mut tx = fresh.pool.begin().await.unwrap();
    assert!(!take(&mut tx, 4, 1, "4").await.unwrap());
    assert_eq!(taken(&fresh.pool).await, 1);
}

#[tokio::test]
async fn a_lock_timeout_is_not_a_duplicate() {
    let fresh = coupons::<MySql>().await;
    let mut first = fresh.pool.begin().await.unwrap();
    assert!(take(&mut first, 1, 1, "1").await.unwrap());
    let mut second = fresh.pool.begin().await.unwrap();
    run(&mut *second, "SET innodb_lock_wait_timeout = 1").await;
    let error = take(&mut second, 2, 1, "2").await.unwrap_err();
    assert_eq!(number(&error), 1205, "{error}");
    assert!(sql::is_retryable(&error));
}

/// The language of the messages is a setting of the server. The name of the key is at the end in every language.
#[tokio::test]
async fn a_duplicate_is_recognised_in_every_language() {
    let fresh = coupons::<MySql>().await;
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
        assert!(!sql::duplicate_of(&error, MySql::UNIQUE), "{error}");
        texts.insert(error.to_string());
    }
    assert!(texts.len() > 5, "the server has other languages: {texts:?}");
}

/// As a signed byte the state would be -56.
#[tokio::test]
async fn a_large_unsigned_state_is_read_correctly() {
    let fresh = Fresh::<MySql>::new().await;
    every_answer(&fresh, "TINYINT UNSIGNED NOT NULL", [1_i32, 2, 200]).await;
    every_answer(&fresh, "INT UNSIGNED NOT NULL", [1_i64, 2, 4_000_000_000]).await;
    every_answer(&fresh, "BIGINT UNSIGNED NOT NULL", [1, 2, u64::MAX]).await;
}

/// `REPEATABLE READ` is the default. A plain read would not see the row that violates the index.
#[tokio::test]
async fn a_duplicate_of_a_row_newer_than_the_snapshot_is_recognised() {
    let fresh = coupons::<MySql>().await;
    let mut tx = fresh.pool.begin().await.unwrap();
    assert_eq!(taken(&mut *tx).await, 0);
    let mut other = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut other, 1, 1, "1").await.unwrap());
    assert_eq!(taken(&mut *tx).await, 0, "the snapshot");
    assert!(!take(&mut tx, 1, 1, "1").await.unwrap());
}

/// If duplicates asked for an exclusive lock on the row, they would wait for each other.
#[tokio::test]
async fn many_duplicates_in_open_transactions_do_not_deadlock() {
    let fresh = coupons::<MySql>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut connection, 1, 1, "1").await.unwrap());
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut tx = fresh.pool.begin().await.unwrap();
        assert!(!take(&mut tx, 1, 1, "1").await.unwrap());
        open.push(tx);
    }
}
