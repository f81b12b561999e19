//! A unique index accepts a row once.

use std::sync::Arc;

use idempotent_sql::sql::{self, Insertion};
use sqlx::Error;
use tokio::sync::Barrier;

use crate::layers::databases::Subject;
use crate::layers::tables::{coupons, run, take, taken, taking};
use support::databases::Fresh;

on_every_database! {
    an_equal_row_is_a_duplicate_and_the_transaction_stays_usable
    an_insert_works_without_a_transaction
    a_rolled_back_row_can_be_inserted_again
    the_error_of_a_missing_table_names_who_makes_it
    a_row_that_is_sent_again_is_a_duplicate_whatever_index_is_checked_first
    a_violation_of_another_constraint_is_an_error
    a_primary_key_can_be_the_key
    the_generated_number_is_read_from_a_new_and_an_existing_row
    a_key_without_a_unique_index_is_refused_before_anything_is_inserted
    the_error_of_two_rows_in_one_insert_says_that_it_inserts_one
    an_invalid_insert_is_refused_before_anything_is_sent
    a_value_cannot_name_the_constraint
    one_of_many_concurrent_inserts_succeeds
    without_a_unique_index_all_concurrent_inserts_succeed
    an_insert_waits_for_a_transaction_with_the_same_row
}

const RACERS: i64 = 50;

async fn an_equal_row_is_a_duplicate_and_the_transaction_stays_usable<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    let mut tx = fresh.pool.begin().await.unwrap();
    assert!(take(&mut tx, 1, 1, "1").await.unwrap());
    assert!(!take(&mut tx, 2, 1, "2").await.unwrap());
    assert!(take(&mut tx, 3, 3, "3").await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(taken(&fresh.pool).await, 2);
}

async fn an_insert_works_without_a_transaction<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut *connection, 1, 1, "1").await.unwrap());
    assert!(!take(&mut *connection, 2, 1, "2").await.unwrap());
    assert!(take(&mut *connection, 3, 3, "3").await.unwrap());
    assert_eq!(taken(&fresh.pool).await, 2);
}

async fn a_rolled_back_row_can_be_inserted_again<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    for _ in 0..2 {
        let mut tx = fresh.pool.begin().await.unwrap();
        assert!(take(&mut tx, 1, 1, "1").await.unwrap());
        tx.rollback().await.unwrap();
    }
    assert_eq!(taken(&fresh.pool).await, 0);
}

async fn the_error_of_a_missing_table_names_who_makes_it<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    run(&fresh.pool, "DROP TABLE user_coupon").await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let error = take(&mut *connection, 1, 1, "1").await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with(
            "create it in your migrations, because `sql::migrate` makes only the tables of idempotence"
        ),
        "{text}"
    );
    assert!(text.contains("user_coupon"), "{text}");
}

/// The database names the first index that it checks. It may not be the index of the key.
async fn a_row_that_is_sent_again_is_a_duplicate_whatever_index_is_checked_first<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    let mut tx = fresh.pool.begin().await.unwrap();
    assert!(take(&mut tx, 1, 1, "1").await.unwrap());
    assert!(take(&mut tx, 2, 2, "2").await.unwrap());
    for (id, phone) in [(1, "1"), (3, "1"), (1, "3"), (2, "3"), (3, "2"), (2, "2")] {
        let again = taking(id, 1, phone).run(&mut tx).await.unwrap();
        assert_eq!(again, Insertion::AlreadyThere(()), "{id} {phone}");
    }
    assert!(take(&mut tx, 3, 3, "3").await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(taken(&fresh.pool).await, 3);
}

/// Another user has the telephone number or the number of the row: that must be an error.
async fn a_violation_of_another_constraint_is_an_error<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut connection, 1, 1, "1").await.unwrap());
    for (id, user, phone) in [(2, 2, "1"), (1, 2, "2"), (2, -1, "2")] {
        let error = take(&mut connection, id, user, phone).await.unwrap_err();
        assert!(matches!(error, Error::Database(_)), "{error}");
        assert!(!sql::duplicate_of(&error, DB::UNIQUE), "{error}");
        assert_eq!(sql::duplicate_of(&error, DB::PRIMARY), id == 1, "{error}");
    }
    assert_eq!(taken(&fresh.pool).await, 1);
}

async fn a_primary_key_can_be_the_key<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut connection, 1, 1, "1").await.unwrap());
    let again = sql::insert_once("user_coupon").key("id", 1_i64);
    let again = again.set("user_id", 2_i64).set("coupon_id", 2_i64);
    let again = again.run(&mut connection).await.unwrap();
    assert_eq!(again, Insertion::AlreadyThere(()));
}

async fn the_generated_number_is_read_from_a_new_and_an_existing_row<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    let table = format!(
        "CREATE TABLE bills ({}, order_no VARCHAR(20) UNIQUE, note TEXT)",
        DB::AUTO
    );
    run(&fresh.pool, &table).await;
    let bill = |order| sql::insert_once("bills").key("order_no", order);
    let mut connection = fresh.pool.acquire().await.unwrap();
    let first = bill("a").returning::<i64>("id", &mut connection).await;
    assert_eq!(first.unwrap(), Insertion::Inserted(1));

    let mut tx = fresh.pool.begin().await.unwrap();
    let second = bill("b").set("note", "x").returning::<i32>("id", &mut tx);
    assert_eq!(second.await.unwrap(), Insertion::Inserted(2));
    for (order, id, note) in [("a", 1, None), ("b", 2, Some("x".to_owned()))] {
        let again = bill(order).returning::<i64>("id", &mut tx).await.unwrap();
        assert_eq!(again, Insertion::AlreadyThere(id));
        assert!(!again.is_inserted());
        assert_eq!(again.into_value(), id);
        let again = bill(order)
            .set("note", "y")
            .returning("note", &mut tx)
            .await;
        assert_eq!(again.unwrap(), Insertion::AlreadyThere(note));
    }
    tx.commit().await.unwrap();
    let error = bill("a").returning::<String>("note", &mut connection).await;
    let message = error.unwrap_err().to_string();
    assert!(
        message.contains("\"note\" of \"bills\": unexpected null"),
        "{message}"
    );
}

async fn a_key_without_a_unique_index_is_refused_before_anything_is_inserted<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    let columns = "a BIGINT NOT NULL, b BIGINT NOT NULL, c BIGINT NOT NULL";
    for (table, index, is_refused) in [
        ("bare", "", true),
        ("plain", "CREATE INDEX i_plain ON plain (a, b)", true),
        (
            "wider",
            "CREATE UNIQUE INDEX i_wider ON wider (a, b, c)",
            true,
        ),
        ("other", "CREATE UNIQUE INDEX i_other ON other (c)", true),
        (
            "equals",
            "CREATE UNIQUE INDEX i_equal ON equals (b, a)",
            false,
        ),
        (
            "narrow",
            "CREATE UNIQUE INDEX i_narrow ON narrow (a)",
            false,
        ),
    ] {
        run(&fresh.pool, &format!("CREATE TABLE {table} ({columns})")).await;
        if !index.is_empty() {
            run(&fresh.pool, index).await;
        }
        let insert = sql::insert_once(table)
            .key("a", 1_i64)
            .key("b", 2_i64)
            .set("c", 3_i64);
        let mut connection = fresh.pool.acquire().await.unwrap();
        match insert.run(&mut connection).await {
            Ok(insertion) => assert!(!is_refused && insertion.is_inserted(), "{table}"),
            Err(error) => {
                assert!(is_refused, "{table}: {error}");
                assert!(
                    error
                        .to_string()
                        .contains("no unique index on the key (a, b)"),
                    "{error}"
                );
            }
        }
    }
    run(
        &fresh.pool,
        &format!("CREATE TABLE by_primary ({columns}, PRIMARY KEY (b, a))"),
    )
    .await;
    let insert = sql::insert_once("by_primary")
        .key("a", 1_i64)
        .key("b", 2_i64);
    let mut connection = fresh.pool.acquire().await.unwrap();
    let inserted = insert.set("c", 3_i64).run(&mut connection).await;
    assert!(inserted.unwrap().is_inserted());
}

async fn the_error_of_two_rows_in_one_insert_says_that_it_inserts_one<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let two = taking(1, 1, "1").key("user_id", 2_i64);
    let error = two.run(&mut connection).await.unwrap_err().to_string();
    assert!(error.contains("run one for each row"), "{error}");
}

async fn an_invalid_insert_is_refused_before_anything_is_sent<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    for refused in [
        sql::insert_once("user_coupon").set("id", 1_i64),
        taking(1, 1, "1").set("User_Id", 2_i64),
        taking(1, 1, "1").set("phone", "2"),
        taking(1, 1, "1").key("", 2_i64),
        sql::insert_once("").key("id", 1_i64),
    ] {
        let error = refused.run(&mut connection).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    assert_eq!(taken(&fresh.pool).await, 0);
}

/// On some databases the text of the error contains the value, and a user chooses the value.
async fn a_value_cannot_name_the_constraint<DB: Subject>() {
    let fresh = coupons::<DB>().await;
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
        assert!(!sql::duplicate_of(&error, DB::UNIQUE), "{error}");
        assert!(!sql::duplicate_of(&error, ""), "{error}");
        assert!(!sql::duplicate_of(&error, "phone"), "{error}");
    }
}

async fn one_of_many_concurrent_inserts_succeeds<DB: Subject>() {
    let fresh = coupons::<DB>().await;
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

/// The negative control: without the index all rows are inserted.
async fn without_a_unique_index_all_concurrent_inserts_succeed<DB: Subject>() {
    let fresh = coupons::<DB>().await;
    // The index is there when the process asks for it.
    let mut first = fresh.pool.acquire().await.unwrap();
    assert!(take(&mut first, 0, 1, "0").await.unwrap());
    run(&fresh.pool, DB::DROP_UNIQUE).await;
    for racer in 1..=RACERS {
        let mut connection = fresh.pool.acquire().await.unwrap();
        let phone = racer.to_string();
        assert!(take(&mut connection, racer, 1, &phone).await.unwrap());
    }
    assert_eq!(taken(&fresh.pool).await, 1 + RACERS);
}

async fn an_insert_waits_for_a_transaction_with_the_same_row<DB: Subject>() {
    for commit in [true, false] {
        let fresh = coupons::<DB>().await;
        let mut first = fresh.pool.begin().await.unwrap();
        assert!(take(&mut first, 1, 1, "1").await.unwrap());
        let pool = fresh.pool.clone();
        let second = tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            let inserted = take(&mut tx, 2, 1, "2").await.unwrap();
            tx.commit().await.unwrap();
            inserted
        });
        DB::blocked(&fresh.pool, 1).await;
        if commit {
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        assert_eq!(second.await.unwrap(), !commit);
        assert_eq!(taken(&fresh.pool).await, 1);
    }
}
