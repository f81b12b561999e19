//! Transactions that wait go together: each is an operation of one transaction, and is answered by itself.
//!
//! A lone caller sends its transaction itself. Else a task sends what waits, and while a few requests have no answer, later transactions
//! wait for the first answer. etcd compares all of a transaction before it changes anything, and takes no key twice, so the keys of a
//! request differ.

use std::collections::HashSet;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::store::StoreErrorKind;
use prost::Message as _;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::Status;

use crate::client::Client;
use crate::failure::judge;
use crate::wire::{Op, Txn, TxnReply};

/// How many requests may have no answer before later transactions wait.
const ALONE: usize = 4;
/// A request that takes longer no longer makes others wait.
const OVERDUE: Duration = Duration::from_millis(200);
/// The most transactions in a request. Each answer may have a large record, and nothing else limits the answer of all.
const MOST: usize = 16;
/// The most bytes in a request of several: etcd takes 1.5 MiB.
const LARGEST: usize = 512 << 10;

/// The transactions of a store.
#[derive(Clone)]
pub(crate) struct Batches {
    client: Arc<Client>,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// The requests of tasks that have no answer, and are not overdue.
    unanswered: usize,
    /// Whether a caller sends its transaction itself. Perhaps nobody polls it, so no other transaction waits for it.
    has_lone: bool,
}

type Waiting = (Txn, oneshot::Sender<Answer>);

/// `None`: nothing was changed, and the caller sends its transaction alone.
type Answer = Option<Result<TxnReply, Status>>;

impl Batches {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let queue = Arc::default();
        Self { client, queue }
    }

    /// Sends a transaction, alone or with others.
    pub(crate) async fn send(&self, txn: Txn) -> Result<TxnReply, Status> {
        if self.lock().begin_lone() {
            let _lone = Lone(self);
            return self.client.call(txn).await;
        }
        let (sender, answer) = oneshot::channel();
        self.lock().waiting.push((txn.clone(), sender));
        self.send_waiting(ALONE);
        match answer.await {
            Ok(Some(answer)) => answer,
            Ok(None) => self.client.call(txn).await,
            Err(_) => Err(Status::cancelled("the batch was dropped")),
        }
    }

    /// Sends what waits, if fewer than `most` requests count. In a task, because nobody may poll the callers.
    fn send_waiting(&self, most: usize) {
        let Some(batch) = self.lock().begin(most) else {
            return;
        };
        let batches = self.clone();
        self.client.runtime.spawn(async move {
            let counted = Counted(&batches);
            let mut sent = pin!(batches.send_batch(batch));
            if timeout(OVERDUE, &mut sent).await.is_err() {
                drop(counted);
                sent.await;
                // Beyond the limit, because etcd takes long for each.
                batches.send_waiting(usize::MAX);
            }
        });
    }

    /// Sends transactions together, to one member after the other, without those whose callers have gone.
    async fn send_batch(&self, mut batch: Vec<Waiting>) {
        let mut attempts = self.client.attempts();
        let answer = loop {
            batch.retain(|(_, caller)| !caller.is_closed());
            let request = match batch.as_slice() {
                [(alone, _)] => alone.clone(),
                several => Txn {
                    success: several.iter().map(|(txn, _)| Op::txn(txn)).collect(),
                    ..Txn::default()
                },
            };
            let gone = join_all(batch.iter_mut().map(|(_, caller)| caller.closed()));
            let answer = tokio::select! {
                // First, so that nothing is sent without a caller.
                biased;
                _ = gone => return,
                answer = attempts.send(request) => answer,
            };
            if let Some(answer) = answer {
                break answer;
            }
        };
        let answers: Vec<Answer> = match answer {
            answer if batch.len() == 1 => vec![Some(answer)],
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
    /// Whether a caller may send its transaction itself, from now on: none waits, and no request counts as unanswered.
    fn begin_lone(&mut self) -> bool {
        let is_free = !self.has_lone && self.unanswered == 0 && self.waiting.is_empty();
        self.has_lone |= is_free;
        is_free
    }

    /// The next request, which counts from now on.
    fn begin(&mut self, most: usize) -> Option<Vec<Waiting>> {
        if self.unanswered >= most {
            return None;
        }
        let batch = self.take();
        let begins = !batch.is_empty();
        self.unanswered += usize::from(begins);
        begins.then_some(batch)
    }

    /// The transactions of the next request: their keys differ.
    fn take(&mut self) -> Vec<Waiting> {
        let (mut batch, mut keys, mut bytes) = (Vec::new(), HashSet::new(), 0);
        self.waiting.retain(|(_, caller)| !caller.is_closed());
        for (txn, caller) in mem::take(&mut self.waiting) {
            let len = || txn.encoded_len();
            let fits = batch.is_empty() || batch.len() < MOST && bytes + len() <= LARGEST;
            let own = || txn.compare.iter().map(|compare| &compare.key);
            if fits && !own().any(|key| keys.contains(key)) {
                keys.extend(own().cloned());
                bytes += len();
                batch.push((txn, caller));
            } else {
                self.waiting.push((txn, caller));
            }
        }
        batch
    }
}

/// A transaction that its caller sends itself, until its answer or until the caller has gone.
struct Lone<'a>(&'a Batches);

impl Drop for Lone<'_> {
    fn drop(&mut self) {
        self.0.lock().has_lone = false;
    }
}

/// A request that has no answer. Its end, or the time when it is overdue, begins the next.
struct Counted<'a>(&'a Batches);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.lock().unanswered -= 1;
        self.0.send_waiting(ALONE);
    }
}

#[cfg(test)]
mod tests;
