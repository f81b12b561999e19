//! The keeper: one task per tokio runtime that renews all held claims and settles what callers left.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep};

use super::Lease;

/// What the task of the keeper shares with the calls of its runtime.
pub(crate) struct Keeper(Mutex<Desk>);

/// A place in the keeper's book.
pub(crate) type Slot = (Instant, u64);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct Desk {
    book: BTreeMap<Slot, Arc<Lease>>,
    entries: u64,
    inbox: Vec<Work>,
    /// When the task wakes up by itself, at the latest.
    alarm: Option<Instant>,
    waker: Option<Waker>,
    gone: bool,
}

impl Keeper {
    /// The keeper of the runtime that this runs on; `None` outside of one.
    pub(crate) fn current() -> Option<Arc<Self>> {
        static KEEPERS: LazyLock<RwLock<HashMap<Id, Arc<Keeper>>>> = LazyLock::new(RwLock::default);

        let runtime = Handle::try_current().ok()?;
        let keepers = KEEPERS.read().unwrap_or_else(PoisonError::into_inner);
        // An id may be used again after its runtime has ended.
        if let Some(keeper) = keepers.get(&runtime.id()).filter(|keeper| !keeper.gone()) {
            return Some(Arc::clone(keeper));
        }
        drop(keepers);
        let mut keepers = KEEPERS.write().unwrap_or_else(PoisonError::into_inner);
        keepers.retain(|_, keeper| !keeper.gone());
        let keeper = keepers.entry(runtime.id()).or_insert_with(|| {
            let keeper = Arc::new(Self(Mutex::default()));
            runtime.spawn(Round {
                keeper: Arc::clone(&keeper),
                under_way: FuturesUnordered::new(),
                alarm: None,
            });
            keeper
        });
        Some(Arc::clone(keeper))
    }

    /// Looks after `lease` at `due`.
    pub(crate) fn remember(&self, due: Instant, lease: Arc<Lease>) -> Slot {
        let mut desk = self.desk();
        let slot = (due, desk.entries);
        desk.entries += 1;
        if !desk.gone {
            desk.book.insert(slot, lease);
            // An alarm that is set too soon is cheaper than a wake-up per call.
            if desk.alarm.is_none_or(|alarm| due < alarm) {
                desk.alarm = Some(due);
                desk.call();
            }
        }
        slot
    }

    /// Looks after it no more.
    pub(crate) fn forget(&self, slot: Slot) {
        let lease = self.desk().book.remove(&slot);
        drop(lease);
    }

    /// Runs `work` to its end.
    pub(crate) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut desk = self.desk();
        if !desk.gone {
            // A store is somebody else's code: its panic must not end the keeper of all claims.
            let work = AssertUnwindSafe(work).catch_unwind().map(drop);
            desk.inbox.push(Box::pin(work));
            desk.call();
        }
    }

    pub(crate) fn gone(&self) -> bool {
        self.desk().gone
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn call(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<Arc<Lease>> {
        let mut due = Vec::new();
        while let Some(first) = self.book.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        due
    }
}

/// The keeper's task. Renewals run side by side, so that one that hangs delays no other.
struct Round {
    keeper: Arc<Keeper>,
    under_way: FuturesUnordered<Work>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Future for Round {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut desk = self.keeper.desk();
            desk.waker = Some(cx.waker().clone());
            let due = desk.take_due(Instant::now());
            let inbox = std::mem::take(&mut desk.inbox);
            drop(desk);

            let renewals = due.iter().filter_map(Lease::due);
            self.under_way
                .extend(renewals.map(|renewal| Box::pin(renewal) as Work));
            self.under_way.extend(inbox);
            while let Poll::Ready(Some(())) = self.under_way.poll_next_unpin(cx) {}

            if self.alarm_is_pending(cx) {
                return Poll::Pending;
            }
        }
    }
}

impl Round {
    fn alarm_is_pending(&mut self, cx: &mut Context<'_>) -> bool {
        let mut desk = self.keeper.desk();
        let longest = Instant::now() + LONGEST_SLEEP;
        let next = desk
            .book
            .first_key_value()
            .map(|(slot, _)| slot.0.min(longest));
        desk.alarm = next;
        let called = desk.waker.is_none();
        drop(desk);
        match (next, &mut self.alarm) {
            (None, alarm) => *alarm = None,
            (Some(next), Some(alarm)) => alarm.as_mut().reset(next),
            (Some(next), alarm) => *alarm = Some(Box::pin(tokio::time::sleep_until(next))),
        }
        let alarm = self.alarm.as_mut();
        !called && alarm.is_none_or(|alarm| alarm.as_mut().poll(cx).is_pending())
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        let mut desk = self.keeper.desk();
        desk.gone = true;
        let left = (
            std::mem::take(&mut desk.book),
            std::mem::take(&mut desk.inbox),
        );
        drop(desk);
        drop(left);
    }
}

/// A timer cannot be set for as far as a ttl may reach.
const LONGEST_SLEEP: Duration = Duration::from_hours(24);
