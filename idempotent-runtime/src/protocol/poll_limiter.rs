//! When a call that waits for another process asks the store again.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::policy::deadline::first_try;
use crate::protocol::context::CallContext;
use crate::world;

/// The pauses of one call: woken by hints, where the store gives any, and by a clock that goes slower and slower.
pub(crate) struct Pauses {
    listens: bool,
    changes: Option<watch::Receiver<()>>,
    pause: Duration,
    /// When it may have asked for all that it has.
    spent: Instant,
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Self {
            listens: false,
            changes: None,
            pause: MEASURE,
            spent: Instant::now(),
        }
    }

    /// Waits until what stands under the key may have changed, and not beyond `until`.
    pub(crate) async fn pause(&mut self, call: &CallContext, until: Instant) {
        if !std::mem::replace(&mut self.listens, true) {
            let listening = call.shared.store().subscribe(&call.key);
            let limit = until.min(Instant::now() + first_try(call.shared.deadline()));
            self.changes = timeout_at(limit, listening).await.ok().flatten();
            if self.changes.is_some() {
                // What changed before is not heard of, so the store is asked once more.
                self.spend();
                return;
            }
        }
        let pause = self.pause.mul_f64(world::jitter());
        let again = until.min(Instant::now() + pause);
        self.pause = (self.pause * 3 / 2).min(LONGEST_PAUSE);
        if let Some(changes) = &mut self.changes {
            let changed = timeout_at(again, changes.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                // Hints have stopped; the next pause asks for others.
                self.changes = None;
                self.listens = false;
                sleep_until(again).await;
            }
        } else {
            sleep_until(again).await;
        }
        // A key that changes all the time is not asked for all the time.
        let ahead = self.spend();
        sleep_until(until.min(Instant::now() + ahead)).await;
    }

    /// Counts one operation. How long it has to wait for its turn.
    fn spend(&mut self) -> Duration {
        let now = Instant::now();
        self.spent = self.spent.max(now) + MEASURE;
        self.spent.duration_since(now).saturating_sub(BURST)
    }
}

/// One operation in so much time, for each call that waits.
const MEASURE: Duration = Duration::from_millis(140);
/// So much time's operations may be made at once.
const BURST: Duration = Duration::from_millis(280);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
