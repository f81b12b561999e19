//! One task per tokio runtime that renews leases, settles calls in the background, and wakes attempts that time out.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::{Handle, Id};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep};

use crate::protocol::timeouts::{Timeout, TimeoutShard};

/// The timers and background jobs of one runtime. Its task is the [`TimerDriver`].
pub(crate) struct Scheduler {
    queue: Mutex<WorkQueue>,
    /// The timeouts of attempts. Each thread uses one shard.
    shards: [Arc<TimeoutShard>; SHARDS],
    threads: AtomicUsize,
    alarm: Alarm,
    is_shut_down: AtomicBool,
}

const SHARDS: usize = 8;

/// The scheduler that a thread used last, and the thread's shard.
struct Latest {
    runtime: Id,
    scheduler: Arc<Scheduler>,
    shard: Arc<TimeoutShard>,
}

/// The latest instant at which the driver wakes up by itself.
struct Alarm {
    epoch: Instant,
    /// Since the epoch. [`NEVER`] if the driver does not wake up by itself, or is just about to set the alarm.
    nanos: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Alarm {
    fn set(&self, at: Option<Instant>) {
        let nanos = at.map_or(NEVER, |at| self.nanos(at));
        self.nanos.store(nanos, Ordering::SeqCst);
    }

    fn is_after(&self, due: Instant) -> bool {
        self.nanos(due) < self.nanos.load(Ordering::SeqCst)
    }

    fn nanos(&self, at: Instant) -> u64 {
        let nanos = at.duration_since(self.epoch).as_nanos();
        u64::try_from(nanos).unwrap_or(NEVER - 1)
    }
}

/// Names one timer: when it is due, and its number.
pub(crate) type TimerId = (Instant, u64);

/// A background job, which the driver polls to its end.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The work that a timer starts when it is due.
pub(crate) trait Scheduled: Send + Sync {
    /// The work that is due, if any.
    fn due_work(self: Arc<Self>) -> Option<Work>;
}

#[derive(Default)]
struct WorkQueue {
    timers: BTreeMap<TimerId, Arc<dyn Scheduled>>,
    next_id: u64,
    jobs: Vec<Work>,
    /// Wakes the driver, unless it was woken since its last look at the queue.
    driver_waker: Option<Waker>,
}

impl Scheduler {
    /// The scheduler of the current runtime; `None` outside of a runtime.
    pub(crate) fn current() -> Option<Arc<Self>> {
        Self::with_current(|latest| Arc::clone(&latest.scheduler))
    }

    /// Makes the current runtime wake `task` after `limit`. `None` outside of a runtime.
    pub(crate) fn set_timeout(limit: Duration, task: &Waker) -> Option<Timeout> {
        let task = task.clone();
        Self::with_current(|latest| {
            let due = Instant::now() + limit;
            let (timeout, is_first) = latest.shard.set(due, task);
            // After the timeout is set: the driver clears the alarm before it reads the shards.
            if is_first && latest.scheduler.alarm.is_after(due) {
                let mut queue = latest.scheduler.queue();
                queue.advance_alarm(&latest.scheduler.alarm, due);
            }
            timeout
        })
    }

    fn with_current<R>(with: impl FnOnce(&Latest) -> R) -> Option<R> {
        thread_local! {
            static LATEST: RefCell<Option<Latest>> = const { RefCell::new(None) };
        }
        let runtime = Handle::try_current().ok()?;
        LATEST.with_borrow_mut(|latest| {
            // tokio may reuse an id after its runtime has ended.
            let is_current = |known: &&mut Latest| {
                known.runtime == runtime.id() && !known.scheduler.is_shut_down()
            };
            let latest = match latest.as_mut().filter(is_current) {
                Some(latest) => latest,
                None => latest.insert(Self::for_runtime(&runtime).for_thread(runtime.id())),
            };
            // A runtime that is shutting down drops its new task at once.
            (!latest.scheduler.is_shut_down()).then(|| with(latest))
        })
    }

    fn for_thread(self: Arc<Self>, runtime: Id) -> Latest {
        let thread = self.threads.fetch_add(1, Ordering::Relaxed);
        Latest {
            runtime,
            shard: Arc::clone(&self.shards[thread % SHARDS]),
            scheduler: self,
        }
    }

    fn for_runtime(runtime: &Handle) -> Arc<Self> {
        static SCHEDULERS: LazyLock<Mutex<HashMap<Id, Arc<Scheduler>>>> =
            LazyLock::new(Mutex::default);

        let mut schedulers = SCHEDULERS.lock().unwrap_or_else(PoisonError::into_inner);
        schedulers.retain(|_, scheduler| !scheduler.is_shut_down());
        let scheduler = schedulers.entry(runtime.id()).or_insert_with(|| {
            let scheduler = Arc::new(Self {
                queue: Mutex::default(),
                shards: Default::default(),
                threads: AtomicUsize::new(0),
                alarm: Alarm {
                    epoch: Instant::now(),
                    nanos: AtomicU64::new(NEVER),
                },
                is_shut_down: AtomicBool::new(false),
            });
            // Without the budget of a task: when it is used up, each poll of another job is wasted.
            runtime.spawn(unconstrained(TimerDriver {
                scheduler: Arc::clone(&scheduler),
                running: FuturesUnordered::new(),
                alarm: None,
            }));
            scheduler
        });
        Arc::clone(scheduler)
    }

    /// Starts the work of `scheduled` at `due`.
    pub(crate) fn schedule(&self, due: Instant, scheduled: Arc<dyn Scheduled>) -> TimerId {
        let mut queue = self.queue();
        let id = (due, queue.next_id);
        queue.next_id += 1;
        if !self.is_shut_down() {
            queue.timers.insert(id, scheduled);
            queue.advance_alarm(&self.alarm, due);
        }
        id
    }

    /// Cancels a timer.
    pub(crate) fn cancel(&self, timer: TimerId) {
        let timer = self.queue().timers.remove(&timer);
        drop(timer);
    }

    /// Queues `work`. The driver runs it to its end. If the runtime has dropped the driver, drops `work`.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut queue = self.queue();
        if !self.is_shut_down() {
            // A store may be the user's code. Its panic must not end the driver, because the driver renews all leases.
            let work = AssertUnwindSafe(work).catch_unwind().map(drop);
            queue.jobs.push(Box::pin(work));
            queue.wake_driver();
        }
    }

    /// Whether the runtime has dropped the driver. If so, no timer fires and no job runs any more.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkQueue {
    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver_waker.take() {
            driver.wake();
        }
    }

    /// Wakes the driver if its alarm is after `due`.
    ///
    /// Only an earlier alarm wakes the driver. After a cancelled timer the driver may wake too early. This costs less than to
    /// wake it for each call.
    fn advance_alarm(&mut self, alarm: &Alarm, due: Instant) {
        if alarm.is_after(due) {
            alarm.set(Some(due));
            self.wake_driver();
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<Arc<dyn Scheduled>> {
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

/// The scheduler's task. Jobs run concurrently, so that a job that hangs does not delay another job.
struct TimerDriver {
    scheduler: Arc<Scheduler>,
    running: FuturesUnordered<Work>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Future for TimerDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.scheduler.queue();
        queue.driver_waker = Some(cx.waker().clone());
        let due = queue.take_due(Instant::now());
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);

        let works = due.into_iter().filter_map(Scheduled::due_work);
        self.running.extend(works);
        self.running.extend(jobs);
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}

        if self.poll_queue(cx).is_ready() {
            // Not at once: other threads may add jobs without end, and the other tasks of this thread must run, too.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl TimerDriver {
    /// Wakes overdue attempts, and sets the alarm for the next timer. Ready if the queue has changed meanwhile, or a timer is
    /// due.
    fn poll_queue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let scheduler = &self.scheduler;
        let queue = scheduler.queue();
        // A timeout that is set after its shard was read waits for the lock of the queue, and then compares the new alarm.
        scheduler.alarm.set(None);
        let now = Instant::now();
        let mut overdue = Vec::new();
        let shards = scheduler.shards.iter();
        let timeouts = shards.filter_map(|shard| shard.take_due(now, &mut overdue));
        let timer = queue.timers.first_key_value().map(|(timer, _)| timer.0);
        let next = timeouts
            .chain(timer)
            .min()
            .map(|next| next.min(now + LONGEST_SLEEP));
        scheduler.alarm.set(next);
        let was_woken = queue.driver_waker.is_none();
        drop(queue);
        overdue.into_iter().for_each(Waker::wake);
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

impl Drop for TimerDriver {
    fn drop(&mut self) {
        let mut queue = self.scheduler.queue();
        self.scheduler.is_shut_down.store(true, Ordering::Release);
        let undone = (
            std::mem::take(&mut queue.timers),
            std::mem::take(&mut queue.jobs),
        );
        drop(queue);
        self.scheduler.shards.iter().for_each(|shard| shard.close());
        // Outside of the lock, because dropping a job may lock the queue.
        drop(undone);
    }
}

/// tokio cannot set a timer as far ahead as the longest ttl.
const LONGEST_SLEEP: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn a_job_that_is_ready_is_polled_once_however_many_are_ready() {
        const JOBS: usize = 1000;
        let polls = Arc::new(AtomicUsize::new(0));
        let scheduler = Scheduler::current().unwrap();
        for _ in 0..JOBS {
            let (sender, mut ready) = oneshot::channel();
            sender.send(()).unwrap();
            let polls = Arc::clone(&polls);
            scheduler.spawn(poll_fn(move |cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                Pin::new(&mut ready).poll(cx).map(drop)
            }));
        }
        for _ in 0..JOBS {
            yield_now().await;
        }
        assert_eq!(polls.load(Ordering::Relaxed), JOBS);
    }
}
