//! What must hold of the dedup row through every library. Each library compiles this file with its own types.
#![allow(
    clippy::needless_borrow,
    clippy::unnecessary_mut_passed,
    reason = "some libraries have references where others have transactions"
)]

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotence::sql::driver::{ColumnType, Driver as _, DriverErrorKind, Field, Value};
use idempotence::{Error, sql};
use idempotence_test_servers::PostgresServer;
use support::turns::Turns;
use support::wire::{Point, Wire};
use tokio::time::timeout;

use super::{LibraryError, ROUND_TRIPS, Session, Tx, commit, driver, pay, rollback, send, text};
use crate::setting::{Database, MAX_WAIT, Trouble, causes};

type Paid = Result<u32, Trouble<LibraryError>>;

/// Pays order 7 in its own transaction.
async fn pay_and_commit(database: &Database, receipt: u32) -> Paid {
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.map_err(Trouble::Library)?;
    let receipt = pay(&database.handle, &mut tx, 7, receipt).await?;
    commit(tx).await.map_err(Trouble::Library)?;
    Ok(receipt)
}

async fn set_isolation(tx: &mut Tx<'_>, level: &str) {
    let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
    send(tx, &set).await.unwrap();
}

#[tokio::test]
async fn a_duplicate_gets_the_result_and_a_rollback_frees_the_key() {
    let database = Database::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    assert_eq!(pay(&database.handle, &mut tx, 7, 1).await.unwrap(), 1);
    rollback(tx).await;
    assert_eq!(database.payments().await, 0);
    for receipt in 2..5 {
        assert_eq!(pay_and_commit(&database, receipt).await.unwrap(), 2);
    }
    assert_eq!(database.payments().await, 1);
}

#[tokio::test]
async fn a_duplicate_of_an_open_call_waits_for_its_end() {
    for (commits, receipt) in [(true, 1), (false, 2)] {
        let database = Database::new().await;
        let mut session = Session::connect(&database.url).await.unwrap();
        let mut first = session.begin().await.unwrap();
        pay(&database.handle, &mut first, 7, 1).await.unwrap();
        let end = async {
            database.blocked().await;
            if commits {
                commit(first).await.unwrap();
            } else {
                rollback(first).await;
            }
        };
        let (paid, ()) = tokio::join!(pay_and_commit(&database, 2), end);
        assert_eq!(paid.unwrap(), receipt);
        assert_eq!(database.payments().await, 1);
    }
}

#[tokio::test]
async fn at_every_isolation_a_duplicate_stops_waiting_in_time() {
    let database = Database::new().await;
    let wait = Duration::from_millis(300);
    for level in [
        "READ UNCOMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ] {
        let mut sessions = [
            Session::connect(&database.url).await.unwrap(),
            Session::connect(&database.url).await.unwrap(),
        ];
        let [one, other] = &mut sessions;
        let (mut first, mut second) = (one.begin().await.unwrap(), other.begin().await.unwrap());
        set_isolation(&mut first, level).await;
        set_isolation(&mut second, level).await;
        send(&mut second, "SET LOCAL lock_timeout = '77s'")
            .await
            .unwrap();
        pay(&database.handle, &mut first, 7, 1).await.unwrap();
        let began = Instant::now();
        let duplicate = database.paying(7).replay().wait(wait);
        let duplicate = duplicate.run_in(driver(&mut second), async |_| -> Paid {
            panic!("two equal calls run at the same time")
        });
        let refused = timeout(MAX_WAIT, duplicate).await.unwrap();
        let refused = refused.unwrap_err().refusal();
        assert!(
            matches!(refused, Error::InProgress(_)),
            "{level}: {}",
            causes(&refused)
        );
        assert!(began.elapsed() >= wait, "{level}");
        rollback(first).await;
        // The transaction is usable, and has its own settings.
        let paid = pay(&database.handle, &mut second, 7, 2).await;
        assert_eq!(paid.unwrap(), 2, "{level}");
        assert_eq!(text(&mut second, "SHOW lock_timeout").await, "77s");
        rollback(second).await;
    }
}

#[tokio::test]
async fn a_snapshot_older_than_the_row_is_retryable() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let database = Database::new().await;
        let mut session = Session::connect(&database.url).await.unwrap();
        let mut older = session.begin().await.unwrap();
        set_isolation(&mut older, level).await;
        send(&mut older, "SELECT * FROM payment").await.unwrap();
        assert_eq!(pay_and_commit(&database, 1).await.unwrap(), 1);
        let refused = pay(&database.handle, &mut older, 7, 2).await;
        let refused = refused.unwrap_err().refusal();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        assert!(sql::is_retryable(&refused), "{}", causes(&refused));
        rollback(older).await;

        let mut younger = session.begin().await.unwrap();
        set_isolation(&mut younger, level).await;
        let paid = pay(&database.handle, &mut younger, 7, 3).await;
        assert_eq!(paid.unwrap(), 1);
        rollback(younger).await;
    }
}

#[tokio::test]
async fn an_expired_row_is_taken_over() {
    let database = Database::new().await;
    assert_eq!(pay_and_commit(&database, 1).await.unwrap(), 1);
    let expire = "UPDATE idempotence SET expires_at = statement_timestamp() - interval '1 hour'";
    sqlx::query(expire).execute(&database.pool).await.unwrap();
    assert_eq!(pay_and_commit(&database, 2).await.unwrap(), 2);
    assert_eq!(pay_and_commit(&database, 3).await.unwrap(), 2);
    assert_eq!(database.payments().await, 2);
}

#[tokio::test]
async fn one_of_twenty_concurrent_calls_pays() {
    let database = Database::new().await;
    let calls = (0..20).map(|receipt| pay_and_commit(&database, receipt));
    let receipts: Vec<_> = join_all(calls).await;
    let receipts: Vec<_> = receipts.into_iter().map(Result::unwrap).collect();
    assert!(
        receipts.iter().all(|receipt| *receipt == receipts[0]),
        "{receipts:?}"
    );
    assert_eq!(database.payments().await, 1);
}

#[tokio::test]
async fn one_of_two_calls_in_a_deadlock_is_retryable() {
    let database = Database::new().await;
    let barrier = tokio::sync::Barrier::new(2);
    // The keys of the calls, or rows that their bodies change, are taken in opposite orders.
    for in_body in [false, true] {
        let both =
            async |mut orders: [u32; 2], reversed: bool| -> Result<(), Trouble<LibraryError>> {
                if reversed {
                    orders.reverse();
                }
                let mut session = Session::connect(&database.url).await.unwrap();
                let mut tx = session.begin().await.unwrap();
                for order in orders {
                    let done = if in_body {
                        let body = async |tx: &mut _| {
                            let update = format!("UPDATE account SET cents = 1 WHERE id = {order}");
                            super::send_in(tx, &update).await.map_err(Trouble::Library)
                        };
                        let key = 10 * order + u32::from(reversed);
                        database.paying(key).run_in(driver(&mut tx), body).await
                    } else {
                        let receipt = pay(&database.handle, &mut tx, order, 1).await;
                        receipt.map(drop)
                    };
                    if let Err(error) = done {
                        rollback(tx).await;
                        return Err(error);
                    }
                    if order == orders[0] {
                        barrier.wait().await;
                    }
                }
                commit(tx).await.unwrap();
                Ok(())
            };
        let (one, other) = tokio::join!(both([1, 2], false), both([1, 2], true));
        let refused = match (one, other) {
            (Err(refused), Ok(())) | (Ok(()), Err(refused)) => refused,
            outcomes => panic!("{outcomes:?}"),
        };
        assert!(sql::is_retryable(&refused), "{}", causes(&refused));
        assert_eq!(matches!(refused, Trouble::Library(_)), in_body);
    }
}

#[tokio::test]
async fn a_body_that_ignores_a_failed_statement_stores_nothing() {
    let database = Database::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let body = async |tx: &mut _| -> Paid {
        let _ = super::send_in(tx, "INSERT INTO account VALUES (1, 5)").await;
        Ok(1)
    };
    let paid = database.paying(7).replay().run_in(driver(&mut tx), body);
    let refused = paid.await.unwrap_err().refusal();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    rollback(tx).await;
    assert_eq!(pay_and_commit(&database, 2).await.unwrap(), 2);
}

#[tokio::test]
async fn a_missing_table_says_what_to_do() {
    let database = Database::new().await;
    let drop = "DROP TABLE idempotence";
    sqlx::query(drop).execute(&database.pool).await.unwrap();
    let refused = pay_and_commit(&database, 1).await.unwrap_err().refusal();
    assert!(matches!(refused, Error::Misconfigured(_)), "{refused}");
    let text = causes(&refused);
    assert!(text.contains("call `sql::migrate`"), "{text}");
}

#[tokio::test]
async fn a_connection_that_fails_at_any_message_loses_nothing_and_pays_once() {
    // The first message is the start of the session, so the second attempt is the first that pays.
    assert_eq!(pay_through(Point::Lost(0)).await, (2, 2));
    for point in Point::all().skip(1) {
        let (receipt, _) = pay_through(point).await;
        if receipt == 1 {
            // The connection has no message of this number.
            break;
        }
    }
    // The first attempt has paid, so the second gets its result.
    assert_eq!(pay_through(Point::CommitUnanswered).await, (2, 1));
}

/// Pays through a first connection that fails at the point, as often as the failure may be repeated. Returns the receipt of the last
/// attempt, and the receipt that it got.
async fn pay_through(point: Point) -> (u32, u32) {
    let mut database = Database::new().await;
    let direct = database.url.clone();
    let wire = Wire::cut(PostgresServer::shared().unwrap().port(), point);
    database.url = wire.url(&direct);
    let attempts = async {
        for receipt in 1.. {
            let Ok(mut session) = Session::connect(&database.url).await else {
                continue;
            };
            let attempt = async {
                let mut tx = session.begin().await.map_err(Trouble::Library)?;
                let paid = pay(&database.handle, &mut tx, 7, receipt).await?;
                commit(tx).await.map_err(Trouble::Library)?;
                Ok(paid)
            };
            match attempt.await {
                Ok(paid) => return (receipt, paid),
                Err::<_, Trouble<LibraryError>>(error) => {
                    let again = sql::is_retryable_with_row(&error);
                    assert!(again, "{point:?}: {} {error:?}", causes(&error));
                }
            }
        }
        unreachable!()
    };
    let receipts = timeout(MAX_WAIT, attempts).await.unwrap();
    assert_eq!(database.payments().await, 1, "{point:?}");
    receipts
}

#[tokio::test]
async fn a_call_takes_the_documented_round_trips() {
    let database = Database::new().await;
    let port = PostgresServer::shared().unwrap().port();
    let turns = Turns::before(port).await;
    let url = database
        .url
        .replace(&format!(":{port}/"), &format!(":{}/", turns.port()));
    let mut session = Session::connect(&url).await.unwrap();
    let mut counted = Vec::new();
    // The first execution of a statement may also prepare it, so it is not counted.
    for order in [0, 0, 1, 1] {
        let mut tx = session.begin().await.unwrap();
        let nothing = async |_: &mut _| -> Paid { Ok(1) };
        let before = turns.count();
        let call = database.paying(order).replay();
        call.run_in(driver(&mut tx), nothing).await.unwrap();
        counted.push(turns.count() - before);
        let before = turns.count();
        let call = database.paying(order + 7);
        let _ = call.run_in(driver(&mut tx), nothing).await;
        counted.push(turns.count() - before);
        commit(tx).await.unwrap();
    }
    // With replay, without replay, and duplicates of both.
    assert_eq!(counted[4..], ROUND_TRIPS);
}

#[tokio::test]
async fn a_driver_passes_on_each_type_and_names_each_error() {
    let database = Database::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let values = [
        Value::Text("a"),
        Value::Bytes(&[0, 255]),
        Value::Integer(i64::MIN),
        Value::Float(0.5),
    ];
    let columns = [
        ColumnType::Text,
        ColumnType::Bytes,
        ColumnType::Integer,
        ColumnType::Float,
        ColumnType::Integer,
    ];
    let select = "SELECT $1, $2, $3, $4, NULL::bigint FROM generate_series(1, 2)";
    let row = driver(&mut tx).first_row(select, &values, &columns).await;
    let expected = vec![
        Field::Text("a".into()),
        Field::Bytes(vec![0, 255]),
        Field::Integer(i64::MIN),
        Field::Float(0.5),
        Field::Null,
    ];
    assert_eq!(row.unwrap(), Some(expected));
    let none = driver(&mut tx).first_row("SELECT $1 WHERE false", &values[..1], &columns[..1]);
    assert_eq!(none.await.unwrap(), None);
    let update = "UPDATE account SET cents = 5";
    assert_eq!(driver(&mut tx).execute(update, &[]).await.unwrap(), 2);

    let violate = "SAVEPOINT one; INSERT INTO account VALUES (1, 5)";
    let violated = driver(&mut tx).execute_all(violate).await.unwrap_err();
    assert_eq!(violated.kind(), DriverErrorKind::UniqueViolation);
    assert_eq!(violated.constraint(), Some("account_pkey"));
    driver(&mut tx)
        .execute_all("ROLLBACK TO SAVEPOINT one")
        .await
        .unwrap();
    let end = "SELECT pg_terminate_backend(pg_backend_pid())";
    let lost = driver(&mut tx).execute_all(end).await.unwrap_err();
    assert_eq!(lost.kind(), DriverErrorKind::Lost, "{}", causes(&lost));
    assert!(sql::is_retryable_with_row(&lost));
}
