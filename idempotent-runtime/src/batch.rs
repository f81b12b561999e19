//! Group commit: operations that arrive while a request is on its way gather, and go together in the next request.
//!
//! A lone operation is sent by its caller, as if there were no batches. When some of these have no answer yet, later operations
//! go to a queue. A task takes everything in the queue as one batch, answers each caller, and takes the queue again until it is
//! empty. An operation waits in the queue only for a task, and only if a batch left a moment ago or if many batches have no
//! answer. Otherwise it starts another task. So on a slow network almost every operation is sent at once.
//!
//! Many operations leave in parts: the server works on one part while the callers of another part continue.
//!
//! A batch that has no answer after the time of a first try is overdue. It does not count any more, so patient callers of hung
//! batches do not hold up others. A single batch in flight on a fast network needs no timer. Other batches have a timer each, for
//! operations that no later operation and no answer would send in time.
//!
//! A caller never sends for others, because callers are dropped. A batch whose callers have all stopped waiting is dropped.

#[cfg(any(test, feature = "shuttle"))]
mod broken;
#[cfg(test)]
mod interleavings;
mod lane;
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

#[cfg(any(test, feature = "shuttle"))]
pub(crate) use self::broken::Broken;
pub(crate) use self::lane::Submitted;
use self::lane::{Lane, Shared};
pub(crate) use self::queue::Limits;
pub(crate) use self::transport::{Answer, Batched, Operation, Transport};
use crate::broken::broken;
use crate::sync::{AtomicUsize, RwLock};

/// The batches on one connection.
pub(crate) struct Batches<T: Batched> {
    shared: Arc<Shared<T>>,
    lanes: RwLock<Vec<Arc<Lane<T>>>>,
}

/// How to send an operation.
pub(crate) enum Way<'a, T: Batched> {
    /// The caller sends the operation by itself, and drops this after the answer.
    Inline(Option<Inline<'a>>),
    /// The operation is queued, and sent together with others.
    Queue(Entrance<T>),
}

/// An operation that its caller sends.
pub(crate) struct Inline<'a>(&'a AtomicUsize);

/// The entrance to the queue of the current runtime.
pub(crate) struct Entrance<T: Batched> {
    lane: Arc<Lane<T>>,
    runtime: Handle,
}

impl<T: Transport> Batches<T> {
    pub(crate) fn new(transport: T, limits: Limits) -> Self {
        let shared = Shared {
            transport,
            limits,
            inline: AtomicUsize::new(0),
            tasks: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
            lanes: RwLock::new(Vec::new()),
        }
    }

    /// The way of an operation that is sent now. Outside of a runtime its caller sends it.
    pub(crate) fn way(&self) -> Way<'_, T> {
        let Shared { limits, inline, .. } = &*self.shared;
        if self.shared.tasks.load(Ordering::Relaxed) == 0 && !broken!(Broken::QueuesAlone) {
            let pass = Inline(inline);
            if inline.fetch_add(1, Ordering::Relaxed) < limits.inline {
                return Way::Inline(Some(pass));
            }
        }
        match Handle::try_current() {
            Ok(runtime) => Way::Queue(Entrance {
                lane: self.lane_of(&runtime),
                runtime,
            }),
            Err(_) => Way::Inline(None),
        }
    }

    fn lane_of(&self, runtime: &Handle) -> Arc<Lane<T>> {
        let id = runtime.id();
        let is_its_lane = |lane: &&Arc<Lane<T>>| lane.runtime == id || broken!(Broken::SharesLanes);
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.iter().find(is_its_lane) {
            return Arc::clone(lane);
        }
        drop(lanes);
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.iter().find(is_its_lane) {
            return Arc::clone(lane);
        }
        // A lane that no task and no caller uses may belong to a runtime that has ended.
        lanes.retain(|lane| Arc::strong_count(lane) > 1);
        let lane = Arc::new(Lane::new(id, Arc::clone(&self.shared)));
        lanes.push(Arc::clone(&lane));
        lane
    }
}

impl<T: Transport> Shared<T> {
    /// Notes that a task of a lane has ended.
    fn end_task(&self) {
        self.tasks.fetch_sub(1, Ordering::AcqRel);
        self.transport.rest();
    }
}

impl<T: Transport> Entrance<T> {
    /// Queues an operation.
    ///
    /// # Errors
    ///
    /// `NotApplied` if the queue is full, or if the runtime ends before the operation is sent; `Unknown` if the runtime ends
    /// before the answer.
    pub(crate) fn submit(self, operation: T::Operation) -> Submitted<T> {
        self.lane.submit(&self.runtime, operation)
    }
}

impl Drop for Inline<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(any(test, feature = "shuttle"))]
impl<T: Batched> Batches<T> {
    /// Whether operations wait and no task will ever take them.
    pub(crate) fn is_stuck(&self) -> bool {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().any(|lane| lane.is_stuck())
    }
}

impl<T: Batched> fmt::Debug for Batches<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}
