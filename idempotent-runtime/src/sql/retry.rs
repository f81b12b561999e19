//! A transaction that is run again when the database asks for it.

use std::error::Error as StdError;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{Pool, Transaction};
use tokio::time::{Instant, sleep, timeout};

use super::database::Database;
use super::retryable::{is_retryable, is_retryable_with_row};
use crate::world;

/// Begins a transaction, runs `body` in it, and commits it; again from the beginning, as long as `policy` says so.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # use idempotence::sql::sqlx;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool) -> sqlx::Result<()> {
/// use idempotence::sql::{self, Retry};
///
/// sql::retry(&pool, Retry::when_nothing_was_done(), |tx| Box::pin(async {
///     sqlx::query("UPDATE account SET cents = cents - 500 WHERE id = 1").execute(&mut **tx).await?;
///     sqlx::query("UPDATE account SET cents = cents + 500 WHERE id = 2").execute(&mut **tx).await?;
///     Ok(())
/// }))
/// .await
/// # }
/// ```
///
/// `body` makes a new boxed future for each try, as in sqlx's `Connection::transaction`: where the work is a function of its
/// own, `|tx| Box::pin(pay(tx, order_no))`. (An `async |tx| …` that borrows could not be spawned: the compiler does not see
/// that its future is `Send`.)
///
/// After an `Err` of `body` the transaction is rolled back, before the pause. A `body` with a guarded call (the option `tx`,
/// or `run_in`) is run by [`Retry::with_row`]. Give that call `replay`, so that a try after a `COMMIT` whose reply was lost
/// returns the result of the one that was committed, and not [`Error::AlreadyDone`](crate::Error::AlreadyDone).
///
/// `body` may run more than once, so what it does elsewhere than through `tx` may happen more than once. It must return
/// every error of a statement: what goes on after one may work in a transaction that is over, and `COMMIT` does not say so.
///
/// On SQLite the transaction begins with `BEGIN IMMEDIATE`, elsewhere with `BEGIN`.
///
/// Round trips of each try: `BEGIN`, those of `body`, and `COMMIT` or `ROLLBACK`.
///
/// # Errors
///
/// The error of the last try: one of `body`, or of `BEGIN` or `COMMIT`, as `E` has it from sqlx. No duplicate is attempts
/// again, and no pool that had no connection in time. With [`Retry::with_row`] an error does not say that nothing was
/// done, because an earlier try may have been committed: make the same call again.
///
/// # Cancellation
///
/// A future that is dropped in `body`, or between two tries, leaves nothing done: the transaction is rolled back. Dropped
/// during the `COMMIT`, or with [`Retry::with_row`] after one, it may have been committed.
pub async fn retry<'env, DB, T, E>(
    pool: &Pool<DB>,
    policy: Retry,
    mut body: impl for<'tx> FnMut(&'tx mut Transaction<'env, DB>) -> BoxFuture<'tx, Result<T, E>>,
) -> Result<T, E>
where
    DB: Database,
    E: From<sqlx::Error> + StdError + 'static,
{
    let mut backoff = Backoff::new(policy);
    loop {
        let (error, again) = match begin(pool).await {
            // Nothing was sent but this.
            Err(error) => {
                let again = is_retryable_with_row(&error);
                (E::from(error), again)
            }
            Ok(tx) => match commit_or_roll_back(tx, &mut body).await {
                Ok(done) => return Ok(done),
                Err(error) => {
                    let again = (policy.is_retryable)(&error);
                    (error, again)
                }
            },
        };
        let pause = if again { backoff.next_pause() } else { None };
        let Some(pause) = pause else {
            return Err(error);
        };
        // Not the error: what it says is the caller's.
        tracing::debug!(?pause, "a transaction is run again after a pause");
        drop(error);
        sleep(pause).await;
    }
}

/// When [`retry`] runs a transaction again: after which errors, how often, and for how long.
///
/// Unless you say otherwise: 10 tries at most, of which the last begins within 30 s of the first. The pauses between them go
/// from 20 ms to 1 s; each is twice as long as the one before, and up to half longer by chance, so that two transactions
/// that stood in each other's way do not meet again.
#[derive(Debug, Clone, Copy)]
#[must_use = "it is for `sql::retry`"]
pub struct Retry {
    is_retryable: fn(&(dyn StdError + 'static)) -> bool,
    tries: u32,
    within: Duration,
    pause: Duration,
    longest_pause: Duration,
}

impl Retry {
    /// After errors that say that certainly nothing was done ([`is_retryable`]), and a `BEGIN` that failed: for any
    /// transaction.
    pub const fn when_nothing_was_done() -> Self {
        Self::when(is_retryable)
    }

    /// Also after a lost connection, and a `COMMIT` whose reply was lost ([`is_retryable_with_row`]): for
    /// transactions that write the dedup row, by the option `tx` or `run_in`. **What the row does not protect may be done
    /// twice:** a transaction without a guarded call, what is written through `tx` beside the call, and a call that its `when`
    /// left unguarded.
    pub const fn with_row() -> Self {
        Self::when(is_retryable_with_row)
    }

    const fn when(is_retryable: fn(&(dyn StdError + 'static)) -> bool) -> Self {
        Self {
            is_retryable,
            tries: 10,
            within: Duration::from_secs(30),
            pause: Duration::from_millis(20),
            longest_pause: Duration::from_secs(1),
        }
    }

    /// How many times the transaction is run at most, the first time counted. There is always a first time.
    pub const fn tries(mut self, most: u32) -> Self {
        self.tries = most;
        self
    }

    /// No try begins later than this after the first. A try that has begun is not cut short, because a `COMMIT` that is cut
    /// short may have been carried out: bound its statements by the database's own timeouts.
    pub const fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// How long the first pause is, and the longest, at most a day; each is up to half longer by chance.
    pub const fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.pause = first;
        self.longest_pause = longest;
        self
    }
}

/// The pauses that are left.
struct Backoff {
    policy: Retry,
    began: Instant,
    attempts: u32,
    pause: Duration,
}

impl Backoff {
    fn new(policy: Retry) -> Self {
        Self {
            policy,
            began: Instant::now(),
            attempts: 0,
            pause: policy.pause,
        }
    }

    /// The pause after a try; `None` if it was the last one.
    fn next_pause(&mut self) -> Option<Duration> {
        self.attempts += 1;
        if self.attempts >= self.policy.tries {
            return None;
        }
        let remaining = self.policy.within.checked_sub(self.began.elapsed())?;
        let pause = self.pause.min(self.policy.longest_pause).min(MAX_PAUSE);
        let pause = pause.mul_f64(world::jitter());
        self.pause = self.pause.saturating_mul(2);
        (pause < remaining).then_some(pause)
    }
}

async fn begin<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<Transaction<'static, DB>> {
    match DB::BEGIN {
        Some(statement) => pool.begin_with(statement).await,
        None => pool.begin().await,
    }
}

async fn commit_or_roll_back<'env, DB, T, E>(
    mut tx: Transaction<'env, DB>,
    body: &mut impl for<'tx> FnMut(&'tx mut Transaction<'env, DB>) -> BoxFuture<'tx, Result<T, E>>,
) -> Result<T, E>
where
    DB: Database,
    E: From<sqlx::Error>,
{
    match body(&mut tx).await {
        Ok(done) => {
            tx.commit().await?;
            Ok(done)
        }
        Err(error) => {
            // If it fails, the connection is lost, and the transaction with it.
            let _ = timeout(ROLLBACK_TIMEOUT, tx.rollback()).await;
            Err(error)
        }
    }
}

/// Nobody waits longer on purpose; and a factor of it is no overflow.
const MAX_PAUSE: Duration = Duration::from_hours(24);
/// The server rolls back by itself what it hears no more of.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn policy() -> Retry {
        Retry::when_nothing_was_done()
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_up_to_the_longest() {
        let millis = Duration::from_millis;
        let mut backoff = Backoff::new(policy().pauses(millis(10), millis(30)));
        for expected in [10, 20, 30, 30] {
            let pause = backoff.next_pause().unwrap();
            let allowed = millis(expected)..millis(expected) * 3 / 2;
            assert!(allowed.contains(&pause), "{pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_more_tries_than_allowed() {
        for (tries, expected) in [(0, 0), (1, 0), (2, 1), (10, 9)] {
            let mut backoff = Backoff::new(policy().tries(tries));
            let count = (0..100)
                .take_while(|_| backoff.next_pause().is_some())
                .count();
            assert_eq!(count, expected, "{tries}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_try_begins_after_the_time() {
        let within = Duration::from_secs(3);
        let began = Instant::now();
        let mut backoff = Backoff::new(policy().tries(u32::MAX).within(within));
        let mut tries = 1;
        while let Some(pause) = backoff.next_pause() {
            sleep(pause).await;
            assert!(began.elapsed() < within);
            tries += 1;
        }
        assert!(tries > 5, "{tries}");
        advance(within).await;
        assert!(backoff.next_pause().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_times_there_are_do_not_overflow() {
        let longest = Duration::MAX;
        for policy in [policy(), policy().pauses(longest, longest)] {
            let mut backoff = Backoff::new(policy.within(longest));
            assert!((0..9).all(|_| backoff.next_pause().is_some()));
        }
    }
}
