//! What also holds on a server: duplicates wait for locks, and connections are lost.
#![allow(
    clippy::needless_borrow,
    clippy::unnecessary_mut_passed,
    reason = "some libraries have references where others have transactions"
)]

use std::time::Duration;

use idempotence::sql::driver::{Driver as _, DriverErrorKind};
use idempotence::{Error, sql};
use support::blocked::Blocked as _;
use support::turns::Turns;
use support::wire::{Point, Wire};
use tokio::time::timeout;

use self::every::{Base, Paid, pay_and_commit};
use super::{DB, LibraryError, Session, commit, driver, pay, rollback, send_in};
use crate::setting::{MAX_WAIT, Subject as _, Trouble, causes};

#[path = "suite.rs"]
#[allow(clippy::duplicate_mod)]
pub(super) mod every;

#[tokio::test]
async fn a_duplicate_of_an_open_call_waits_for_its_end() {
    for (commits, receipt) in [(true, 1), (false, 2)] {
        let database = Base::new().await;
        let mut session = Session::connect(&database.url).await.unwrap();
        let mut first = session.begin().await.unwrap();
        pay(&database.handle, &mut first, 7, 1).await.unwrap();
        let end = async {
            DB::blocked(&database.pool, 1).await;
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
async fn a_duplicate_that_stops_waiting_leaves_its_transaction_usable() {
    let database = Base::new().await;
    let mut sessions = [
        Session::connect(&database.url).await.unwrap(),
        Session::connect(&database.url).await.unwrap(),
    ];
    let [one, other] = &mut sessions;
    let (mut first, mut second) = (one.begin().await.unwrap(), other.begin().await.unwrap());
    pay(&database.handle, &mut first, 7, 1).await.unwrap();
    let duplicate = database.paying(7).replay().wait(Duration::from_secs(1));
    let duplicate = duplicate.run_in(driver(&mut second), async |_| -> Paid {
        panic!("two equal calls run at the same time")
    });
    let refused = duplicate.await.unwrap_err().refusal();
    let is_refused = matches!(refused, Error::InProgress(_));
    assert!(is_refused, "{}", causes(&refused));
    rollback(first).await;
    assert_eq!(pay(&database.handle, &mut second, 7, 2).await.unwrap(), 2);
    rollback(second).await;
}

#[tokio::test]
async fn one_of_two_calls_in_a_deadlock_is_retryable() {
    let database = Base::new().await;
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
                            send_in(tx, &update).await.map_err(Trouble::Library)
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
}

/// Pays through a first connection that fails at the point, as often as the failure may be repeated. Returns the receipt of the last
/// attempt, and the receipt that it got.
pub(crate) async fn pay_through(point: Point) -> (u32, u32) {
    let mut database = Base::new().await;
    let direct = database.url.clone();
    let wire = Wire::cut(database.port(), point);
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
    let database = Base::new().await;
    let port = database.port();
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
    // With replay, without replay, and duplicates of both: through each library as through sqlx 0.9, which this file is compiled with, too.
    assert_eq!(counted[4..], [2, 1, 2, 2]);
}

#[tokio::test]
async fn a_session_that_the_server_ends_is_lost() {
    let database = Base::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let lost = driver(&mut tx).execute_all(DB::KILL).await.unwrap_err();
    assert_eq!(lost.kind(), DriverErrorKind::Lost, "{}", causes(&lost));
    assert!(sql::is_retryable_with_row(&lost));
}
