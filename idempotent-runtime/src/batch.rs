//! Group commit: operations whose callers run at the same time go together in one request. If many requests have no answer, later
//! operations gather for the next request.
//!
//! A lone operation is sent by its caller, as if there were no batches. When some of these have no answer yet, later operations
//! go to a queue. A task takes everything in the queue as one batch, answers each caller, and takes the queue again until it is
//! empty. An operation waits in the queue for a task that is about to run, or if many batches have no answer. Otherwise it starts
//! another task. So an operation waits for an answer to others only when the server or the network has much to do.
//!
//! Many operations leave in parts: the server works on one part while the callers of another part continue.
//!
//! A batch that has no answer after the time of a first try is overdue. It does not count any more, so patient callers of hung
//! batches do not hold up others. Each batch has a timer for this, except a lone one that leaves room for others.
//!
//! A caller never sends for others, because callers are dropped. A batch whose callers have all stopped waiting is dropped.

#![allow(
    missing_debug_implementations,
    reason = "only the stores of this workspace use these types"
)]

#[cfg(test)]
mod interleavings;
mod local_queue;
mod queue;
mod refusal;
#[cfg(feature = "shuttle")]
pub mod schedules;
#[cfg(test)]
pub(crate) mod tests;
mod transport;

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::runtime::Handle;

pub(crate) use self::local_queue::Submitted;
use self::local_queue::{LocalQueue, QueueContext};
pub use self::queue::Limits;
pub use self::transport::{Answer, BatchTypes, Operation, Transport};
use crate::mutation::mutation;
use crate::sync::{AtomicUsize, RwLock};

/// The batches on one connection.
pub struct Batches<T: BatchTypes> {
    shared: Arc<QueueContext<T>>,
    queues: RwLock<Vec<Arc<LocalQueue<T>>>>,
}

/// How to send an operation.
pub enum Route<'a, T: BatchTypes> {
    /// The caller sends the operation by itself, and drops this after the answer.
    Inline(Option<InlinePermit<'a>>),
    /// The operation is queued, and sent together with others.
    Queued(QueueSender<T>),
}

/// An operation that its caller sends.
pub struct InlinePermit<'a>(&'a AtomicUsize);

/// Sends to the queue of the current runtime.
pub struct QueueSender<T: BatchTypes> {
    local: Arc<LocalQueue<T>>,
    runtime: Handle,
}

impl<T: Transport> Batches<T> {
    /// Sends by `transport`, within these limits.
    pub fn new(transport: T, limits: Limits) -> Self {
        let shared = QueueContext {
            transport,
            limits,
            inline: AtomicUsize::new(0),
            tasks: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
            queues: RwLock::new(Vec::new()),
        }
    }

    /// The route of an operation that is sent now. Outside of a runtime its caller sends it.
    pub fn route(&self) -> Route<'_, T> {
        let QueueContext { limits, inline, .. } = &*self.shared;
        if self.shared.tasks.load(Ordering::Relaxed) == 0 && !mutation!(QueuesAlone) {
            let permit = InlinePermit(inline);
            if inline.fetch_add(1, Ordering::Relaxed) < limits.inline {
                return Route::Inline(Some(permit));
            }
        }
        match Handle::try_current() {
            Ok(runtime) => Route::Queued(QueueSender {
                local: self.queue_of(&runtime),
                runtime,
            }),
            Err(_) => Route::Inline(None),
        }
    }

    fn queue_of(&self, runtime: &Handle) -> Arc<LocalQueue<T>> {
        let id = runtime.id();
        let is_its_queue =
            |local: &&Arc<LocalQueue<T>>| local.runtime == id || mutation!(SharesQueues);
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(local) = queues.iter().find(is_its_queue) {
            return Arc::clone(local);
        }
        drop(queues);
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(local) = queues.iter().find(is_its_queue) {
            return Arc::clone(local);
        }
        // A queue that no task and no caller uses may belong to a runtime that has ended.
        queues.retain(|local| Arc::strong_count(local) > 1);
        let local = Arc::new(LocalQueue::new(id, Arc::clone(&self.shared)));
        queues.push(Arc::clone(&local));
        local
    }
}

impl<T: Transport> QueueContext<T> {
    /// Notes that a task of a queue has ended.
    fn end_task(&self) {
        self.tasks.fetch_sub(1, Ordering::AcqRel);
        self.transport.on_idle();
    }
}

impl<T: Transport> QueueSender<T> {
    /// Queues an operation.
    ///
    /// # Errors
    ///
    /// `NotApplied` if the queue is full, or if the runtime ends before the operation is sent; `Unknown` if the runtime ends
    /// before the answer.
    pub fn submit(self, operation: T::Operation) -> Submitted<T> {
        self.local.submit(&self.runtime, operation)
    }
}

impl Drop for InlinePermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(any(test, feature = "shuttle"))]
impl<T: BatchTypes> Batches<T> {
    /// Whether operations wait and no task will ever take them.
    pub fn is_stuck(&self) -> bool {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.iter().any(|local| local.is_stuck())
    }
}

impl<T: BatchTypes> fmt::Debug for Batches<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}
