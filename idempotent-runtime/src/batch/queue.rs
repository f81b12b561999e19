//! The operations that wait to be sent, and what goes into the next batch.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::HashSet;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::transport::Operation;
use crate::mutation::mutation;
use crate::policy::deadline::{self, first_try};
use crate::store::StoreError;

/// When operations wait for each other, and how many.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most operations that callers send themselves at a time.
    pub inline: usize,
    /// The most batches without an answer, without large batches and without overdue batches.
    pub in_flight: usize,
    /// The most batches without an answer, with overdue batches: a server that does not answer must not gather more and more.
    pub tasks: usize,
    /// No batch leaves while batches with so many bytes have no answer. Overdue batches do not count.
    pub bytes_in_flight: usize,
    /// The most operations of a batch.
    pub operations: usize,
    /// A batch has at most this part of all operations without an answer, so that the server works on one batch while the callers
    /// of another batch continue.
    pub parts: usize,
    /// A batch may have so many operations even if this is a larger part: more requests would cost more than callers wait.
    pub whole: usize,
    /// The most bytes of a batch, unless one operation is larger.
    pub bytes: usize,
    /// The most operations that wait.
    pub waiting: usize,
    /// The most bytes that wait, unless one operation is larger.
    pub waiting_bytes: usize,
}

impl Limits {
    /// The limits of a server that answers within a few milliseconds.
    pub const DEFAULT: Self = Self {
        inline: 16,
        in_flight: 8,
        tasks: 64,
        // Enough for a gigabit a second over 30 ms.
        bytes_in_flight: 4 * 1024 * 1024,
        operations: 512,
        parts: 4,
        whole: 16,
        bytes: 256 * 1024,
        waiting: 64 * 1024,
        waiting_bytes: 128 * 1024 * 1024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A batch without an answer for this long is overdue. A caller with the default deadline gives up its first try after this time.
/// Callers with a longer deadline wait longer, and must not hold up the others.
pub(super) fn overdue_after() -> Duration {
    first_try(deadline::DEFAULT)
}

/// A batch without an answer is overdue after this time already if a caller has stopped waiting.
pub(super) const SUSPECT_AFTER: Duration = Duration::from_millis(100);

/// A batch without an answer.
#[derive(Debug)]
pub(super) struct InFlightBatch {
    pub(super) sent_at: Instant,
    operations: usize,
    bytes: usize,
    is_large: bool,
    /// The batch does not count any more.
    pub(super) is_overdue: bool,
}

/// Where an operation's caller gets its answer.
pub(super) type Slot<R> = oneshot::Sender<Result<R, StoreError>>;

/// An operation that waits to be sent.
pub(super) struct Waiting<O, R> {
    pub(super) operation: O,
    pub(super) slot: Slot<R>,
}

/// The waiting operations of one runtime, and its tasks that send them.
pub(super) struct BatchQueue<O, R> {
    waiting: VecDeque<Waiting<O, R>>,
    bytes: usize,
    /// How many callers had stopped waiting when the queue last dropped their operations.
    cancelled: usize,
    /// The tasks that have not ended.
    pub(super) tasks: usize,
    /// The tasks whose batches are overdue.
    overdue: usize,
    /// The tasks with large batches, which count by their bytes: a longer wait would not gather a larger batch.
    large: usize,
    /// The operations and bytes of the batches without an answer that are not overdue.
    operations_in_flight: usize,
    bytes_in_flight: usize,
    /// The tasks that will take the queue next.
    next_flushers: usize,
    /// When the last of these began to wait for its turn.
    next_since: Option<Instant>,
}

#[cfg(any(test, feature = "shuttle"))]
impl<O, R> BatchQueue<O, R> {
    /// Whether the caller of an operation still waits.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.slot.is_closed())
    }
}

impl<O: Operation, R> BatchQueue<O, R> {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            cancelled: 0,
            tasks: 0,
            overdue: 0,
            large: 0,
            operations_in_flight: 0,
            bytes_in_flight: 0,
            next_flushers: 0,
            next_since: None,
        }
    }

    /// Adds an operation to the end. Returns `false` if the queue is full. `cancelled` counts all callers that have stopped
    /// waiting.
    pub(super) fn push(
        &mut self,
        operation: O,
        slot: Slot<R>,
        limits: &Limits,
        cancelled: usize,
    ) -> bool {
        let size = operation.size();
        let is_full = |queue: &Self| {
            let is_over = queue.bytes + size > limits.waiting_bytes;
            queue.waiting.len() >= limits.waiting || is_over && !queue.waiting.is_empty()
        };
        if is_full(self) && !mutation!(Unbounded) {
            // Each look at the whole queue follows enough drops to pay for it, because an overloaded process refuses many
            // operations.
            let since = cancelled.wrapping_sub(self.cancelled);
            if since <= self.waiting.len() / 16 && !mutation!(LooksAtAllAgain) {
                return false;
            }
            self.cancelled = cancelled;
            self.drop_unwanted();
            if is_full(self) {
                return false;
            }
        }
        self.bytes += size;
        self.waiting.push_back(Waiting { operation, slot });
        true
    }

    /// Puts operations before all others, in their order.
    pub(super) fn push_again(&mut self, again: Vec<Waiting<O, R>>) {
        for waiting in again.into_iter().rev() {
            self.bytes += waiting.operation.size();
            self.waiting.push_front(waiting);
        }
    }

    fn drop_unwanted(&mut self) {
        self.waiting.retain(|waiting| !waiting.slot.is_closed());
        let sizes = self.waiting.iter().map(|waiting| waiting.operation.size());
        self.bytes = sizes.sum();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a task will soon take the queue.
    pub(super) fn has_next_flusher(&self, now: Instant) -> bool {
        let since = self.next_since.filter(|_| self.next_flushers > 0);
        since.is_some_and(|since| now.saturating_duration_since(since) < STALL)
    }

    /// Whether a new operation needs another task. If not, a task takes the operation with its next batch.
    pub(super) fn needs_task(&self, limits: &Limits) -> bool {
        if self.tasks == 0 {
            return true;
        }
        if self.is_at_limit(self.tasks, limits) {
            return false;
        }
        let has_next = self.next_flushers > 0 && self.has_next_flusher(Instant::now());
        !has_next && !mutation!(OneBatchAtATime)
    }

    /// Whether so many batches have no answer that later operations wait, if there are `tasks` tasks.
    pub(super) fn is_at_limit(&self, tasks: usize, limits: &Limits) -> bool {
        let large = if mutation!(CountsLarge) {
            0
        } else {
            self.large
        };
        let has_many_bytes =
            self.bytes_in_flight >= limits.bytes_in_flight && !mutation!(IgnoresBytesInFlight);
        has_many_bytes
            || tasks.saturating_sub(self.overdue + large) >= limits.in_flight
            || tasks >= limits.tasks && !mutation!(GathersOverdue)
    }

    /// When this batch is overdue, so that it makes room for another batch. `None` if a timer is not worth it.
    pub(super) fn overdue_at(&self, batch: &InFlightBatch, limits: &Limits) -> Option<Instant> {
        // A single batch in flight holds up nobody, even if it never has an answer.
        let is_harmless = self.tasks == 1 && !self.is_at_limit(1, limits);
        (!is_harmless).then(|| batch.sent_at + overdue_after())
    }

    /// A batch does not count any more.
    pub(super) fn mark_overdue(&mut self, batch: &mut InFlightBatch) {
        if !batch.is_overdue && !mutation!(CountsOverdue) {
            batch.is_overdue = true;
            self.overdue += 1;
            self.uncount(batch);
        }
    }

    /// A batch is over.
    pub(super) fn complete(&mut self, batch: &InFlightBatch) {
        if batch.is_overdue {
            self.overdue -= 1;
        } else {
            self.uncount(batch);
        }
    }

    fn uncount(&mut self, batch: &InFlightBatch) {
        self.large -= usize::from(batch.is_large);
        self.operations_in_flight -= batch.operations;
        self.bytes_in_flight -= batch.bytes;
    }

    /// Counts a new task, which will take the queue.
    pub(super) fn add_task(&mut self) {
        self.tasks += 1;
        self.add_next_flusher(Instant::now());
    }

    pub(super) fn add_next_flusher(&mut self, now: Instant) {
        self.next_flushers += 1;
        self.next_since = Some(now);
    }

    pub(super) fn remove_next_flusher(&mut self) {
        self.next_flushers -= 1;
        // The others may have begun long ago.
        self.next_since = None;
    }

    /// Moves the next batch to `operations` and `slots`, and notes that it leaves now. `digests` is empty before and after.
    /// Returns nothing if nothing is to be sent.
    ///
    /// Operations without a caller are dropped. An operation whose key is in the batch already stays in the queue.
    pub(super) fn take(
        &mut self,
        limits: &Limits,
        digests: &mut HashSet<u64>,
        operations: &mut Vec<O>,
        slots: &mut Vec<Slot<R>>,
    ) -> Option<InFlightBatch> {
        let most = self.most_of_batch(limits);
        let expected = self.waiting.len().min(most);
        operations.reserve(expected);
        slots.reserve(expected);
        let mut bytes = 0;
        let mut deferred = Vec::new();
        while let Some(waiting) = self.waiting.pop_front() {
            let size = waiting.operation.size();
            let is_over = bytes + size > limits.bytes && !operations.is_empty();
            if is_over || operations.len() >= most {
                self.waiting.push_front(waiting);
                break;
            }
            self.bytes -= size;
            if waiting.slot.is_closed() && !mutation!(SendsDropped) {
                continue;
            }
            let digest = waiting.operation.digest();
            if digest.is_some_and(|digest| !digests.insert(digest)) && !mutation!(RepeatsKeys) {
                deferred.push(waiting);
                continue;
            }
            bytes += size;
            operations.push(waiting.operation);
            slots.push(waiting.slot);
        }
        digests.clear();
        if mutation!(Reorders) {
            for waiting in deferred {
                self.bytes += waiting.operation.size();
                self.waiting.push_back(waiting);
            }
        } else {
            self.push_again(deferred);
        }
        if operations.is_empty() {
            return None;
        }
        let sent_at = Instant::now();
        let is_large = bytes > limits.bytes / 2;
        self.large += usize::from(is_large);
        self.operations_in_flight += operations.len();
        self.bytes_in_flight += bytes;
        Some(InFlightBatch {
            sent_at,
            operations: operations.len(),
            bytes,
            is_large,
            is_overdue: false,
        })
    }

    /// The most operations of the next batch.
    fn most_of_batch(&self, limits: &Limits) -> usize {
        let all = self.waiting.len() + self.operations_in_flight;
        let part = if mutation!(SendsAllAtOnce) {
            all
        } else {
            all.div_ceil(limits.parts)
        };
        part.max(limits.whole).min(limits.operations)
    }

    /// Takes all operations, which no task will send.
    pub(super) fn take_all(&mut self) -> VecDeque<Waiting<O, R>> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }
}

/// A task that was to take the queue and has not begun for this long does not run: something blocks its thread. Then another
/// task takes the queue.
const STALL: Duration = Duration::from_millis(1);
