//! When a call that waits for another process reads the store again.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::policy::deadline::first_try;
use crate::protocol::lease::Lease;
use crate::world;

/// Limits how often one waiting call polls the store: a token bucket with [`BURST`] tokens, which gains one token each
/// [`REFILL`].
///
/// Between polls the call sleeps until the store notifies of a change, or until a pause has passed. The pause grows from poll
/// to poll.
pub(crate) struct PollLimiter {
    has_subscribed: bool,
    hints: Option<watch::Receiver<()>>,
    pause: Duration,
    /// When the bucket is full again.
    full_at: Instant,
}

impl PollLimiter {
    pub(crate) fn new() -> Self {
        Self {
            has_subscribed: false,
            hints: None,
            pause: REFILL,
            full_at: Instant::now(),
        }
    }

    /// Waits until the record of the key may have changed, but not longer than `until`.
    pub(crate) async fn pause(&mut self, lease: &Lease, until: Instant) {
        if !std::mem::replace(&mut self.has_subscribed, true) {
            let shared = &lease.call().shared;
            let subscription = shared.store().subscribe(lease.key());
            let limit = until.min(Instant::now() + first_try(shared.deadline()));
            self.hints = timeout_at(limit, subscription).await.ok().flatten();
            if self.hints.is_some() {
                // There are no hints of earlier changes, so the call polls once more.
                self.take_token();
                return;
            }
        }
        let pause = self.pause.mul_f64(world::jitter());
        let next_poll = until.min(Instant::now() + pause);
        self.pause = (self.pause * 3 / 2).min(LONGEST_PAUSE);
        if let Some(hints) = &mut self.hints {
            let changed = timeout_at(next_poll, hints.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                // The subscription has ended. The next pause makes a new subscription.
                self.hints = None;
                self.has_subscribed = false;
                sleep_until(next_poll).await;
            }
        } else {
            sleep_until(next_poll).await;
        }
        // A key that changes often must not be polled at each change.
        let delay = self.take_token();
        sleep_until(until.min(Instant::now() + delay)).await;
    }

    /// Takes the token of one poll. Returns how long the poll must wait for it.
    fn take_token(&mut self) -> Duration {
        let now = Instant::now();
        self.full_at = self.full_at.max(now) + REFILL;
        self.full_at.duration_since(now).saturating_sub(CAPACITY)
    }
}

/// The time in which the bucket gains one token.
const REFILL: Duration = Duration::from_millis(140);
/// How many polls may follow each other at once.
const BURST: u32 = 2;
/// The time in which an empty bucket fills up.
const CAPACITY: Duration = Duration::from_millis(140 * BURST as u64);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
