//! Attempts of one store operation: the limit of each attempt, the backoff between them, and when to give up.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::policy::deadline::first_try;
use crate::protocol::scheduler::Scheduler;
use crate::protocol::timeouts::Timeout;
use crate::store::last_poll::poll_last;
use crate::store::{StoreError, StoreErrorKind};

/// A store operation that has no answer yet.
pub(crate) type StoreFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// One attempt: waits for the answer, but no longer than a limit.
///
/// An immediate answer does not read the clock. The scheduler wakes the other attempts, because a tokio timer per attempt
/// would be the largest part of its cost.
pub(crate) struct StoreAttempt<'a, T> {
    operation: StoreFuture<'a, T>,
    limit: Duration,
    /// `None` before the first poll, and outside of a runtime.
    timeout: Option<Timeout>,
}

impl<'a, T> StoreAttempt<'a, T> {
    pub(crate) fn new(operation: StoreFuture<'a, T>, limit: Duration) -> Self {
        Self {
            operation,
            limit,
            timeout: None,
        }
    }

    /// The first attempt of a call.
    pub(crate) fn first(operation: StoreFuture<'a, T>, deadline: Duration) -> Self {
        Self::new(operation, first_try(deadline))
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Whether the answer was not immediate, so that time may have passed.
    pub(crate) fn has_waited(&self) -> bool {
        self.timeout.is_some()
    }
}

impl<T> Future for StoreAttempt<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(answer) = self.operation.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        match &self.timeout {
            None => self.timeout = Scheduler::set_timeout(self.limit, cx.waker()),
            // A timeout that waits is not due yet, so most polls do not read the clock.
            Some(timeout) if !timeout.set_task(cx.waker()) && timeout.is_due() => {
                return match poll_last(|| self.operation.as_mut().poll(cx)) {
                    Poll::Ready(answer) => Poll::Ready(answer),
                    Poll::Pending => Poll::Ready(Err(timed_out(self.limit))),
                };
            }
            Some(_) => {}
        }
        Poll::Pending
    }
}

/// Repeats an operation until its answer is conclusive or the deadline has passed. Only for operations that may be sent twice.
pub(crate) async fn retry<'a, T>(
    deadline: Duration,
    mut send: impl FnMut() -> StoreFuture<'a, T>,
) -> Result<T, StoreError> {
    let mut answer = StoreAttempt::first(send(), deadline).await;
    let mut backoff = Backoff::after_first_attempt(deadline);
    let mut cause = None;
    loop {
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let is_permanent = matches!(
            error.kind(),
            StoreErrorKind::Misconfigured | StoreErrorKind::Full
        );
        if is_permanent || !backoff.pause().await {
            return Err(name_deadline(prefer_cause(cause, error), deadline));
        }
        cause = Some(prefer_cause(cause, error));
        answer = backoff.attempt(send()).await;
    }
}

/// The error of an attempt that got no answer within its limit.
#[derive(Debug, thiserror::Error)]
#[error("an attempt had no answer within {0:.1?}")]
struct TimedOut(Duration);

fn timed_out(limit: Duration) -> StoreError {
    let error = StoreError::new(StoreErrorKind::Unknown, TimedOut(limit));
    error.reason(format!("gave no answer within {limit:.1?}"))
}

fn is_timeout(error: &StoreError) -> bool {
    error.source().is_some_and(<dyn StdError>::is::<TimedOut>)
}

/// Names the deadline of the handle instead of the limit of the last attempt.
pub(crate) fn name_deadline(error: StoreError, deadline: Duration) -> StoreError {
    if is_timeout(&error) {
        error.reason(format!("gave no answer within {deadline:?}"))
    } else {
        error
    }
}

/// Prefers the earlier of two equivalent errors if the later error is only a timeout of the attempt: the earlier error names
/// the cause.
pub(crate) fn prefer_cause(earlier: Option<StoreError>, last: StoreError) -> StoreError {
    match earlier {
        Some(earlier) if is_timeout(&last) && earlier.kind() == last.kind() => earlier,
        _ => last,
    }
}

/// The pauses between attempts, which grow, and the instant of the last attempt.
pub(crate) struct Backoff {
    until: Instant,
    limit: Duration,
    pause: Duration,
}

impl Backoff {
    /// The backoff for the time that a caller has after its first attempt.
    pub(crate) fn after_first_attempt(deadline: Duration) -> Self {
        Self::until(Instant::now() + deadline - first_try(deadline), deadline)
    }

    /// The backoff until an instant, with each attempt under `limit`.
    pub(crate) fn until(until: Instant, limit: Duration) -> Self {
        Self {
            until,
            limit,
            pause: FIRST_PAUSE,
        }
    }

    /// One attempt, within its limit and the remaining time.
    pub(crate) fn attempt<'a, T>(&self, operation: StoreFuture<'a, T>) -> StoreAttempt<'a, T> {
        StoreAttempt::new(operation, self.limit.min(self.remaining()))
    }

    /// Waits before the next attempt. Returns `false` if no time remains for it.
    pub(crate) async fn pause(&mut self) -> bool {
        // Close to the end, half of the remaining time is for the attempt.
        let pause = self.pause.min(self.remaining() / 2);
        if pause < FIRST_PAUSE || Handle::try_current().is_err() {
            return false;
        }
        tokio::time::sleep(pause).await;
        // With much time remaining, many callers may wait for the same store, so pauses are longer.
        self.pause = (self.pause * 2).min((self.remaining() / 20).clamp(LONG_PAUSE, LONGEST_PAUSE));
        true
    }

    /// Makes the next pause a second at most.
    pub(crate) fn shorten(&mut self) {
        self.pause = self.pause.min(LONG_PAUSE);
    }

    /// When it gives up.
    pub(crate) fn gives_up_at(&self) -> Instant {
        self.until
    }

    fn remaining(&self) -> Duration {
        self.until.duration_since(Instant::now())
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONG_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_error_of_a_silent_store_names_the_deadline() {
        let send = || -> StoreFuture<'_, ()> { Box::pin(pending()) };
        let error = retry(Duration::from_millis(1500), send).await;
        let text = error.expect_err("the store is silent").to_string();
        assert_eq!(text, "the store gave no answer within 1.5s");
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_cause_is_preferred_to_a_timeout() {
        let mut count = 0;
        let send = || -> StoreFuture<'_, ()> {
            count += 1;
            if count > 1 {
                return Box::pin(pending());
            }
            let reset = StoreError::new(StoreErrorKind::Unknown, "a test");
            Box::pin(async { Err(reset.reason("closed the connection")) })
        };
        let error = retry(Duration::from_secs(1), send).await;
        let text = error.expect_err("the store does not answer").to_string();
        assert_eq!(text, "the store closed the connection");
    }
}
