//! The tries of one store operation: how long each may take, and when to give up.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::policy::deadline::first_try;
use crate::protocol::scheduler::{Keeper, Slot};
use crate::store::{StoreError, StoreErrorKind};

/// An operation that was sent to a store and is not answered yet.
pub(crate) type Sending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// One try: waits for the answer no longer than a limit.
///
/// An answer that is there at once costs no look at the clock. The keeper is the alarm clock of the others:
/// a timer of its own would be the better part of what a try costs.
pub(crate) struct Try<'a, T> {
    sending: Sending<'a, T>,
    limit: Duration,
    alarm: Option<(Arc<Keeper>, Slot)>,
}

impl<'a, T> Try<'a, T> {
    pub(crate) fn new(sending: Sending<'a, T>, limit: Duration) -> Self {
        Self {
            sending,
            limit,
            alarm: None,
        }
    }

    /// The first try of a call.
    pub(crate) fn first(sending: Sending<'a, T>, deadline: Duration) -> Self {
        Self::new(sending, first_try(deadline))
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Whether any time may have passed: the answer was not there at once.
    pub(crate) fn waited(&self) -> bool {
        self.alarm.is_some()
    }
}

impl<T> Future for Try<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(answer) = self.sending.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        let now = Instant::now();
        let (keeper, until) = match self.alarm.take() {
            Some((_, (until, _))) if until <= now => {
                let late = Late(self.limit);
                return Poll::Ready(Err(StoreError::new(StoreErrorKind::Unknown, late)));
            }
            Some((keeper, slot)) => {
                keeper.forget(slot);
                (Some(keeper), slot.0)
            }
            // Outside of a runtime there are no alarms.
            None => (Keeper::current(), now + self.limit),
        };
        self.alarm = keeper.map(|keeper| {
            let slot = keeper.wake(until, cx.waker().clone());
            (keeper, slot)
        });
        Poll::Pending
    }
}

/// Sends until an answer is conclusive, or the time is up: for operations that may be sent twice.
pub(crate) async fn asked<'a, T>(
    deadline: Duration,
    mut send: impl FnMut() -> Sending<'a, T>,
) -> Result<T, StoreError> {
    let mut answer = Try::first(send(), deadline).await;
    let mut tries = Tries::after_the_first(deadline);
    let mut told = None;
    loop {
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let hopeless = matches!(
            error.kind(),
            StoreErrorKind::Misconfigured | StoreErrorKind::Full
        );
        if hopeless || !tries.again().await {
            return Err(more_telling(told, error));
        }
        told = Some(more_telling(told, error));
        answer = tries.once(send()).await;
    }
}

/// The store gave no answer within this time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:.1?}")]
struct Late(Duration);

/// Of two failures that say the same of the operation, the one that says more of the store: the last
/// try is cut short by the end of the time, whatever it would have been answered.
pub(crate) fn more_telling(earlier: Option<StoreError>, last: StoreError) -> StoreError {
    let cut_short = last.source().is_some_and(<dyn StdError>::is::<Late>);
    match earlier {
        Some(earlier) if cut_short && earlier.kind() == last.kind() => earlier,
        _ => last,
    }
}

impl<T> Drop for Try<'_, T> {
    fn drop(&mut self) {
        if let Some((keeper, slot)) = self.alarm.take() {
            keeper.forget(slot);
        }
    }
}

/// Repeats an operation until an instant, waiting longer each time.
pub(crate) struct Tries {
    until: Instant,
    limit: Duration,
    pause: Duration,
}

impl Tries {
    /// What is left to a caller after the first try.
    pub(crate) fn after_the_first(deadline: Duration) -> Self {
        Self::until(Instant::now() + deadline - first_try(deadline), deadline)
    }

    /// Tries without a caller, each under `limit`.
    pub(crate) fn until(until: Instant, limit: Duration) -> Self {
        Self {
            until,
            limit,
            pause: FIRST_PAUSE,
        }
    }

    /// Waits for the operation as long as one try may take.
    pub(crate) fn once<'a, T>(&self, sending: Sending<'a, T>) -> Try<'a, T> {
        Try::new(sending, self.limit.min(self.left()))
    }

    /// Waits before the next try; `false` if there is no time for one.
    pub(crate) async fn again(&mut self) -> bool {
        // Towards the end, half of what is left is for the try.
        let pause = self.pause.min(self.left() / 2);
        if pause < FIRST_PAUSE || Handle::try_current().is_err() {
            return false;
        }
        tokio::time::sleep(pause).await;
        // Where there is much time left, there may be many who wait for the same store.
        self.pause = (self.pause * 2).min((self.left() / 20).clamp(LONG_PAUSE, LONGEST_PAUSE));
        true
    }

    fn left(&self) -> Duration {
        self.until.duration_since(Instant::now())
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONG_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
