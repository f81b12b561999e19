//! Runs a transaction again when the database asks for it.

use std::error::Error as StdError;
use std::time::Duration;

use idempotent_driver::sql::Causes;
use tokio::time::{Instant, sleep};

use crate::sql::retryable::{is_retryable, is_retryable_with_row};
use crate::world;

/// When [`sql::retry`] runs a transaction again: after which errors, how often, and for how long.
///
/// The defaults: at most 10 attempts, and the last begins within 30 s of the first. The pauses grow from 20 ms to 1 s. Each
/// pause is twice as long as the previous one, plus up to half of that at random, so that two conflicting transactions do not
/// conflict again.
///
/// [`sql::retry`]: https://docs.rs/idempotence/latest/idempotence/sql/fn.retry.html
#[derive(Debug, Clone, Copy)]
#[must_use = "pass it to `sql::retry`"]
pub struct Retry {
    is_retryable: fn(&(dyn StdError + 'static)) -> bool,
    tries: u32,
    within: Duration,
    pause: Duration,
    longest_pause: Duration,
}

impl Retry {
    /// Retries any transaction after an error that proves that nothing was done ([`is_retryable`]), and after a failed `BEGIN`.
    pub const fn when_nothing_was_done() -> Self {
        Self::when(is_retryable)
    }

    /// Also retries after a lost connection and after a `COMMIT` whose reply was lost ([`is_retryable_with_row`]). For
    /// transactions that write the dedup row with the option `tx` or with `run_in`. **Work that the row does not protect may
    /// be done twice:** a transaction without a guarded call, statements on `tx` outside the call, and a call that its `when`
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

    /// Runs `attempt` until it succeeds, as long as this policy allows: `sql::retry` for a library other than sqlx 0.9. `attempt`
    /// begins a transaction of that library, runs the guarded call in it, and commits it.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # use idempotence::sql::Retry;
    /// # struct Shop;
    /// # impl Shop {
    /// #     async fn attempt(&self, _: &str) -> Result<i64, std::io::Error> { Ok(1) }
    /// async fn pay(&self, order_no: &str) -> Result<i64, std::io::Error> {
    ///     Retry::with_row().run(|| self.attempt(order_no)).await
    /// }
    /// # }
    /// ```
    ///
    /// It sends nothing itself. An attempt must return its first error, and roll back before, as by dropping the transaction.
    /// [`when_nothing_was_done`](Self::when_nothing_was_done) does not repeat a `BEGIN` whose connection was lost.
    ///
    /// # Errors
    ///
    /// The error of the last attempt. With [`with_row`](Self::with_row) an error does not prove that nothing was done, because an
    /// earlier attempt may be committed: make the same call again.
    ///
    /// # Cancellation
    ///
    /// As for `sql::retry`, if a dropped attempt rolls back.
    pub async fn run<T, E, Via, F>(self, mut attempt: impl FnMut() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
        E: Causes<Via>,
    {
        let mut attempts = TransactionAttempts::new(self);
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let again = (self.is_retryable)(error.first_cause());
            if !again || !attempts.pause().await {
                return Err(error);
            }
        }
    }

    /// Sets the largest number of attempts, including the first. The transaction runs at least once.
    pub const fn tries(mut self, most: u32) -> Self {
        self.tries = most;
        self
    }

    /// Sets the time limit for new attempts: no attempt begins more than this time after the first. A running attempt is not
    /// interrupted, because an interrupted `COMMIT` may be applied: limit its statements with the timeouts of the database.
    pub const fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Sets the first and the longest pause, at most a day. Up to half of a pause is added to it at random.
    pub const fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.pause = first;
        self.longest_pause = longest;
        self
    }
}

/// The attempts at one transaction, and the pauses between them.
#[derive(Debug)]
pub struct TransactionAttempts {
    policy: Retry,
    began: Instant,
    made: u32,
    pause: Duration,
}

impl TransactionAttempts {
    /// No attempt was made yet.
    pub fn new(policy: Retry) -> Self {
        Self {
            policy,
            began: Instant::now(),
            made: 0,
            pause: policy.pause,
        }
    }

    /// Whether an error of the last attempt allows another. `has_row`: the transaction writes the dedup row.
    pub fn allow(&self, error: &(dyn StdError + 'static), has_row: bool) -> bool {
        if has_row {
            (self.policy.is_retryable)(error)
        } else {
            is_retryable(error)
        }
    }

    /// Counts the time of the attempts from now on.
    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Waits before the next attempt. `false`: there is no other attempt.
    pub async fn pause(&mut self) -> bool {
        let Some(pause) = self.next_pause() else {
            return false;
        };
        // The error is not logged, because its text may contain data of the caller.
        tracing::debug!(target: "idempotence", ?pause, "a transaction failed and is retried after a pause");
        sleep(pause).await;
        true
    }

    /// The pause after an attempt; `None` after the last attempt.
    fn next_pause(&mut self) -> Option<Duration> {
        self.made += 1;
        if self.made >= self.policy.tries {
            return None;
        }
        let remaining = self.policy.within.checked_sub(self.began.elapsed())?;
        let pause = self.pause.min(self.policy.longest_pause).min(MAX_PAUSE);
        let pause = pause.mul_f64(world::jitter());
        self.pause = self.pause.saturating_mul(2);
        (pause < remaining).then_some(pause)
    }
}

/// The longest pause. It can be multiplied without an overflow.
const MAX_PAUSE: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use std::future::ready;

    use idempotent_driver::sql::driver::DriverError;
    use tokio::time::advance;

    use super::*;

    fn policy() -> Retry {
        Retry::when_nothing_was_done()
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_of_any_library_runs_until_it_succeeds_or_may_not_be_repeated() {
        let conflict = || DriverError::postgres("40001", "on purpose");
        let lost = || DriverError::lost("on purpose");
        let other = || DriverError::other("on purpose");
        let outcomes = [Err(conflict()), Err(conflict()), Ok(7), Ok(8)];
        let mut outcomes = outcomes.into_iter();
        let done = policy().run(|| ready(outcomes.next().unwrap())).await;
        assert_eq!(done.unwrap(), 7);
        for (policy, error, expected) in [
            (policy(), &conflict as &dyn Fn() -> DriverError, 10),
            (policy(), &lost, 1),
            (policy(), &other, 1),
            (Retry::with_row(), &lost, 10),
            (Retry::with_row().tries(3), &lost, 3),
            (Retry::with_row(), &other, 1),
        ] {
            let mut made = 0;
            let attempt = || {
                made += 1;
                ready(Err::<(), _>(error()))
            };
            policy.run(attempt).await.unwrap_err();
            assert_eq!(made, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_up_to_the_longest() {
        let millis = Duration::from_millis;
        let mut attempts = TransactionAttempts::new(policy().pauses(millis(10), millis(30)));
        for expected in [10, 20, 30, 30] {
            let pause = attempts.next_pause().unwrap();
            let allowed = millis(expected)..millis(expected) * 3 / 2;
            assert!(allowed.contains(&pause), "{pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_more_attempts_than_allowed() {
        for (tries, expected) in [(0, 0), (1, 0), (2, 1), (10, 9)] {
            let mut attempts = TransactionAttempts::new(policy().tries(tries));
            let count = (0..100)
                .take_while(|_| attempts.next_pause().is_some())
                .count();
            assert_eq!(count, expected, "{tries}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempt_begins_after_the_time() {
        let within = Duration::from_secs(3);
        let began = Instant::now();
        let mut attempts = TransactionAttempts::new(policy().tries(u32::MAX).within(within));
        let mut tries = 1;
        while let Some(pause) = attempts.next_pause() {
            sleep(pause).await;
            assert!(began.elapsed() < within);
            tries += 1;
        }
        assert!(tries > 5, "{tries}");
        advance(within).await;
        assert!(attempts.next_pause().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_durations_do_not_overflow() {
        let longest = Duration::MAX;
        for policy in [policy(), policy().pauses(longest, longest)] {
            let mut attempts = TransactionAttempts::new(policy.within(longest));
            assert!((0..9).all(|_| attempts.next_pause().is_some()));
        }
    }
}
