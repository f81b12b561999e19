//! A unique index lets a row in once.

use std::sync::Arc;

use idempotent_runtime::sql::{self, Insertion};
use sqlx::Error;
use tokio::sync::Barrier;

use super::tables::{TAKE, coupons, run, take, taken};
use super::{PRIMARY, UNIQUE, text};

const RACERS: i64 = 50;

#[tokio::test]
async fn an_equal_row_is_a_duplicate_and_the_transaction_goes_on() {
    let fresh = coupons().await;
    let mut tx = fresh.pool.begin().await.unwrap();
    assert!(take(&mut tx, 1, 1, "1").await.unwrap());
    assert!(!take(&mut tx, 2, 1, "2").await.unwrap());
    assert!(take(&mut tx, 3, 3, "3").await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(taken(&fresh.pool).await, 2);
}

#[tokio::test]
async fn without_a_transaction_it_is_the_same() {
    let fresh = coupons().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut *connection, 1, 1, "1").await.unwrap());
    assert!(!take(&mut *connection, 2, 1, "2").await.unwrap());
    assert!(take(&mut *connection, 3, 3, "3").await.unwrap());
    assert_eq!(taken(&fresh.pool).await, 2);
}

#[tokio::test]
async fn a_row_is_gone_with_its_transaction_and_then_may_come_again() {
    let fresh = coupons().await;
    for _ in 0..2 {
        let mut tx = fresh.pool.begin().await.unwrap();
        assert!(take(&mut tx, 1, 1, "1").await.unwrap());
        tx.rollback().await.unwrap();
    }
    assert_eq!(taken(&fresh.pool).await, 0);
}

/// Somebody else has the telephone number, or the number of the row: that is no success.
#[tokio::test]
async fn a_violation_of_another_constraint_stays_itself_and_the_transaction_goes_on() {
    let fresh = coupons().await;
    let mut tx = fresh.pool.begin().await.unwrap();
    assert!(take(&mut tx, 1, 1, "1").await.unwrap());
    for (id, user, phone) in [(2, 2, "1"), (1, 2, "2"), (2, -1, "2")] {
        let error = take(&mut tx, id, user, phone).await.unwrap_err();
        assert!(matches!(error, Error::Database(_)), "{error}");
        assert!(!sql::duplicate_of(&error, UNIQUE), "{error}");
    }
    tx.commit().await.unwrap();
    assert_eq!(taken(&fresh.pool).await, 1);
}

#[tokio::test]
async fn a_primary_key_is_a_constraint_too() {
    let fresh = coupons().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut connection, 1, 1, "1").await.unwrap());
    let insert = sqlx::query(text(TAKE)).bind(1_i64).bind(2_i64).bind(2_i64);
    let insert = insert.bind("2");
    let again = sql::insert_once(&mut connection, PRIMARY, insert).await;
    assert!(matches!(again, Ok(Insertion::AlreadyThere)), "{again:?}");
    let error = take(&mut connection, 1, 2, "2").await.unwrap_err();
    assert!(sql::duplicate_of(&error, PRIMARY), "{error}");
    assert!(!sql::duplicate_of(&error, "uk_phone"), "{error}");
}

/// The text of an error holds the value on some databases, and the value is the user's.
#[tokio::test]
async fn a_value_cannot_name_the_constraint() {
    let fresh = coupons().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    for (id, phone) in (1..).zip([
        "1' for key 'uk_user_coupon'",
        "' for key 'uk_user_coupon",
        "UNIQUE constraint failed: user_coupon.user_id, user_coupon.coupon_id",
        "uk_user_coupon",
        "'uk_user_coupon'",
        "\\' for key \\'uk_user_coupon",
    ]) {
        assert!(take(&mut connection, id, id, phone).await.unwrap());
        let id = id + 100;
        let error = take(&mut connection, id, id, phone).await.unwrap_err();
        assert!(!sql::duplicate_of(&error, UNIQUE), "{error}");
        assert!(!sql::duplicate_of(&error, ""), "{error}");
        assert!(!sql::duplicate_of(&error, "phone"), "{error}");
    }
}

#[tokio::test]
async fn an_insert_that_hides_its_violations_is_no_success() {
    let fresh = coupons().await;
    run(
        &fresh.pool,
        "INSERT INTO user_coupon (id, user_id, coupon_id) VALUES (1, 1, 7)",
    )
    .await;
    let mut tx = fresh.pool.begin().await.unwrap();
    let nothing = "INSERT INTO user_coupon (id, user_id, coupon_id) \
                   SELECT 2, 2, 7 FROM user_coupon WHERE id = 3";
    let inserted = sql::insert_once(&mut tx, UNIQUE, sqlx::query(nothing)).await;
    let error = inserted.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    assert_eq!(taken(&mut *tx).await, 1);
}

#[tokio::test]
async fn of_many_at_once_one_is_inserted() {
    let fresh = coupons().await;
    let barrier = Arc::new(Barrier::new(usize::try_from(RACERS).unwrap()));
    let race = (1..=RACERS).map(|racer| {
        let (pool, barrier) = (fresh.pool.clone(), barrier.clone());
        tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            barrier.wait().await;
            let inserted = take(&mut tx, racer, 1, &racer.to_string()).await.unwrap();
            tx.commit().await.unwrap();
            inserted
        })
    });
    let mut inserted = 0;
    for racer in race.collect::<Vec<_>>() {
        inserted += i32::from(racer.await.unwrap());
    }
    assert_eq!(inserted, 1);
    assert_eq!(taken(&fresh.pool).await, 1);
}

/// The control: without the index, all are.
#[tokio::test]
async fn of_many_at_once_all_are_inserted_where_nothing_is_unique() {
    let fresh = coupons().await;
    run(&fresh.pool, super::DROP_UNIQUE).await;
    for racer in 1..=RACERS {
        let mut connection = fresh.pool.acquire().await.unwrap();
        let phone = racer.to_string();
        assert!(take(&mut connection, racer, 1, &phone).await.unwrap());
    }
    assert_eq!(taken(&fresh.pool).await, RACERS);
}

#[tokio::test]
async fn it_waits_for_a_transaction_that_inserted_the_same() {
    for commit in [true, false] {
        let fresh = coupons().await;
        let mut first = fresh.pool.begin().await.unwrap();
        assert!(take(&mut first, 1, 1, "1").await.unwrap());
        let pool = fresh.pool.clone();
        let second = tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            let inserted = take(&mut tx, 2, 1, "2").await.unwrap();
            tx.commit().await.unwrap();
            inserted
        });
        super::waiting(&fresh, 1).await;
        if commit {
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        assert_eq!(second.await.unwrap(), !commit);
        assert_eq!(taken(&fresh.pool).await, 1);
    }
}
