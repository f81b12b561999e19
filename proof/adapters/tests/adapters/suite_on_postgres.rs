//! What also holds on PostgreSQL: isolation levels, and statements that end their transaction.
#![allow(
    clippy::needless_borrow,
    clippy::unnecessary_mut_passed,
    reason = "some libraries have references where others have transactions"
)]

use std::time::{Duration, Instant};

use idempotence::{Error, sql};
use support::wire::Point;
use tokio::time::timeout;

use self::servers::every::{Base, Paid, pay_and_commit};
use self::servers::pay_through;
use super::{DB, LibraryError, Session, Tx, commit, driver, pay, rollback, send_in, text};
use crate::setting::{MAX_WAIT, causes};

#[path = "suite_on_servers.rs"]
#[allow(clippy::duplicate_mod)]
mod servers;

async fn set_isolation(tx: &mut Tx<'_>, level: &str) {
    let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
    send_in(driver(tx), &set).await.unwrap();
}

#[tokio::test]
async fn at_every_isolation_a_duplicate_stops_waiting_in_time() {
    let database = Base::new().await;
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
        send_in(driver(&mut second), "SET LOCAL lock_timeout = '77s'")
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
        let database = Base::new().await;
        let mut session = Session::connect(&database.url).await.unwrap();
        let mut older = session.begin().await.unwrap();
        set_isolation(&mut older, level).await;
        send_in(driver(&mut older), "SELECT * FROM payment")
            .await
            .unwrap();
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
async fn a_body_that_ignores_a_failed_statement_stores_nothing() {
    let database = Base::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let body = async |tx: &mut _| -> Paid {
        let _ = send_in(tx, "INSERT INTO account VALUES (1, 5)").await;
        Ok(1)
    };
    let paid = database.paying(7).replay().run_in(driver(&mut tx), body);
    let refused = paid.await.unwrap_err().refusal();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    rollback(tx).await;
    assert_eq!(pay_and_commit(&database, 2).await.unwrap(), 2);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_done_once() {
    // The first attempt has paid, so the second gets its result.
    assert_eq!(pay_through(Point::CommitUnanswered).await, (2, 1));
}
