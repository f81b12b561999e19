//! Moving a row from one state to the next, once.

use std::sync::Arc;

use idempotent_sql::sql::{self, Transition};
use sqlx::{Error, Transaction};
use tokio::sync::Barrier;

use crate::layers::databases::Subject;
use crate::layers::status::Status;
use crate::layers::tables::{orders, pay, put, run, status};
use support::databases::Fresh;

on_every_database! {
    a_row_moves_once_and_is_already_there_afterwards
    a_transition_is_rolled_back_with_its_transaction
    a_row_in_another_state_is_reported_and_not_moved
    a_missing_row_is_not_found
    a_row_may_leave_several_states
    a_state_that_is_both_from_and_to_is_refused
    without_from_a_row_is_not_moved
    an_id_may_have_several_columns_and_a_state_any_type
    a_null_state_is_an_error
    an_id_of_several_rows_is_an_error
    an_invalid_transition_is_refused_before_anything_is_sent
    a_missing_column_is_an_error
    a_transition_runs_on_every_kind_of_connection
    one_of_many_concurrent_transitions_moves_the_row
    without_a_compared_state_all_concurrent_updates_move_the_row
    a_transition_waits_for_a_transaction_that_changed_the_row
    a_row_that_moved_to_a_later_state_is_not_reported_as_a_success
}

const RACERS: usize = 50;

async fn a_row_moves_once_and_is_already_there_afterwards<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying, Status::Paying]).await;
    let mut tx = fresh.pool.begin().await.unwrap();
    let first = pay().set("pay_time", "noon").run(&mut tx).await.unwrap();
    assert_eq!(first, Transition::Applied);
    let second = pay().set("pay_time", "late").run(&mut tx).await.unwrap();
    assert_eq!(second, Transition::AlreadyThere);
    tx.commit().await.unwrap();

    let rows: Vec<(i64, Status, Option<String>)> =
        sqlx::query_as("SELECT order_id, status, pay_time FROM orders ORDER BY order_id")
            .fetch_all(&fresh.pool)
            .await
            .unwrap();
    let paid = (1, Status::Paid, Some("noon".to_owned()));
    assert_eq!(rows, [paid, (2, Status::Paying, None)]);
}

async fn a_transition_is_rolled_back_with_its_transaction<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    for _ in 0..2 {
        let mut tx = fresh.pool.begin().await.unwrap();
        assert_eq!(pay().run(&mut tx).await.unwrap(), Transition::Applied);
        tx.rollback().await.unwrap();
    }
    assert_eq!(status(&fresh.pool).await, Status::Paying);
}

async fn a_row_in_another_state_is_reported_and_not_moved<DB: Subject>() {
    for actual in [Status::Created, Status::Refunded] {
        let fresh = orders::<DB>([actual]).await;
        let mut tx = fresh.pool.begin().await.unwrap();
        let transition = pay().run(&mut tx).await.unwrap();
        assert_eq!(transition, Transition::Illegal { actual });
        assert_eq!(status(&mut *tx).await, actual);
    }
}

async fn a_missing_row_is_not_found<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let missing = sql::transition("orders")
        .id("order_id", 2_i64)
        .from([Status::Paying])
        .to(Status::Paid);
    let transition = missing.run(&mut connection).await.unwrap();
    assert_eq!(transition, Transition::NotFound);
}

async fn a_row_may_leave_several_states<DB: Subject>() {
    let from = [Status::Created, Status::Paying];
    for state in from {
        let fresh = orders::<DB>([state]).await;
        let mut connection = fresh.pool.acquire().await.unwrap();
        let transition = pay().from(from).run(&mut connection).await.unwrap();
        assert_eq!(transition, Transition::Applied);
        assert_eq!(status(&fresh.pool).await, Status::Paid);
    }
}

/// All of several equal transitions would be applied.
async fn a_state_that_is_both_from_and_to_is_refused<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paid]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let again = pay().from([Status::Paying, Status::Paid]);
    let error = again.run(&mut connection).await.unwrap_err();
    assert!(matches!(error, sqlx::Error::InvalidArgument(_)), "{error}");
    assert_eq!(status(&fresh.pool).await, Status::Paid);
}

async fn without_from_a_row_is_not_moved<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying, Status::Paid]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let actual = Status::Paying;
    for (id, expected) in [
        (1_i64, Transition::Illegal { actual }),
        (2, Transition::AlreadyThere),
        (3, Transition::NotFound),
    ] {
        let nowhere = sql::transition("orders")
            .id("order_id", id)
            .from([])
            .to(Status::Paid);
        assert_eq!(nowhere.run(&mut connection).await.unwrap(), expected);
    }
    assert_eq!(status(&fresh.pool).await, Status::Paying);
}

async fn an_id_may_have_several_columns_and_a_state_any_type<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    run(
        &fresh.pool,
        "CREATE TABLE parcels (shop VARCHAR(20), number INT, state INT, note VARCHAR(20), \
         PRIMARY KEY (shop, number))",
    )
    .await;
    for insert in [
        "INSERT INTO parcels VALUES ('a', 1, 0, 'x')",
        "INSERT INTO parcels VALUES ('a', 2, 0, 'x')",
        "INSERT INTO parcels VALUES ('b', 1, 0, 'x')",
    ] {
        run(&fresh.pool, insert).await;
    }
    let mut connection = fresh.pool.acquire().await.unwrap();
    let numbers = sql::transition("parcels").id("shop", "a").id("number", 1);
    let numbers = numbers.column("state").from([0]).to(1);
    let transition = numbers.run(&mut connection).await.unwrap();
    assert_eq!(transition, Transition::Applied);
    let texts = sql::transition("parcels").id("shop", "a").id("number", 1);
    let texts = texts
        .column("note")
        .from(["y".to_owned()])
        .to("z".to_owned());
    let transition = texts.run(&mut connection).await.unwrap();
    let actual = "x".to_owned();
    assert_eq!(transition, Transition::Illegal { actual });

    let moved: i64 = sqlx::query_scalar("SELECT count(*) FROM parcels WHERE state = 1")
        .fetch_one(&fresh.pool)
        .await
        .unwrap();
    assert_eq!(moved, 1);
}

async fn a_null_state_is_an_error<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    run(&fresh.pool, "UPDATE orders SET status = NULL").await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let error = pay().run(&mut connection).await.unwrap_err();
    assert!(matches!(error, Error::ColumnDecode { .. }), "{error}");

    let paid = sql::transition("orders").id("order_id", 1_i64);
    let paid = paid.from([Some(Status::Paying)]).to(Some(Status::Paid));
    let transition = paid.run(&mut connection).await.unwrap();
    assert_eq!(transition, Transition::Illegal { actual: None });
}

async fn an_id_of_several_rows_is_an_error<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying, Status::Paying]).await;
    let mut tx = fresh.pool.begin().await.unwrap();
    let several = sql::transition("orders")
        .id("status", Status::Paying)
        .from([Status::Paying])
        .to(Status::Paid);
    let error = several.run(&mut tx).await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    tx.rollback().await.unwrap();
    assert_eq!(status(&fresh.pool).await, Status::Paying);
}

/// The database would use the last of two assignments, and the answer would name the wrong state.
async fn an_invalid_transition_is_refused_before_anything_is_sent<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let anywhere = || sql::transition("orders").from([Status::Paying]);
    for refused in [
        pay().set("Status", "REFUNDED"),
        pay().set("pay_time", "noon").set("pay_time", "late"),
        anywhere().to(Status::Paid),
        anywhere().id("order_id", 1_i64),
        pay().column(""),
        pay().column("sta\0tus"),
        sql::transition("").id("order_id", 1_i64).to(Status::Paid),
        sql::transition("orders.")
            .id("order_id", 1_i64)
            .to(Status::Paid),
    ] {
        let error = refused.run(&mut connection).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    assert_eq!(status(&fresh.pool).await, Status::Paying);
}

/// SQLite would read some quoted names as strings, and compare the strings.
async fn a_missing_column_is_an_error<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let misspelt = sql::transition("orders")
        .id("ordre_id", "ordre_id")
        .from([Status::Paying])
        .to(Status::Paid);
    let error = misspelt.run(&mut connection).await.unwrap_err();
    assert!(matches!(error, Error::Database(_)), "{error}");
    let misspelt = pay().column("PAYING").run(&mut connection).await;
    assert!(matches!(misspelt, Err(Error::Database(_))), "{misspelt:?}");
}

/// A transaction or a connection, owned or borrowed, also in a task.
async fn a_transition_runs_on_every_kind_of_connection<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    let expected = Transition::AlreadyThere;
    let mut pooled = fresh.pool.acquire().await.unwrap();
    let table = format!("{}.orders", DB::schema(&fresh).await);
    let qualified = sql::transition(&table)
        .id("order_id", 1_i64)
        .from([Status::Paying])
        .to(Status::Paid);
    let first = qualified.run(&mut pooled).await.unwrap();
    assert_eq!(first, Transition::Applied);
    assert_eq!(pay().run(&mut *pooled).await.unwrap(), expected);
    drop(pooled);

    let task = tokio::spawn(async move {
        let mut tx = fresh.pool.begin().await.unwrap();
        assert_eq!(pay().run(&mut tx).await.unwrap(), expected);
        assert_eq!(pay().run(&mut *tx).await.unwrap(), expected);
        borrowed(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
    });
    task.await.unwrap();
}

async fn borrowed<DB: Subject>(tx: &mut Transaction<'_, DB>) -> sqlx::Result<()> {
    let expected = Transition::AlreadyThere;
    assert_eq!(pay().run(tx).await?, expected);
    assert_eq!(pay().run(&mut *tx).await?, expected);
    assert_eq!(pay().run(&mut **tx).await?, expected);
    Ok(())
}

async fn one_of_many_concurrent_transitions_moves_the_row<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    let barrier = Arc::new(Barrier::new(RACERS));
    let race = (0..RACERS).map(|_| {
        let (pool, barrier) = (fresh.pool.clone(), barrier.clone());
        tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            barrier.wait().await;
            let transition = pay().run(&mut tx).await.unwrap();
            tx.commit().await.unwrap();
            transition
        })
    });
    let mut applied = 0;
    for racer in race.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Transition::Applied => applied += 1,
            other => assert_eq!(other, Transition::AlreadyThere),
        }
    }
    assert_eq!(applied, 1);
}

/// The negative control: without the state in its condition every update moves the row.
async fn without_a_compared_state_all_concurrent_updates_move_the_row<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    let barrier = Arc::new(Barrier::new(RACERS));
    let race = (0..RACERS).map(|_| {
        let (pool, barrier) = (fresh.pool.clone(), barrier.clone());
        tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            barrier.wait().await;
            let update = sqlx::query(DB::text("UPDATE orders SET status = ? WHERE order_id = 1"));
            let updated = update.bind(Status::Paid).execute(&mut *tx).await.unwrap();
            tx.commit().await.unwrap();
            DB::rows_affected(updated)
        })
    });
    let mut applied = 0;
    for racer in race.collect::<Vec<_>>() {
        applied += racer.await.unwrap();
    }
    assert_eq!(applied, RACERS as u64);
}

async fn a_transition_waits_for_a_transaction_that_changed_the_row<DB: Subject>() {
    for (commit, expected) in [
        (true, Transition::AlreadyThere),
        (false, Transition::Applied),
    ] {
        let fresh = orders::<DB>([Status::Paying]).await;
        let mut first = fresh.pool.begin().await.unwrap();
        assert_eq!(pay().run(&mut first).await.unwrap(), Transition::Applied);
        let pool = fresh.pool.clone();
        let second = tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            let transition = pay().run(&mut tx).await.unwrap();
            tx.commit().await.unwrap();
            transition
        });
        DB::blocked(&fresh.pool, 1).await;
        if commit {
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        assert_eq!(second.await.unwrap(), expected);
    }
}

/// Another transaction may write between the update and the read. The answer then comes from the read.
async fn a_row_that_moved_to_a_later_state_is_not_reported_as_a_success<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paid]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    assert_eq!(
        pay().run(&mut connection).await.unwrap(),
        Transition::AlreadyThere
    );
    put(&fresh.pool, Status::Refunded).await;
    let actual = Status::Refunded;
    let transition = pay().run(&mut connection).await.unwrap();
    assert_eq!(transition, Transition::Illegal { actual });
}
