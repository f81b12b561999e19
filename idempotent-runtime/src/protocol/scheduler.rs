//! One task per tokio runtime that renews leases, settles calls in the background, and wakes attempts that time out.

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

/// The timers and background jobs of one runtime. Its task is the [`Driver`].
pub(crate) struct Scheduler {
    queue: Mutex<Queue>,
    is_shut_down: AtomicBool,
}

/// Names one timer: when it is due, and its number.
pub(crate) type TimerId = (Instant, u64);

/// A background job, which the driver polls to its end.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a timer starts when it is due.
pub(crate) trait Scheduled: Send + Sync {
    /// The work that is due, if any.
    fn due_work(self: Arc<Self>) -> Option<Work>;
}

#[derive(Default)]
struct Queue {
    timers: BTreeMap<TimerId, Timer>,
    next_id: u64,
    jobs: Vec<Work>,
    /// When the driver wakes up by itself, at the latest.
    alarm: Option<Instant>,
    /// Wakes the driver, unless it was woken since its last look at the queue.
    driver_waker: Option<Waker>,
}

/// What happens when a timer is due.
enum Timer {
    Start(Arc<dyn Scheduled>),
    /// Wakes the task of an attempt that has reached its limit.
    Wake(Waker),
}

impl Scheduler {
    /// The scheduler of the current runtime; `None` outside of a runtime.
    pub(crate) fn current() -> Option<Arc<Self>> {
        thread_local! {
            static LATEST: RefCell<Option<(Id, Arc<Scheduler>)>> = const { RefCell::new(None) };
        }
        let runtime = Handle::try_current().ok()?;
        LATEST.with_borrow_mut(|latest| match latest {
            // tokio may reuse an id after its runtime has ended.
            Some((id, scheduler)) if *id == runtime.id() && !scheduler.is_shut_down() => {
                Some(Arc::clone(scheduler))
            }
            _ => {
                let scheduler = Self::for_runtime(&runtime);
                *latest = Some((runtime.id(), Arc::clone(&scheduler)));
                // A runtime that is shutting down drops its new task at once.
                (!scheduler.is_shut_down()).then_some(scheduler)
            }
        })
    }

    fn for_runtime(runtime: &Handle) -> Arc<Self> {
        static SCHEDULERS: LazyLock<Mutex<HashMap<Id, Arc<Scheduler>>>> =
            LazyLock::new(Mutex::default);

        let mut schedulers = SCHEDULERS.lock().unwrap_or_else(PoisonError::into_inner);
        schedulers.retain(|_, scheduler| !scheduler.is_shut_down());
        let scheduler = schedulers.entry(runtime.id()).or_insert_with(|| {
            let scheduler = Arc::new(Self {
                queue: Mutex::default(),
                is_shut_down: AtomicBool::new(false),
            });
            runtime.spawn(Driver {
                scheduler: Arc::clone(&scheduler),
                running: FuturesUnordered::new(),
                alarm: None,
            });
            scheduler
        });
        Arc::clone(scheduler)
    }

    /// Starts the work of `scheduled` at `due`.
    pub(crate) fn schedule(&self, due: Instant, scheduled: Arc<dyn Scheduled>) -> TimerId {
        self.insert(due, Timer::Start(scheduled))
    }

    /// Wakes `task` at `due`.
    pub(crate) fn schedule_wake(&self, due: Instant, task: Waker) -> TimerId {
        self.insert(due, Timer::Wake(task))
    }

    fn insert(&self, due: Instant, timer: Timer) -> TimerId {
        let mut queue = self.queue();
        let id = (due, queue.next_id);
        queue.next_id += 1;
        if !self.is_shut_down() {
            queue.timers.insert(id, timer);
            // Only an earlier alarm wakes the driver. After a cancelled timer it may wake too early. That is cheaper than to wake it for
            // each call.
            if queue.alarm.is_none_or(|alarm| due < alarm) {
                queue.alarm = Some(due);
                queue.wake_driver();
            }
        }
        id
    }

    /// Cancels a timer.
    pub(crate) fn cancel(&self, timer: TimerId) {
        let timer = self.queue().timers.remove(&timer);
        drop(timer);
    }

    /// Queues `work`, which the driver runs to its end. Drops it if the runtime has dropped the driver.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut queue = self.queue();
        if !self.is_shut_down() {
            // The code of a store is foreign: its panic must not end the driver, which renews all leases.
            let work = AssertUnwindSafe(work).catch_unwind().map(drop);
            queue.jobs.push(Box::pin(work));
            queue.wake_driver();
        }
    }

    /// Whether the runtime has dropped the driver, so that no timer fires and no job runs any more.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver_waker.take() {
            driver.wake();
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<Timer> {
        let mut due = Vec::new();
        while let Some(first) = self
            .timers
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            due.push(first.remove());
        }
        due
    }
}

/// The scheduler's task. Jobs run concurrently, so that one that hangs does not delay another.
struct Driver {
    scheduler: Arc<Scheduler>,
    running: FuturesUnordered<Work>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut queue = self.scheduler.queue();
            queue.driver_waker = Some(cx.waker().clone());
            let due = queue.take_due(Instant::now());
            let jobs = std::mem::take(&mut queue.jobs);
            drop(queue);

            for timer in due {
                match timer {
                    Timer::Wake(task) => task.wake(),
                    Timer::Start(scheduled) => self.running.extend(scheduled.due_work()),
                }
            }
            self.running.extend(jobs);
            while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}

            if self.poll_queue(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Driver {
    /// Sets the alarm for the next timer. Ready if the queue has changed meanwhile, or a timer is due.
    fn poll_queue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.scheduler.queue();
        let longest = Instant::now() + LONGEST_SLEEP;
        let next = queue
            .timers
            .first_key_value()
            .map(|(timer, _)| timer.0.min(longest));
        queue.alarm = next;
        let was_woken = queue.driver_waker.is_none();
        drop(queue);
        match (next, &mut self.alarm) {
            (None, alarm) => *alarm = None,
            (Some(next), Some(alarm)) => alarm.as_mut().reset(next),
            (Some(next), alarm) => *alarm = Some(Box::pin(tokio::time::sleep_until(next))),
        }
        match &mut self.alarm {
            _ if was_woken => Poll::Ready(()),
            Some(alarm) => alarm.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut queue = self.scheduler.queue();
        self.scheduler.is_shut_down.store(true, Ordering::Release);
        let undone = (
            std::mem::take(&mut queue.timers),
            std::mem::take(&mut queue.jobs),
        );
        drop(queue);
        // Outside of the lock, because dropping a job may lock the queue.
        drop(undone);
    }
}

/// tokio cannot set a timer as far ahead as a ttl may reach.
const LONGEST_SLEEP: Duration = Duration::from_hours(24);
