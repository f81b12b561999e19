//! The tries of one store operation: how long each may take, and when to give up.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::store::{StoreError, StoreErrorKind};

/// Repeats an operation until an instant, waiting longer each time.
pub(crate) struct Tries {
    until: Instant,
    first: Duration,
    limit: Duration,
    pause: Duration,
}

impl Tries {
    /// Tries for as long as a caller waits. A reply may just be lost, so the first try does not get
    /// all the time; a store may just be slow, so the second one does.
    pub(crate) fn of_a_caller(deadline: Duration) -> Self {
        Self {
            until: Instant::now() + deadline,
            first: deadline / 4,
            limit: deadline,
            pause: FIRST_PAUSE,
        }
    }

    /// Tries without a caller, each under `limit`.
    pub(crate) fn unattended(until: Instant, limit: Duration) -> Self {
        Self {
            until,
            first: limit,
            limit,
            pause: FIRST_PAUSE,
        }
    }

    /// Waits for the operation as long as one try may take.
    pub(crate) async fn wait<T>(
        &mut self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = std::mem::replace(&mut self.first, self.limit);
        within(limit.min(self.left()), operation).await
    }

    /// Waits before the next try; `false` if there is no time for one.
    pub(crate) async fn again(&mut self) -> bool {
        if self.left() <= self.pause {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }

    fn left(&self) -> Duration {
        self.until.duration_since(Instant::now())
    }
}

/// The answer of an operation that needs no waiting: no timer is made for it, nor a look at the clock.
pub(crate) async fn at_once<F: Future + Unpin>(operation: &mut F) -> Option<F::Output> {
    poll_fn(|cx| match Pin::new(&mut *operation).poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Waits for an operation no longer than `limit`. Outside of a runtime there are no timers.
pub(crate) async fn within<T>(
    limit: Duration,
    operation: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    if Handle::try_current().is_err() {
        return operation.await;
    }
    match tokio::time::timeout(limit, operation).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Unknown,
            format!("no answer within {limit:.1?}"),
        )),
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
