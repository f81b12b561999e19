//! The queue of one runtime, and the tasks that send its batches.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::{HashSet, HashSetExt as _};
use tokio::runtime::{Handle, Id};
use tokio::sync::{Notify, oneshot};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};

use super::queue::{
    BatchQueue, InFlightBatch, Limits, SUSPECT_AFTER, Slot, Waiting, overdue_after,
};
use super::refusal::{full, lost, unsent};
use super::transport::{Answer, BatchTypes, Transport};
use crate::mutation::mutation;
use crate::store::StoreError;
use crate::sync::{AtomicUsize, Mutex, MutexGuard};

/// What the queues of all runtimes share.
pub(super) struct QueueContext<T> {
    pub(super) transport: T,
    pub(super) limits: Limits,
    /// The operations that their callers send now.
    pub(super) inline: AtomicUsize,
    /// The tasks of the queues of all runtimes.
    pub(super) tasks: AtomicUsize,
}

/// The operations of the callers of one runtime.
///
/// Each runtime has its queue: a task on a runtime that nobody drives must not hold up the callers of another runtime.
pub(super) struct LocalQueue<T: BatchTypes> {
    pub(super) runtime: Id,
    shared: Arc<QueueContext<T>>,
    queue: Mutex<BatchQueue<T::Operation, T::Reply>>,
    /// Held while a task takes a batch and hands it to the connection, so that batches leave in the order of the queue.
    hand_over: tokio::sync::Mutex<()>,
    /// Notifies the tasks that a caller has stopped waiting.
    dropped: Notify,
    /// The callers that have stopped waiting.
    cancelled: AtomicUsize,
}

impl<T: BatchTypes> LocalQueue<T> {
    fn lock(&self) -> MutexGuard<'_, BatchQueue<T::Operation, T::Reply>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(any(test, feature = "shuttle"))]
impl<T: BatchTypes> LocalQueue<T> {
    /// Whether operations wait and no task will ever take them.
    pub(super) fn is_stuck(&self) -> bool {
        let queue = self.lock();
        queue.tasks == 0 && queue.has_waiting()
    }
}

impl<T: Transport> LocalQueue<T> {
    pub(super) fn new(runtime: Id, shared: Arc<QueueContext<T>>) -> Self {
        Self {
            runtime,
            shared,
            queue: Mutex::new(BatchQueue::new()),
            hand_over: tokio::sync::Mutex::default(),
            dropped: Notify::new(),
            cancelled: AtomicUsize::new(0),
        }
    }

    /// Queues an operation, and starts a task if no task will take it soon.
    pub(super) fn submit(self: Arc<Self>, runtime: &Handle, op: T::Operation) -> Submitted<T> {
        let (slot, answer) = oneshot::channel();
        let mut queue = self.lock();
        let cancelled = self.cancelled.load(Ordering::Relaxed);
        if !queue.push(op, slot, &self.shared.limits, cancelled) {
            drop(queue);
            return Submitted(SubmittedState::Refused);
        }
        let needs_task = queue.needs_task(&self.shared.limits);
        if needs_task {
            queue.add_task();
        }
        drop(queue);
        if needs_task {
            self.start_task(runtime);
        }
        let local = self;
        Submitted(SubmittedState::Waiting { answer, local })
    }

    /// Starts a task that the queue counts already. A runtime that is shutting down drops the task at once.
    fn start_task(self: &Arc<Self>, runtime: &Handle) {
        self.shared.tasks.fetch_add(1, Ordering::Relaxed);
        let task = Flusher {
            local: Arc::clone(self),
            slots: Vec::new(),
            batch: None,
            overdue_at: None,
            digests: HashSet::new(),
            is_next: true,
            has_ended: false,
        };
        #[cfg(not(feature = "shuttle"))]
        let task = runtime.spawn(task.run());
        // The schedules of `shuttle` are of its own tasks.
        #[cfg(feature = "shuttle")]
        let (task, _) = (shuttle::future::spawn(task.run()), runtime);
        #[cfg(test)]
        super::tests::note_task(&task);
        drop(task);
    }
}

/// The answer to a queued operation. Dropping it before the operation is sent withdraws the operation.
pub struct Submitted<T: BatchTypes>(SubmittedState<T>);

enum SubmittedState<T: BatchTypes> {
    Refused,
    Waiting {
        answer: oneshot::Receiver<Result<T::Reply, StoreError>>,
        local: Arc<LocalQueue<T>>,
    },
    Answered,
}

impl<T: BatchTypes> Future for Submitted<T> {
    type Output = Result<T::Reply, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = match &mut self.0 {
            SubmittedState::Waiting { answer, .. } => match Pin::new(answer).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(answered) => answered.unwrap_or_else(|_| Err(lost())),
            },
            SubmittedState::Refused => Err(full()),
            SubmittedState::Answered => Err(lost()),
        };
        self.0 = SubmittedState::Answered;
        Poll::Ready(answered)
    }
}

impl<T: BatchTypes> Drop for Submitted<T> {
    fn drop(&mut self) {
        if let SubmittedState::Waiting { answer, local } = &mut self.0 {
            answer.close();
            local.cancelled.fetch_add(1, Ordering::Relaxed);
            local.dropped.notify_waiters();
        }
    }
}

/// A task that sends batches until the queue is empty.
struct Flusher<T: Transport> {
    local: Arc<LocalQueue<T>>,
    /// The callers of the batch in flight.
    slots: Vec<Slot<T::Reply>>,
    batch: Option<InFlightBatch>,
    /// When the batch in flight is overdue, if it needs a timer.
    overdue_at: Option<Instant>,
    /// Kept for its memory.
    digests: HashSet<u64>,
    is_next: bool,
    has_ended: bool,
}

impl<T: Transport> Flusher<T> {
    async fn run(mut self) {
        let local = Arc::clone(&self.local);
        loop {
            // The callers that run now may have operations for the next batch.
            yield_to_callers().await;
            local.shared.transport.ready().await;
            let answers = self.send_batch(&local).await;
            if self.has_ended {
                return;
            }
            self.answer(answers);
            if self.has_ended {
                return;
            }
        }
    }

    /// Sends the next batch. Returns no answers if all its callers have stopped waiting.
    async fn send_batch(&mut self, local: &LocalQueue<T>) -> Vec<Answer<T::Operation, T::Reply>> {
        let turn = local.hand_over.lock().await;
        // Before the batch is taken, so that no later drop is missed.
        let mut dropped = pin!(local.dropped.notified());
        let Some(operations) = self.take() else {
            return Vec::new();
        };
        #[cfg(feature = "testkit")]
        crate::store::batch_counts::BatchCounts::count_sent(operations.len());
        // The budget of tokio must not delay the hand-over, because the next batch would overtake this one.
        let mut sending = pin!(unconstrained(local.shared.transport.send(operations)));
        let first = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
        drop(turn);
        if let Poll::Ready(answers) = first {
            return answers;
        }
        let mut alarm = pin!(self.overdue_at.map(sleep_until));
        let mut is_suspicious = false;
        let waiting = poll_fn(|cx| {
            if let Poll::Ready(answers) = sending.as_mut().poll(cx) {
                return Poll::Ready(answers);
            }
            while dropped.as_mut().poll(cx).is_ready() {
                dropped.set(local.dropped.notified());
                let slots = self.slots.iter();
                let left = slots.filter(|slot| slot.is_closed()).count();
                let is_abandoned = left == self.slots.len() && !mutation!(KeepsAbandoned);
                if is_abandoned || left > 0 && mutation!(DropsBatchWithCaller) {
                    return Poll::Ready(Vec::new());
                }
                // A caller that was still in the queue may have waited for this batch.
                let is_late = self.look_at_queue(SUSPECT_AFTER);
                if (left > 0 || is_late) && !std::mem::replace(&mut is_suspicious, true) {
                    local.shared.transport.overdue();
                }
            }
            if let Some(sleep) = alarm.as_mut().as_pin_mut()
                && sleep.poll(cx).is_ready()
            {
                self.look_at_queue(overdue_after());
                alarm.set(None);
            }
            Poll::Pending
        });
        waiting.await
    }

    /// Starts another task if operations wait longer than they need to. A batch in flight of this age does not count any more.
    /// Returns whether the batch is so old.
    fn look_at_queue(&mut self, age: Duration) -> bool {
        let Some(batch) = &mut self.batch else {
            return false;
        };
        let is_late = batch.sent_at.elapsed() >= age;
        let mut queue = self.local.lock();
        if is_late {
            queue.mark_overdue(batch);
        }
        let needs_task = !queue.is_empty() && queue.needs_task(&self.local.shared.limits);
        if needs_task {
            queue.add_task();
        }
        drop(queue);
        self.start_task_if(needs_task);
        is_late
    }

    fn start_task_if(&self, needs_task: bool) {
        if needs_task && let Ok(runtime) = Handle::try_current() {
            self.local.start_task(&runtime);
        }
    }

    /// Takes the next batch, and starts another task for the rest. Without operations the task has ended.
    fn take(&mut self) -> Option<Vec<T::Operation>> {
        let mut operations = Vec::new();
        let limits = &self.local.shared.limits;
        let mut queue = self.local.lock();
        let (digests, slots) = (&mut self.digests, &mut self.slots);
        self.batch = queue.take(limits, digests, &mut operations, slots);
        queue.remove_next_flusher();
        self.is_next = false;
        let needs_task = !queue.is_empty()
            && !queue.is_at_limit(queue.tasks, limits)
            && !queue.has_next_flusher(Instant::now());
        if needs_task {
            queue.add_task();
        }
        if let Some(batch) = &self.batch {
            self.overdue_at = queue.overdue_at(batch, limits);
        } else {
            queue.tasks -= 1;
            self.has_ended = true;
        }
        drop(queue);
        self.start_task_if(needs_task);
        if self.has_ended {
            self.local.shared.end_task();
            return None;
        }
        Some(operations)
    }

    /// Gives each caller its answer. The task ends if other tasks take the queue next.
    fn answer(&mut self, answers: Vec<Answer<T::Operation, T::Reply>>) {
        let mut slots = std::mem::take(&mut self.slots);
        #[cfg(feature = "testkit")]
        if answers.is_empty() {
            crate::store::batch_counts::BatchCounts::count_broken(slots.len());
        }
        if mutation!(ShiftsAnswers) {
            slots.rotate_left(1);
        }
        let mut answers = answers.into_iter();
        let mut replies = Vec::new();
        let mut again = Vec::new();
        let mut unanswered = slots.drain(..);
        for (answer, slot) in answers.by_ref().zip(unanswered.by_ref()) {
            match answer {
                Answer::Reply(reply) => replies.push((reply, slot)),
                Answer::Again(operation) => again.push(Waiting { operation, slot }),
            }
        }
        let mut queue = self.local.lock();
        queue.push_again(again);
        if let Some(batch) = self.batch.take() {
            queue.complete(&batch);
        }
        let now = Instant::now();
        // While this batch was overdue, other tasks may have taken its place.
        if queue.has_next_flusher(now)
            || queue.is_at_limit(queue.tasks - 1, &self.local.shared.limits)
            || mutation!(ForgetsQueue)
        {
            queue.tasks -= 1;
            self.has_ended = true;
        } else {
            queue.add_next_flusher(now);
            self.is_next = true;
        }
        drop(queue);
        if self.has_ended {
            self.local.shared.end_task();
        }
        for slot in unanswered {
            let _ = slot.send(Err(lost()));
        }
        for (reply, slot) in replies {
            let _ = slot.send(Ok(reply));
        }
        self.slots = slots;
    }
}

impl<T: Transport> Drop for Flusher<T> {
    /// The runtime has dropped the task, or the transport panicked: answers the callers that wait for this task.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut queue = self.local.lock();
        queue.tasks -= 1;
        if self.is_next {
            queue.remove_next_flusher();
        }
        if let Some(batch) = &self.batch {
            queue.complete(batch);
        }
        // The other tasks of the runtime have been dropped too, or take the queue.
        let unsent_operations = if queue.tasks == 0 && !mutation!(LeavesQueue) {
            queue.take_all()
        } else {
            VecDeque::new()
        };
        drop(queue);
        self.local.shared.end_task();
        for slot in self.slots.drain(..) {
            let error = if mutation!(DeniesSent) {
                unsent()
            } else {
                lost()
            };
            let _ = slot.send(Err(error));
        }
        for waiting in unsent_operations {
            let _ = waiting.slot.send(Err(unsent()));
        }
    }
}

/// Lets the other tasks of the runtime run. Unlike [`yield_now`](tokio::task::yield_now), another thread may continue this task
/// if one of these blocks its thread.
async fn yield_to_callers() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
