//! What only PostgreSQL does.

use idempotent_sql::sql::{self, Transition};
use sqlx::{AssertSqlSafe, Connection, Error, Postgres};

use crate::layers::derived::{Native, Varchar};
use crate::layers::states::every_answer;
use crate::layers::status::Status;
use crate::layers::tables::{coupons, orders, pay, put, run, status, take};
use support::blocked::Blocked as _;
use support::databases::Fresh;

fn code(error: &Error) -> String {
    error.as_database_error().unwrap().code().unwrap().into()
}

/// PostgreSQL ignores a violation only if every unique index of the table is checked at once.
#[tokio::test]
async fn a_table_with_a_deferrable_index_is_refused_before_anything_is_inserted() {
    let fresh = Fresh::<Postgres>::new().await;
    let table = "CREATE TABLE bills (order_no TEXT PRIMARY KEY, place INT UNIQUE DEFERRABLE)";
    run(&fresh.pool, table).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let insert = sql::insert_once("bills").key("order_no", "a");
    let error = insert.run(&mut connection).await.unwrap_err();
    assert_eq!(code(&error), "55000", "{error}");
    assert!(!sql::is_retryable(&error));
}

#[tokio::test]
async fn behind_a_savepoint_the_transaction_stays_usable_after_an_error() {
    let fresh = coupons::<Postgres>().await;
    let mut tx = fresh.pool.begin().await.unwrap();
    assert!(take(&mut tx, 1, 1, "1").await.unwrap());
    let mut part = tx.begin().await.unwrap();
    take(&mut part, 2, 2, "1").await.unwrap_err();
    part.rollback().await.unwrap();
    assert!(take(&mut tx, 3, 3, "3").await.unwrap());
    take(&mut tx, 4, 4, "3").await.unwrap_err();
    let ended = take(&mut tx, 5, 5, "5").await.unwrap_err();
    assert_eq!(code(&ended), "25P02", "{ended}");
}

/// Another transaction moved the row after the snapshot, so the transaction must be retried.
#[tokio::test]
async fn a_change_after_the_snapshot_is_a_retryable_error() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for (before, after) in [
            (Status::Paying, Status::Paid),
            (Status::Paid, Status::Refunded),
            (Status::Created, Status::Paying),
        ] {
            let fresh = orders::<Postgres>([before]).await;
            let mut connection = fresh.pool.acquire().await.unwrap();
            let begin = AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {level}"));
            let mut tx = connection.begin_with(begin).await.unwrap();
            assert_eq!(status(&mut *tx).await, before);
            put(&fresh.pool, after).await;

            let error = pay().run(&mut tx).await.unwrap_err();
            assert_eq!(code(&error), "40001", "{before:?} {after:?}");
            assert!(sql::is_retryable(&error));
            tx.rollback().await.unwrap();
        }
    }
}

/// PostgreSQL skips a row that does not match, even if an open transaction has changed the row so that it will match.
#[tokio::test]
async fn a_row_that_matches_again_between_update_and_read_is_moved() {
    let fresh = orders::<Postgres>([Status::Created]).await;
    let mut other = fresh.pool.begin().await.unwrap();
    put(&mut *other, Status::Paying).await;

    let pool = fresh.pool.clone();
    let late = tokio::spawn(async move {
        let mut tx = pool.begin().await.unwrap();
        let transition = pay().run(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        transition
    });
    Postgres::blocked(&fresh.pool, 1).await;
    other.commit().await.unwrap();
    assert_eq!(late.await.unwrap(), Transition::Applied);
    assert_eq!(status(&fresh.pool).await, Status::Paid);
}

/// A read of an order must not block inserts of its items.
#[tokio::test]
async fn rows_that_reference_the_row_can_still_be_inserted() {
    let fresh = orders::<Postgres>([Status::Refunded]).await;
    let lines = "CREATE TABLE lines (order_id BIGINT REFERENCES orders)";
    run(&fresh.pool, lines).await;
    let mut tx = fresh.pool.begin().await.unwrap();
    let actual = Status::Refunded;
    let transition = pay().run(&mut tx).await.unwrap();
    assert_eq!(transition, Transition::Illegal { actual });

    let mut other = fresh.pool.acquire().await.unwrap();
    run(&mut *other, "SET lock_timeout = '5s'").await;
    run(&mut *other, "INSERT INTO lines VALUES (1)").await;
}

/// No statement fails, so sqlx need not know about the transaction.
#[tokio::test]
async fn a_duplicate_leaves_a_hand_made_transaction_usable() {
    let fresh = coupons::<Postgres>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    run(&mut *connection, "BEGIN").await;
    assert!(take(&mut *connection, 1, 1, "1").await.unwrap());
    assert!(!take(&mut *connection, 1, 1, "1").await.unwrap());
    assert!(take(&mut *connection, 2, 2, "2").await.unwrap());
    run(&mut *connection, "COMMIT").await;
    assert!(!take(&mut *connection, 2, 2, "2").await.unwrap());
}

#[tokio::test]
async fn a_row_newer_than_the_snapshot_is_a_retryable_error() {
    let fresh = coupons::<Postgres>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    let mut tx = connection.begin_with(begin).await.unwrap();
    run(&mut *tx, "SELECT count(*) FROM user_coupon").await;
    let mut other = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut other, 1, 1, "1").await.unwrap());
    let error = take(&mut tx, 1, 1, "1").await.unwrap_err();
    assert_eq!(code(&error), "40001", "{error}");
    assert!(sql::is_retryable(&error));
}

#[tokio::test]
async fn a_partial_index_is_unique_among_its_rows() {
    let fresh = coupons::<Postgres>().await;
    run(&fresh.pool, "DROP INDEX uk_phone").await;
    let index = "CREATE UNIQUE INDEX uk_some ON user_coupon (phone) WHERE user_id < 5";
    run(&fresh.pool, index).await;
    let mut tx = fresh.pool.begin().await.unwrap();
    for (id, inserted) in [(1, true), (2, false), (6, true)] {
        let insert = sql::insert_once("user_coupon").key("phone", "a");
        let insert = insert.set("id", id).set("user_id", id).set("coupon_id", id);
        let insertion = insert.run(&mut tx).await.unwrap();
        assert_eq!(insertion.is_inserted(), inserted, "{id}");
    }
}

#[tokio::test]
async fn a_created_type_and_a_domain_can_hold_states() {
    let fresh = Fresh::<Postgres>::new().await;
    let create = "CREATE TYPE order_status AS ENUM ('paying', 'paid', 'refunded')";
    run(&fresh.pool, create).await;
    run(&fresh.pool, "CREATE DOMAIN word AS text").await;
    for null in ["NOT NULL", "NULL"] {
        let native = [Native::Paying, Native::Paid, Native::Refunded];
        let column = format!("order_status {null}");
        every_answer(&fresh, &column, native).await;
        every_answer(&fresh, &column, native.map(Some)).await;
        for column in ["text", "varchar", "word"] {
            let varchar = [Varchar::Paying, Varchar::Paid, Varchar::Refunded];
            every_answer(&fresh, &format!("{column} {null}"), varchar).await;
        }
    }
}
