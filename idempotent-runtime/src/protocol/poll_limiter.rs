//! When a call that waits for another process reads the store again.

use std::time::Duration;

use futures_util::future::{join_all, select_all};
use futures_util::{FutureExt as _, TryFutureExt as _};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::policy::deadline::first_try;
use crate::protocol::lease::Lease;
use crate::protocol::line::{Hints, LONGEST_PAUSE};
use crate::protocol::permit;
use crate::world;

/// Limits how often one waiting call polls the store: a token bucket with [`BURST`] tokens, which gains one token each
/// [`REFILL`].
///
/// Between polls the call sleeps until the store notifies of a change, or until a pause has passed. The pause grows from poll
/// to poll.
pub(crate) struct PollLimiter {
    has_subscribed: bool,
    /// The notifications of the key, or of each slot of a key with permits; none if the store does not notify.
    hints: Hints,
    pause: Duration,
    /// When the bucket is full again.
    full_at: Instant,
}

impl PollLimiter {
    pub(crate) fn new() -> Self {
        Self {
            has_subscribed: false,
            hints: Vec::new(),
            pause: REFILL,
            full_at: Instant::now(),
        }
    }

    /// The notifications, for the next call that polls the same key.
    pub(crate) fn take_hints(&mut self) -> Hints {
        std::mem::take(&mut self.hints)
    }

    /// Takes over the notifications of a call that has polled the same key.
    pub(crate) fn set_hints(&mut self, hints: Hints) {
        self.has_subscribed = !hints.is_empty();
        self.hints = hints;
    }

    /// Waits until the record of the key may have changed, but not longer than `until`. Returns the slot that has changed, if it is known.
    ///
    /// A call that polls for `calls` calls of a line polls as often as they would, up to [`MOST_OFTEN`] times as often as one.
    pub(crate) async fn pause(&mut self, lease: &Lease, until: Instant, calls: u32) -> Option<u8> {
        let calls = calls.clamp(1, MOST_OFTEN);
        if !std::mem::replace(&mut self.has_subscribed, true) {
            self.subscribe(lease, until).await;
            if !self.hints.is_empty() {
                // There are no hints of earlier changes, so the call polls once more.
                self.take_token(calls);
                return None;
            }
        }
        let pause = self.pause.mul_f64(world::jitter()) / calls;
        let next_poll = until.min(Instant::now() + pause);
        self.pause = (self.pause * 3 / 2).min(LONGEST_PAUSE);
        let mut slot = None;
        if self.hints.is_empty() {
            sleep_until(next_poll).await;
        } else {
            let hints = self.hints.iter_mut();
            let hints = hints.map(|(slot, hints)| hints.changed().map_ok(|()| *slot).boxed());
            let changed = timeout_at(next_poll, select_all(hints)).await;
            match changed.map(|(changed, ..)| changed) {
                Ok(Ok(changed)) => slot = Some(changed),
                Ok(Err(_)) => {
                    // A subscription has ended. The next pause makes new subscriptions.
                    self.hints.clear();
                    self.has_subscribed = false;
                    sleep_until(next_poll).await;
                }
                Err(_) => {}
            }
        }
        // A key that changes often must not be polled at each change.
        let delay = self.take_token(calls);
        sleep_until(until.min(Instant::now() + delay)).await;
        slot
    }

    async fn subscribe(&mut self, lease: &Lease, until: Instant) {
        let shared = &lease.call().shared;
        let limit = until.min(Instant::now() + first_try(shared.deadline()));
        let keys = permit::keys(lease);
        let subscriptions = keys.iter().map(|(slot, key)| async {
            let hints = shared.store().subscribe(key).await;
            hints.map(|hints| (*slot, hints))
        });
        let subscribed = timeout_at(limit, join_all(subscriptions)).await;
        self.hints = subscribed.into_iter().flatten().flatten().collect();
    }

    /// Takes the token of one poll. Returns how long the poll must wait for it.
    fn take_token(&mut self, calls: u32) -> Duration {
        let now = Instant::now();
        self.full_at = self.full_at.max(now) + REFILL / calls;
        self.full_at
            .duration_since(now)
            .saturating_sub(CAPACITY / calls)
    }
}

/// The time in which the bucket gains one token.
const REFILL: Duration = Duration::from_millis(140);
/// How many polls may follow each other at once.
const BURST: u32 = 2;
/// The time in which an empty bucket fills up.
const CAPACITY: Duration = Duration::from_millis(140 * BURST as u64);
/// How many calls of a line count at most.
const MOST_OFTEN: u32 = 4;
