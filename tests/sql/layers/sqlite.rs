//! What only SQLite does.

use idempotent_sql::sql::{self, Transition};
use sqlx::Sqlite;

use crate::layers::databases::Subject as _;
use crate::layers::status::Status;
use crate::layers::tables::{coupons, orders, pay, put, run, status, take};

/// A transaction that read before another connection wrote cannot write: it must begin again.
#[tokio::test]
async fn a_change_after_the_snapshot_is_a_retryable_error() {
    let actual = Status::Refunded;
    for (before, after, expected) in [
        (Status::Paying, Status::Paid, Transition::AlreadyThere),
        (
            Status::Paid,
            Status::Refunded,
            Transition::Illegal { actual },
        ),
    ] {
        let fresh = orders::<Sqlite>([before]).await;
        let mut tx = fresh.pool.begin().await.unwrap();
        assert_eq!(status(&mut *tx).await, before);
        put(&fresh.pool, after).await;
        let error = pay().run(&mut tx).await.unwrap_err();
        assert!(sql::is_retryable(&error), "{error}");
        tx.rollback().await.unwrap();
        let transition = pay().run(&mut fresh.pool.begin().await.unwrap()).await;
        assert_eq!(transition.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_constraint_is_named_by_its_columns_or_its_index_of_expressions() {
    let fresh = coupons::<Sqlite>().await;
    run(
        &fresh.pool,
        "CREATE UNIQUE INDEX uk_lower ON user_coupon (coupon_id, lower(phone))",
    )
    .await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut connection, 1, 1, "a").await.unwrap());
    for (constraint, user, phone, duplicate) in [
        (Sqlite::UNIQUE, 1_i64, "b", true),
        ("user_coupon.phone", 1, "b", false),
        ("uk_lower", 2, "A", true),
        ("uk_other", 2, "A", false),
        ("uk_lower", 1, "b", false),
        ("no such index", 1, "b", false),
    ] {
        let insert = sqlx::query("INSERT INTO user_coupon VALUES (?, ?, ?, ?)");
        let insert = insert.bind(2_i64).bind(user).bind(7_i64);
        let refused = insert.bind(phone).execute(&mut *connection).await;
        let error = refused.unwrap_err();
        assert_eq!(sql::duplicate_of(&error, constraint), duplicate, "{error}");
    }
}

#[tokio::test]
async fn an_insert_that_a_trigger_ignores_is_an_error() {
    let fresh = coupons::<Sqlite>().await;
    let ignore =
        "CREATE TRIGGER ignore BEFORE INSERT ON user_coupon BEGIN SELECT RAISE(IGNORE); END";
    run(&fresh.pool, ignore).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let error = take(&mut connection, 1, 1, "1").await.unwrap_err();
    assert!(matches!(error, sqlx::Error::InvalidArgument(_)), "{error}");
}
