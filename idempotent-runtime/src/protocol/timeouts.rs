//! The limits of attempts: wakes the task of an attempt that has reached its limit.
//!
//! Almost every attempt is answered before its limit, so setting and cancelling a timeout is cheap: the timeout is the last
//! entry of a queue, and few threads share a lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::time::Instant;

/// The timeouts that some threads of a runtime have set.
#[derive(Default)]
pub(crate) struct TimeoutShard {
    timeouts: Mutex<Timeouts>,
}

/// A timeout. Dropping it cancels the timeout.
pub(crate) struct Timeout {
    shard: Arc<TimeoutShard>,
    id: TimeoutId,
}

/// When a timeout is due, and its number.
type TimeoutId = (Instant, u64);

impl TimeoutShard {
    /// Wakes `task` at `due`. Returns `false` if an earlier timeout is in the same queue. Then the alarm of the driver is early
    /// enough.
    pub(crate) fn set(self: &Arc<Self>, due: Instant, task: Waker) -> (Timeout, bool) {
        let (id, is_first) = self.timeouts().insert(due, task);
        let shard = Arc::clone(self);
        (Timeout { shard, id }, is_first)
    }

    /// Moves the tasks that are due to `overdue`. Returns when the next task is due.
    pub(crate) fn take_due(&self, now: Instant, overdue: &mut Vec<Waker>) -> Option<Instant> {
        self.timeouts().take_due(now, overdue)
    }

    /// Drops all timeouts, also those that are set later.
    pub(crate) fn close(&self) {
        let mut timeouts = self.timeouts();
        let dropped = std::mem::take(&mut *timeouts);
        timeouts.is_closed = true;
        drop(timeouts);
        // Outside of the lock, because dropping a waker may drop a task and its timeouts.
        drop(dropped);
    }

    fn timeouts(&self) -> MutexGuard<'_, Timeouts> {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timeout {
    pub(crate) fn is_due(&self) -> bool {
        self.id.0 <= Instant::now()
    }

    /// Wakes `task` instead of the earlier task. Returns `false` if the timeout does not wait: it has become due and has woken the
    /// earlier task, or its runtime has ended.
    #[must_use]
    pub(crate) fn set_task(&self, task: &Waker) -> bool {
        let mut timeouts = self.shard.timeouts();
        let (waits, earlier) = match timeouts.find(self.id) {
            Some(known) if known.will_wake(task) => (true, None),
            Some(known) => (true, Some(std::mem::replace(known, task.clone()))),
            None => (false, None),
        };
        drop(timeouts);
        // Outside of the lock, because dropping a waker may drop a task and its timeouts.
        drop(earlier);
        waits
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        let task = self.shard.timeouts().remove(self.id);
        drop(task);
    }
}

#[derive(Default)]
struct Timeouts {
    /// Most attempts have one of a few limits. So a new timeout is due after the last timeout of a queue, and belongs to its
    /// end.
    queues: [TimerQueue; QUEUES],
    /// The timeouts that do not fit into a queue.
    others: BTreeMap<TimeoutId, Waker>,
    next_number: u64,
    is_closed: bool,
}

const QUEUES: usize = 3;

impl Timeouts {
    fn insert(&mut self, due: Instant, task: Waker) -> (TimeoutId, bool) {
        let id = (due, self.next_number);
        self.next_number += 1;
        if self.is_closed {
            return (id, false);
        }
        let mut queues = self.queues.iter_mut();
        let Some(queue) = queues.find(|queue| queue.may_append(due)) else {
            self.others.insert(id, task);
            return (id, true);
        };
        let is_first = queue.entries.is_empty();
        queue.entries.push_back((id, Some(task)));
        (id, is_first)
    }

    fn find(&mut self, id: TimeoutId) -> Option<&mut Waker> {
        let found = self.queues.iter_mut().find_map(|queue| queue.find(id));
        found.or_else(|| self.others.get_mut(&id))
    }

    fn remove(&mut self, id: TimeoutId) -> Option<Waker> {
        let removed = self.queues.iter_mut().find_map(|queue| queue.remove(id));
        removed.or_else(|| self.others.remove(&id))
    }

    fn take_due(&mut self, now: Instant, overdue: &mut Vec<Waker>) -> Option<Instant> {
        for queue in &mut self.queues {
            queue.take_due(now, overdue);
        }
        while let Some(first) = self
            .others
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            overdue.push(first.remove());
        }
        let others = self.others.first_key_value().map(|(id, _)| id.0);
        let queues = self.queues.iter().filter_map(TimerQueue::next_due);
        queues.chain(others).min()
    }
}

/// Timeouts in the order in which they are due. The first timeout is not cancelled.
#[derive(Default)]
struct TimerQueue {
    /// `None` for the task of a cancelled timeout.
    entries: VecDeque<(TimeoutId, Option<Waker>)>,
    cancelled: usize,
}

/// A queue of fewer entries may have any share of cancelled timeouts, and any capacity.
const SMALL: usize = 256;

impl TimerQueue {
    fn may_append(&self, due: Instant) -> bool {
        self.entries.back().is_none_or(|(last, _)| last.0 <= due)
    }

    fn position(&self, id: TimeoutId) -> Option<usize> {
        let number = |entry: &(TimeoutId, _)| entry.0.1;
        let first = number(self.entries.front()?);
        // The place of the timeout if all timeouts since the first are in this queue.
        let guess = usize::try_from(id.1.checked_sub(first)?).ok()?;
        match self.entries.get(guess) {
            Some(entry) if number(entry) == id.1 => Some(guess),
            _ => self.entries.binary_search_by_key(&id.1, number).ok(),
        }
    }

    fn find(&mut self, id: TimeoutId) -> Option<&mut Waker> {
        let at = self.position(id)?;
        self.entries[at].1.as_mut()
    }

    fn remove(&mut self, id: TimeoutId) -> Option<Waker> {
        let at = self.position(id)?;
        let task = self.entries[at].1.take();
        self.cancelled += 1;
        self.pop_cancelled();
        // One slow attempt must not keep the entries of all later attempts.
        if self.cancelled > SMALL && self.cancelled > self.entries.len() / 2 {
            self.entries.retain(|(_, task)| task.is_some());
            self.cancelled = 0;
        }
        task
    }

    fn pop_cancelled(&mut self) {
        while let Some((_, None)) = self.entries.front() {
            self.entries.pop_front();
            self.cancelled -= 1;
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.entries.front().map(|(id, _)| id.0)
    }

    fn take_due(&mut self, now: Instant, overdue: &mut Vec<Waker>) {
        while self.next_due().is_some_and(|due| due <= now) {
            overdue.extend(self.entries.pop_front().and_then(|(_, task)| task));
            self.pop_cancelled();
        }
        if self.entries.capacity() > SMALL.max(4 * self.entries.len()) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Wakes the tasks that are due.
    fn wake_due(shard: &TimeoutShard, now: Instant) -> Option<Instant> {
        let mut overdue = Vec::new();
        let next = shard.take_due(now, &mut overdue);
        overdue.into_iter().for_each(Waker::wake);
        next
    }

    #[test]
    fn each_timeout_is_due_at_its_own_instant() {
        let shard = Arc::new(TimeoutShard::default());
        let start = Instant::now();
        // Falling limits do not fit into a queue.
        let limits: Vec<u64> = (1..=9).rev().chain([5, 3, 7]).collect();
        let set = |limit: &u64| {
            let counts = Arc::new(Counts::default());
            let due = start + secs(*limit);
            let timeout = shard.set(due, Arc::clone(&counts).into()).0;
            (*limit, timeout, counts)
        };
        let mut timeouts: Vec<_> = limits.iter().map(set).collect();
        // Cancelled timeouts wake no task: the first and the last of a queue, and of the others.
        for cancelled in [11, 9, 8, 2, 0] {
            let (_, timeout, counts) = timeouts.remove(cancelled);
            drop(timeout);
            assert_eq!(Arc::strong_count(&counts), 1, "the waker is dropped");
        }
        for now in 0..=10 {
            let next = wake_due(&shard, start + secs(now));
            let later = timeouts
                .iter()
                .map(|timeout| timeout.0)
                .filter(|limit| *limit > now);
            assert_eq!(next, later.min().map(|limit| start + secs(limit)));
            for (limit, _, counts) in &timeouts {
                let expected = usize::from(*limit <= now);
                assert_eq!(
                    counts.0.load(Ordering::Relaxed),
                    expected,
                    "{limit} at {now}"
                );
            }
        }
    }

    #[test]
    fn a_timeout_wakes_the_task_that_polled_last() {
        let shard = Arc::new(TimeoutShard::default());
        let [first, second] = [(); 2].map(|()| Arc::new(Counts::default()));
        let due = Instant::now();
        let timeout = shard.set(due, Arc::clone(&first).into()).0;
        assert!(timeout.set_task(&Arc::clone(&second).into()));
        assert_eq!(Arc::strong_count(&first), 1, "the waker is dropped");
        wake_due(&shard, due);
        let counts = [first, second].map(|counts| counts.0.load(Ordering::Relaxed));
        assert_eq!(counts, [0, 1]);
        assert!(!timeout.set_task(Waker::noop()), "it is due");
    }

    #[test]
    fn cancelled_timeouts_behind_a_slow_attempt_take_no_memory() {
        let shard = Arc::new(TimeoutShard::default());
        let start = Instant::now();
        let entries = || {
            let timeouts = shard.timeouts();
            let entries = timeouts.queues.iter().map(|queue| queue.entries.len());
            entries.sum::<usize>() + timeouts.others.len()
        };
        let slow = shard.set(start, Waker::noop().clone()).0;
        let mut kept = VecDeque::new();
        for number in 0..100_000 {
            kept.push_back(shard.set(start + secs(number), Waker::noop().clone()).0);
            if kept.len() > 64 {
                // In no particular order.
                kept.swap_remove_back(usize::try_from(number).expect("small") % 64);
            }
            assert!(entries() <= 3 * SMALL, "{} after {number}", entries());
        }
        drop((slow, kept));
        assert_eq!(entries(), 0);
    }

    #[test]
    fn a_closed_shard_has_no_timeouts() {
        let shard = Arc::new(TimeoutShard::default());
        let counts = Arc::new(Counts::default());
        let now = Instant::now();
        let earlier = shard.set(now, Arc::clone(&counts).into()).0;
        shard.close();
        let later = shard.set(now, Arc::clone(&counts).into()).0;
        assert_eq!(Arc::strong_count(&counts), 1, "the wakers are dropped");
        assert_eq!(wake_due(&shard, now), None);
        assert!(!earlier.set_task(Waker::noop()), "it wakes no task");
        drop((earlier, later));
    }
}
