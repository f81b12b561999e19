//! What is refused.

use idempotent_runtime::Error;

use idempotent_sql::sql;
use sqlx::Executor as _;

use crate::tx::databases::{Subject, pay, pool, rows};
use crate::tx::{HOUR, Trouble, causes, handle, is_retryable, paying, take_outcomes};

on_every_database! {
    a_connection_in_no_transaction_is_refused
    settings_of_a_lease_are_refused
    a_result_whose_row_was_removed_is_an_error_that_is_not_retried
    without_its_table_a_call_is_refused_as_misconfigured
}

async fn a_connection_in_no_transaction_is_refused<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    let mut connection = pool.acquire().await.unwrap();
    let refused = paying(&handle, 7)
        .run_in(
            &mut connection,
            async |_: &mut DB::Connection| -> Result<(), Trouble> {
                panic!("the body must not run")
            },
        )
        .await
        .unwrap_err()
        .refusal();
    assert!(matches!(refused, Error::Misconfigured(_)), "{refused}");
    assert!(
        refused.to_string().contains("`tx` is not in a transaction"),
        "{refused}"
    );
    assert_eq!(rows(&pool).await, 0);
    assert_eq!(take_outcomes(&outcomes), "store_error");
}

async fn settings_of_a_lease_are_refused<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    let refused = paying(&handle, 7)
        .lease(HOUR)
        .run_in(
            &mut tx,
            async |_: &mut DB::Connection| -> Result<(), Trouble> {
                panic!("the body must not run")
            },
        )
        .await
        .unwrap_err()
        .refusal();
    assert!(matches!(refused, Error::InvalidPolicy(_)), "{refused}");
    assert_eq!(take_outcomes(&outcomes), "invalid");
}

async fn a_result_whose_row_was_removed_is_an_error_that_is_not_retried<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    let refused = paying(&handle, 7)
        .replay()
        .run_in(&mut tx, async |tx: &mut DB::Connection| {
            tx.execute("DELETE FROM idempotence").await?;
            Ok::<_, Trouble>(1)
        })
        .await
        .unwrap_err()
        .refusal();
    assert!(matches!(refused, Error::LeaseLost(_)), "{refused}");
    let text = causes(&refused);
    assert!(text.contains("not in the transaction any more"), "{text}");
    assert!(
        text.contains("the database ended the transaction"),
        "{text}"
    );
    assert!(!is_retryable(&refused), "{text}");
    assert!(!sql::is_retryable_with_row(&refused), "{text}");
    assert_eq!(take_outcomes(&outcomes), "lease_lost");
}

async fn without_its_table_a_call_is_refused_as_misconfigured<DB: Subject>() {
    let (pool, (handle, _)) = (pool::<DB>().await, handle());
    pool.execute("DROP TABLE idempotence").await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let refused = pay(&handle, &mut tx, 1).await.unwrap_err().refusal();
    assert!(
        matches!(refused, Error::Misconfigured(_)),
        "{}",
        causes(&refused)
    );
    let text = refused.to_string();
    assert!(text.contains("`idempotence`"), "{text}");
    assert!(text.contains("`sql::migrate`"), "{text}");
}
