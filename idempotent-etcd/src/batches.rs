//! Transactions that wait go together: each is an operation of one transaction, and is answered by itself.
//!
//! A few are sent alone at once. While these have no answer, later ones wait for the first answer, and share the next request. A caller
//! that nobody polls does not see its answer, so a task also sends those that have waited for too long. etcd compares all of a
//! transaction before it changes anything, and takes no key twice, so the keys of a request differ.

use std::collections::HashSet;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::store::StoreErrorKind;
use prost::Message as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tonic::Status;

use crate::client::Client;
use crate::failure::judge;
use crate::wire::{Op, Txn, TxnReply};

/// How many requests may have no answer before later transactions wait.
const ALONE: usize = 4;
/// How often the task sends what waits.
const OVERDUE: Duration = Duration::from_millis(200);
/// The most transactions in a request: with their own operations, etcd takes 128.
const MOST: usize = 100;
/// The most bytes in a request of several: etcd takes 1.5 MiB.
const LARGEST: usize = 512 << 10;

/// The transactions of a store.
#[derive(Debug, Clone)]
pub(crate) struct Batches {
    client: Arc<Client>,
    runtime: Handle,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Waiting>,
    unanswered: usize,
    /// Whether a task sends the transactions that wait for too long.
    has_timer: bool,
}

type Waiting = (Txn, oneshot::Sender<Answer>);

/// `None`: nothing was changed, and the caller sends its transaction alone.
type Answer = Option<Result<TxnReply, Status>>;

impl Batches {
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self {
            client,
            runtime: Handle::current(),
            queue: Arc::default(),
        }
    }

    /// Sends a transaction, alone or with others.
    pub(crate) async fn send(&self, txn: Txn) -> Result<TxnReply, Status> {
        let waiting = self.lock().enter(&txn);
        let Some((answer, needs_timer)) = waiting else {
            let _counted = Counted(self);
            return self.client.call(txn).await;
        };
        if needs_timer {
            self.runtime.spawn(self.clone().send_overdue());
        }
        match answer.await {
            Ok(Some(answer)) => answer,
            Ok(None) => self.client.call(txn).await,
            Err(_) => Err(Status::cancelled("the batch was dropped")),
        }
    }

    /// Sends the transactions that wait, from time to time, as long as some wait.
    async fn send_overdue(self) {
        loop {
            sleep(OVERDUE).await;
            let batch = self.lock().take_overdue();
            let Some(batch) = batch else {
                return;
            };
            let batches = self.clone();
            self.runtime
                .spawn(async move { batches.send_batch(batch).await });
        }
    }

    /// Sends transactions together, unless all callers have gone.
    async fn send_batch(&self, mut batch: Vec<Waiting>) {
        let whole = Txn {
            success: batch.iter().map(|(txn, _)| Op::txn(txn)).collect(),
            ..Txn::default()
        };
        let gone = join_all(batch.iter_mut().map(|(_, caller)| caller.closed()));
        let answer = tokio::select! {
            answer = self.client.call(whole) => answer,
            _ = gone => return,
        };
        let answers: Vec<Answer> = match answer {
            Ok(reply) => reply
                .responses
                .into_iter()
                .map(|one| one.txn.map(Ok))
                .collect(),
            Err(status) if judge(&status).0 == StoreErrorKind::Unknown => {
                vec![Some(Err(status)); batch.len()]
            }
            // Perhaps because of one of them.
            Err(_) => vec![None; batch.len()],
        };
        for ((_, caller), answer) in batch.into_iter().zip(answers) {
            let _ = caller.send(answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// `None`: the transaction is sent now. If not, it waits, and perhaps needs the task that sends what waits for too long.
    fn enter(&mut self, txn: &Txn) -> Option<(oneshot::Receiver<Answer>, bool)> {
        if self.unanswered < ALONE {
            self.unanswered += 1;
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push((txn.clone(), sender));
        Some((receiver, !mem::replace(&mut self.has_timer, true)))
    }

    /// The transactions that the task sends. `None`: the task ends.
    fn take_overdue(&mut self) -> Option<Vec<Waiting>> {
        let batch = self.take();
        self.has_timer = !batch.is_empty();
        self.has_timer.then_some(batch)
    }

    /// The transactions of the next request: their keys differ.
    fn take(&mut self) -> Vec<Waiting> {
        let (mut batch, mut keys, mut bytes) = (Vec::new(), HashSet::new(), 0);
        self.waiting.retain(|(_, caller)| !caller.is_closed());
        for (txn, caller) in mem::take(&mut self.waiting) {
            let len = txn.encoded_len();
            let fits = batch.is_empty() || batch.len() < MOST && bytes + len <= LARGEST;
            let own = || txn.compare.iter().map(|compare| &compare.key);
            if fits && !own().any(|key| keys.contains(key)) {
                keys.extend(own().cloned());
                bytes += len;
                batch.push((txn, caller));
            } else {
                self.waiting.push((txn, caller));
            }
        }
        batch
    }
}

/// A request that has no answer. Its end begins the next.
struct Counted<'a>(&'a Batches);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        let batch = queue.take();
        if batch.is_empty() {
            queue.unanswered -= 1;
            return;
        }
        drop(queue);
        let batches = self.0.clone();
        self.0.runtime.spawn(async move {
            let _counted = Counted(&batches);
            batches.send_batch(batch).await;
        });
    }
}
