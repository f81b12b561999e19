//! The keeper: one task per tokio runtime that renews all held claims, settles what callers left, and
//! is the alarm clock of those who wait for a store.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep};

/// What the task of the keeper shares with the calls of its runtime.
pub(crate) struct Keeper {
    desk: Mutex<Desk>,
    gone: AtomicBool,
}

/// A place in the keeper's book.
pub(crate) type Slot = (Instant, u64);

/// Work that the keeper does to its end.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the keeper looks after when its time has come.
pub(crate) trait Scheduled: Send + Sync {
    /// The work that is due, if any is.
    fn due(self: Arc<Self>) -> Option<Work>;
}

#[derive(Default)]
struct Desk {
    book: BTreeMap<Slot, Entry>,
    entries: u64,
    inbox: Vec<Work>,
    /// When the task wakes up by itself, at the latest.
    alarm: Option<Instant>,
    waker: Option<Waker>,
}

/// What is to be looked after when its time has come.
enum Entry {
    Work(Arc<dyn Scheduled>),
    /// A task that waits for something else, and no longer.
    Task(Waker),
}

impl Keeper {
    /// The keeper of the runtime that this runs on; `None` outside of one.
    pub(crate) fn current() -> Option<Arc<Self>> {
        thread_local! {
            static LATEST: RefCell<Option<(Id, Arc<Keeper>)>> = const { RefCell::new(None) };
        }
        let runtime = Handle::try_current().ok()?;
        LATEST.with_borrow_mut(|latest| match latest {
            // An id may be used again after its runtime has ended.
            Some((id, keeper)) if *id == runtime.id() && !keeper.gone() => Some(Arc::clone(keeper)),
            _ => {
                let keeper = Self::of(&runtime);
                *latest = Some((runtime.id(), Arc::clone(&keeper)));
                // A runtime that is shutting down drops its new task at once.
                (!keeper.gone()).then_some(keeper)
            }
        })
    }

    fn of(runtime: &Handle) -> Arc<Self> {
        static KEEPERS: LazyLock<Mutex<HashMap<Id, Arc<Keeper>>>> = LazyLock::new(Mutex::default);

        let mut keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.retain(|_, keeper| !keeper.gone());
        let keeper = keepers.entry(runtime.id()).or_insert_with(|| {
            let keeper = Arc::new(Self {
                desk: Mutex::default(),
                gone: AtomicBool::new(false),
            });
            runtime.spawn(Round {
                keeper: Arc::clone(&keeper),
                under_way: FuturesUnordered::new(),
                alarm: None,
            });
            keeper
        });
        Arc::clone(keeper)
    }

    /// Looks after `scheduled` at `due`.
    pub(crate) fn remember(&self, due: Instant, scheduled: Arc<dyn Scheduled>) -> Slot {
        self.enter(due, Entry::Work(scheduled))
    }

    /// Wakes `task` at `due`.
    pub(crate) fn wake(&self, due: Instant, task: Waker) -> Slot {
        self.enter(due, Entry::Task(task))
    }

    fn enter(&self, due: Instant, entry: Entry) -> Slot {
        let mut desk = self.desk();
        let slot = (due, desk.entries);
        desk.entries += 1;
        if !self.gone() {
            desk.book.insert(slot, entry);
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
        let entry = self.desk().book.remove(&slot);
        drop(entry);
    }

    /// Runs `work` to its end.
    pub(crate) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut desk = self.desk();
        if !self.gone() {
            // A store is somebody else's code: its panic must not end the keeper of all claims.
            let work = AssertUnwindSafe(work).catch_unwind().map(drop);
            desk.inbox.push(Box::pin(work));
            desk.call();
        }
    }

    pub(crate) fn gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn call(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<Entry> {
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

            for entry in due {
                match entry {
                    Entry::Task(task) => task.wake(),
                    Entry::Work(scheduled) => self.under_way.extend(scheduled.due()),
                }
            }
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
        self.keeper.gone.store(true, Ordering::Release);
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
