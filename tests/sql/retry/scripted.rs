//! Calls whose guard begins the transaction, on a pool whose database answers as a test says. The time of these tests is paused.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotent_runtime::{Error, GuardedCall, Idempotency, MemoryStore};
use idempotent_sql::sql::Retry;
use idempotent_sql::sql::driver::{
    ColumnType, Dialect, Driver, DriverError, Field, TransactionPool, Value,
};
use tokio::time::{Instant, sleep};

use crate::retry::{HOUR, Runs};

/// The deadline of the handle.
const DEADLINE: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Guard(#[from] Error),
    #[error("lost")]
    Lost(#[from] io::Error),
}

/// What a database answers.
#[derive(Clone, Copy, Default)]
enum Answer {
    #[default]
    Done,
    Lost,
    Late(Duration),
    Never,
}

impl Answer {
    async fn get(self) -> io::Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::Lost => Err(reset()),
            Self::Late(time) => {
                sleep(time).await;
                Ok(())
            }
            Self::Never => pending().await,
        }
    }
}

/// The answers of a database. Each gets the number of such messages before it.
struct Script {
    begin: fn(u32) -> Answer,
    statement: fn(u32) -> Answer,
    commit: fn(u32) -> Answer,
    roll_back: fn(u32) -> Answer,
    sent: [AtomicU32; 4],
}

impl Default for Script {
    fn default() -> Self {
        let done = |_| Answer::Done;
        Self {
            begin: done,
            statement: done,
            commit: done,
            roll_back: done,
            sent: Default::default(),
        }
    }
}

impl Script {
    async fn answer(&self, kind: usize, answer: fn(u32) -> Answer) -> io::Result<()> {
        let before = self.sent[kind].fetch_add(1, Ordering::SeqCst);
        answer(before).get().await
    }
}

#[derive(Clone)]
struct Scripted(Arc<Script>);

impl Scripted {
    fn new(script: Script) -> Self {
        Self(Arc::new(script))
    }
}

impl TransactionPool for Scripted {
    type Transaction = Self;
    type Error = io::Error;

    async fn begin(&self) -> Result<Self, DriverError> {
        let begun = self.0.answer(0, self.0.begin).await;
        begun.map_err(DriverError::lost)?;
        Ok(self.clone())
    }

    async fn commit(Self(script): Self) -> io::Result<()> {
        script.answer(2, script.commit).await
    }

    async fn roll_back(Self(script): Self) -> io::Result<()> {
        script.answer(3, script.roll_back).await
    }

    /// A connection is always free.
    fn acquire_timeout(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn identity(&self) -> Option<usize> {
        Some(Arc::as_ptr(&self.0).addr())
    }
}

impl Driver for Scripted {
    type Connection = Self;

    fn connection(&mut self) -> &mut Self {
        self
    }

    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    async fn execute(&mut self, _: &str, _: &[Value<'_>]) -> Result<u64, DriverError> {
        let answer = self.0.answer(1, self.0.statement).await;
        answer.map(|()| 1).map_err(DriverError::lost)
    }

    async fn first_row(
        &mut self,
        _: &str,
        _: &[Value<'_>],
        _: &[ColumnType],
    ) -> Result<Option<Vec<Field>>, DriverError> {
        Ok(None)
    }

    async fn execute_all(&mut self, _: &str) -> Result<(), DriverError> {
        Ok(())
    }
}

/// The provider that the body calls has lost the connection, and may have done its work.
#[tokio::test(start_paused = true)]
async fn a_lost_provider_is_called_once_although_the_rollback_is_slow() {
    let late: fn(u32) -> Answer = |_| Answer::Late(2 * DEADLINE);
    for (roll_back, expected) in [
        (late, 1),
        (|_| Answer::Never, 1),
        (|_| Answer::Done, 1),
        // The database has lost the connection, too, so the error may be its own.
        (|_| Answer::Lost, 2),
    ] {
        let script = Script {
            roll_back,
            ..Script::default()
        };
        let (pool, runs) = (Scripted::new(script), Runs::default());
        let body = async |_: &mut Scripted| match runs.one() {
            1 => Err(Trouble::Lost(reset())),
            run => Ok(run),
        };
        let paid = paying().run_in_new(&pool, Retry::with_row(), body).await;
        assert_eq!((paid.is_ok(), runs.count()), (expected == 2, expected));
    }
}

/// A server that restarts.
#[tokio::test(start_paused = true)]
async fn after_a_lost_commit_a_server_that_is_down_is_asked_again() {
    let restarts: fn(u32) -> Answer = |begun| match begun {
        1..7 => Answer::Lost,
        7 => Answer::Never,
        _ => Answer::Done,
    };
    let stays_down = |begun| match begun {
        0 => Answer::Done,
        _ => Answer::Lost,
    };
    for (begin, expected) in [(restarts, true), (stays_down, false)] {
        let commit = |committed| match committed {
            0 => Answer::Lost,
            _ => Answer::Done,
        };
        let script = Script {
            begin,
            commit,
            ..Script::default()
        };
        let pool = Scripted::new(script);
        let paid = paying().run_in_new(&pool, Retry::with_row(), done).await;
        match paid {
            Ok(()) => assert!(expected),
            Err(Trouble::Guard(Error::LeaseLost(_))) => assert!(!expected),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Nothing was done, so the caller need not wait.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_unavailable_after_the_deadline() {
    let script = Script {
        begin: |_| Answer::Lost,
        ..Script::default()
    };
    let (pool, began) = (Scripted::new(script), Instant::now());
    let paid = paying().run_in_new(&pool, Retry::with_row(), done).await;
    assert!(is_unavailable(&paid), "{paid:?}");
    assert!(began.elapsed() <= DEADLINE + MILLISECOND);
}

#[tokio::test(start_paused = true)]
async fn a_commit_may_be_slower_than_the_deadline() {
    let script = Script {
        commit: |_| Answer::Late(5 * DEADLINE),
        ..Script::default()
    };
    let pool = Scripted::new(script);
    let policy = Retry::with_row().tries(1);
    paying().run_in_new(&pool, policy, done).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_ends() {
    let script = Script {
        commit: |_| Answer::Never,
        ..Script::default()
    };
    let pool = Scripted::new(script);
    let policy = Retry::with_row().tries(1);
    let paid = paying().run_in_new(&pool, policy, done).await;
    let is_lost = matches!(paid, Err(Trouble::Guard(Error::LeaseLost(_))));
    assert!(is_lost, "{paid:?}");
}

/// MySQL waits for an open transaction for 50 s, whatever `wait` says.
#[tokio::test(start_paused = true)]
async fn a_claim_waits_as_long_as_mysql_does_and_not_for_ever() {
    let late: fn(u32) -> Answer = |sent| match sent {
        0 => Answer::Late(Duration::from_secs(50)),
        _ => Answer::Done,
    };
    let never = |_| Answer::Never;
    for (statement, expected) in [(late, true), (never, false)] {
        let script = Script {
            statement,
            ..Script::default()
        };
        let pool = Scripted::new(script);
        let call = paying().wait(MILLISECOND);
        let paid = call.run_in_new(&pool, Retry::with_row(), done).await;
        assert_eq!(paid.is_ok(), expected, "{paid:?}");
        assert_eq!(is_unavailable(&paid), !expected, "{paid:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_the_longest_wait_runs() {
    let pool = Scripted::new(Script::default());
    let call = paying().wait(Duration::MAX);
    call.run_in_new(&pool, Retry::with_row(), done)
        .await
        .unwrap();
}

async fn done(_: &mut Scripted) -> Result<(), Trouble> {
    Ok(())
}

fn is_unavailable(paid: &Result<(), Trouble>) -> bool {
    matches!(paid, Err(Trouble::Guard(Error::Unavailable(_))))
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

fn paying() -> GuardedCall {
    let handle = Idempotency::builder(MemoryStore::new()).deadline(DEADLINE);
    let handle = handle.build().unwrap();
    handle.call("orders.pay").key(&7).ttl(HOUR)
}
