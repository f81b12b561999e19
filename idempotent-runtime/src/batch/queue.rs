//! The operations that wait to be sent, and what goes into the next batch.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::HashSet;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::transport::Operation;
use crate::store::StoreError;

/// When operations wait for each other, and how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The most operations that callers send themselves at a time.
    pub(crate) inline: usize,
    /// The most batches without an answer.
    pub(crate) in_flight: usize,
    /// An operation that arrives within this time after a batch has left waits for the answer to this batch, or for the next
    /// operation after this time.
    pub(crate) gap: Duration,
    /// The most operations of a batch.
    pub(crate) operations: usize,
    /// The most bytes of a batch, unless one operation is larger.
    pub(crate) bytes: usize,
    /// The most operations that wait.
    pub(crate) waiting: usize,
    /// The most bytes that wait, unless one operation is larger.
    pub(crate) waiting_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inline: 2,
            in_flight: 8,
            gap: Duration::from_micros(200),
            operations: 512,
            bytes: 256 * 1024,
            waiting: 64 * 1024,
            waiting_bytes: 128 * 1024 * 1024,
        }
    }
}

/// Where an operation's caller gets its answer.
pub(super) type Slot<R> = oneshot::Sender<Result<R, StoreError>>;

/// An operation that waits to be sent.
pub(super) struct Waiting<O, R> {
    pub(super) operation: O,
    pub(super) slot: Slot<R>,
}

/// The waiting operations of one runtime, and its tasks that send them.
pub(super) struct Queue<O, R> {
    waiting: VecDeque<Waiting<O, R>>,
    bytes: usize,
    /// The tasks that have not ended.
    pub(super) tasks: usize,
    /// The tasks that will take the queue next.
    collectors: usize,
    /// When the last of these began to wait for its turn.
    collecting_since: Option<Instant>,
    /// When the last batch left.
    sent_at: Option<Instant>,
}

impl<O: Operation, R> Queue<O, R> {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            tasks: 0,
            collectors: 0,
            collecting_since: None,
            sent_at: None,
        }
    }

    /// Adds an operation to the end. Returns `false` if the queue is full.
    pub(super) fn push(&mut self, operation: O, slot: Slot<R>, limits: &Limits) -> bool {
        let size = operation.size();
        let is_full = |queue: &Self| {
            let is_over = queue.bytes + size > limits.waiting_bytes;
            queue.waiting.len() >= limits.waiting || is_over && !queue.waiting.is_empty()
        };
        if is_full(self) && !broken!(Unbounded) {
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
    pub(super) fn is_collected(&self, now: Instant) -> bool {
        let since = self.collecting_since.filter(|_| self.collectors > 0);
        since.is_some_and(|since| now.saturating_duration_since(since) < STALL)
    }

    /// Whether a new operation needs another task. If not, a task takes the operation with its next batch.
    pub(super) fn needs_task(&self, limits: &Limits) -> bool {
        if self.tasks == 0 {
            return true;
        }
        if self.tasks >= limits.in_flight {
            return false;
        }
        let now = Instant::now();
        if self.collectors > 0 {
            return !self.is_collected(now);
        }
        let since = self.sent_at.map(|at| now.saturating_duration_since(at));
        since.is_none_or(|since| since >= limits.gap) && !broken!(OneBatchAtATime)
    }

    /// Counts a new task, which will take the queue.
    pub(super) fn add_task(&mut self) {
        self.tasks += 1;
        self.start_collecting(Instant::now());
    }

    pub(super) fn start_collecting(&mut self, now: Instant) {
        self.collectors += 1;
        self.collecting_since = Some(now);
    }

    pub(super) fn stop_collecting(&mut self) {
        self.collectors -= 1;
        // The others may have begun long ago.
        self.collecting_since = None;
    }

    /// Moves the next batch to `operations` and `slots`, and notes that it leaves now. `digests` is empty before and after.
    ///
    /// Operations without a caller are dropped. An operation whose key is in the batch already stays in the queue.
    pub(super) fn take(
        &mut self,
        limits: &Limits,
        digests: &mut HashSet<u64>,
        operations: &mut Vec<O>,
        slots: &mut Vec<Slot<R>>,
    ) {
        let expected = self.waiting.len().min(limits.operations);
        operations.reserve(expected);
        slots.reserve(expected);
        let mut bytes = 0;
        let mut deferred = Vec::new();
        while let Some(waiting) = self.waiting.pop_front() {
            let size = waiting.operation.size();
            let is_over = bytes + size > limits.bytes && !operations.is_empty();
            if is_over || operations.len() >= limits.operations {
                self.waiting.push_front(waiting);
                break;
            }
            self.bytes -= size;
            if waiting.slot.is_closed() && !broken!(SendsDropped) {
                continue;
            }
            let digest = waiting.operation.digest();
            if digest.is_some_and(|digest| !digests.insert(digest)) && !broken!(RepeatsKeys) {
                deferred.push(waiting);
                continue;
            }
            bytes += size;
            operations.push(waiting.operation);
            slots.push(waiting.slot);
        }
        digests.clear();
        if !operations.is_empty() {
            self.sent_at = Some(Instant::now());
        }
        if broken!(Reorders) {
            for waiting in deferred {
                self.bytes += waiting.operation.size();
                self.waiting.push_back(waiting);
            }
        } else {
            self.push_again(deferred);
        }
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
