//! A server of batches, and the operations that the tests send to it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;

use crate::batch::{Answer, BatchTypes, Batches, Limits, Operation, Route, Transport};
use crate::store::StoreError;

/// The time between a request and its reply.
pub(super) const TRIP: Duration = Duration::from_millis(10);
/// How long a caller with the default deadline waits for its first try.
pub(super) const FIRST_TRY: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) number: usize,
    pub(super) key: Option<u64>,
    pub(super) size: usize,
    /// The server asks for the operation again.
    pub(super) is_refused: bool,
}

pub(super) fn op(number: usize) -> Op {
    Op {
        number,
        key: None,
        size: 1,
        is_refused: false,
    }
}

pub(super) fn op_of(key: u64, number: usize) -> Op {
    Op {
        key: Some(key),
        ..op(number)
    }
}

thread_local! {
    /// How often the size of an operation was read.
    pub(super) static SIZES: Cell<usize> = const { Cell::new(0) };
}

impl Operation for Op {
    fn size(&self) -> usize {
        SIZES.set(SIZES.get() + 1);
        self.size
    }

    fn digest(&self) -> Option<u64> {
        self.key
    }
}

/// A server that answers an operation with its number.
#[derive(Default)]
pub(super) struct Server {
    /// The numbers of each batch, in the order in which they were handed over.
    batches: Mutex<Vec<Vec<usize>>>,
    /// The numbers that this server does not answer before it resumes.
    pub(super) hangs_on: Mutex<Vec<usize>>,
    pub(super) resumes: Notify,
    pub(super) is_away: AtomicBool,
    pub(super) panics: AtomicBool,
    /// The batches that were dropped without an answer.
    pub(super) dropped: AtomicUsize,
    pub(super) overdue: AtomicUsize,
}

/// Counts the drop of a batch.
struct InFlight<'a>(Option<&'a AtomicUsize>);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(dropped) = self.0 {
            dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl BatchTypes for Arc<Server> {
    type Operation = Op;
    type Reply = usize;
}

impl Transport for Arc<Server> {
    async fn ready(&self) {
        while self.is_away.load(Ordering::SeqCst) {
            sleep(TRIP).await;
        }
    }

    async fn send(&self, batch: Vec<Op>) -> Vec<Answer<Op, usize>> {
        let numbers: Vec<_> = batch.iter().map(|op| op.number).collect();
        let hangs = {
            let hangs_on = self.hangs_on.lock().unwrap();
            numbers.iter().any(|number| hangs_on.contains(number))
        };
        assert!(!self.panics.load(Ordering::SeqCst), "as the test wants");
        self.batches.lock().unwrap().push(numbers);
        let mut in_flight = InFlight(Some(&self.dropped));
        if hangs {
            self.resumes.notified().await;
        }
        sleep(TRIP).await;
        in_flight.0 = None;
        let answer = |op: Op| {
            if op.is_refused {
                Answer::Again(Op {
                    is_refused: false,
                    ..op
                })
            } else {
                Answer::Reply(op.number)
            }
        };
        batch.into_iter().map(answer).collect()
    }

    fn overdue(&self) {
        self.overdue.fetch_add(1, Ordering::SeqCst);
    }
}

pub(super) struct Setup {
    pub(super) server: Arc<Server>,
    pub(super) batches: Arc<Batches<Arc<Server>>>,
}

/// Without operations that their callers send, so that each operation is queued.
pub(super) const QUEUED: Limits = Limits {
    inline: 0,
    in_flight: 8,
    tasks: 64,
    bytes_in_flight: 1 << 20,
    operations: 512,
    parts: 1,
    whole: 16,
    bytes: 256 * 1024,
    waiting: 10_000,
    waiting_bytes: 1 << 20,
};

impl Setup {
    pub(super) fn new(limits: Limits) -> Self {
        let server = Arc::new(Server::default());
        let batches = Arc::new(Batches::new(Arc::clone(&server), limits));
        Self { server, batches }
    }

    /// Sends an operation as the store does; an operation that is sent inline has the answer of a batch of one.
    pub(super) fn submit(
        &self,
        op: Op,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send + 'static {
        let batches = Arc::clone(&self.batches);
        let server = Arc::clone(&self.server);
        async move {
            match batches.route() {
                Route::Inline(_inline) => {
                    let number = op.number;
                    let _ = server.send(vec![op]).await;
                    Ok(number)
                }
                Route::Queued(sender) => sender.submit(op).await,
            }
        }
    }

    pub(super) fn spawn(&self, op: Op) -> JoinHandle<Result<usize, StoreError>> {
        tokio::spawn(self.submit(op))
    }

    pub(super) fn sent(&self) -> Vec<Vec<usize>> {
        self.server.batches.lock().unwrap().clone()
    }

    pub(super) fn hang_on(&self, number: usize) {
        self.server.hangs_on.lock().unwrap().push(number);
    }

    /// Submits operations without an answer, and returns how many batches left.
    pub(super) async fn hang_all_again(&self, operations: usize) -> usize {
        let before = self.sent().len();
        for number in 1000..1000 + operations {
            self.hang_on(number);
            self.spawn(op(number));
            settle().await;
        }
        self.sent().len() - before
    }

    /// Fills the queue's limit with batches of patient callers, which have no answer.
    pub(super) async fn hang_all(&self) -> Vec<JoinHandle<Result<usize, StoreError>>> {
        let mut hanging = Vec::new();
        for number in 0..QUEUED.in_flight {
            self.hang_on(number);
            hanging.push(self.spawn(op(number)));
            settle().await;
        }
        assert_eq!(self.sent().len(), QUEUED.in_flight);
        hanging
    }
}

/// Lets all tasks run until they wait for time.
pub(super) async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}
