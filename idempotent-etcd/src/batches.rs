//! Transactions that wait go together: each is an operation of one transaction, and is answered by itself.
//!
//! etcd compares all of a transaction before it changes anything, and takes no key twice, so the keys of a request differ.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use idempotent_runtime::port::etcd::{
    self as batch, Answer, BatchTypes, Limits, Operation, Route, Transport,
};
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use prost::Message as _;
use tonic::Status;

use crate::client::Client;
use crate::failure::{is_unsent, judge};
use crate::wire::{Op, Txn, TxnReply};

const LIMITS: Limits = Limits {
    inline: 1,
    in_flight: 4,
    // Each answer may have a large record, and nothing else limits the answer of all.
    operations: 16,
    // etcd takes 1.5 MiB.
    bytes: 512 << 10,
    ..Limits::DEFAULT
};

/// The transactions of a store.
pub(crate) struct Batches {
    client: Arc<Client>,
    queue: batch::Batches<Transactions>,
    /// Its seed is random, so a client cannot choose two keys that wait for each other.
    digests: RandomState,
}

impl Batches {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let queue = batch::Batches::new(Transactions(Arc::clone(&client)), LIMITS);
        let digests = RandomState::new();
        Self {
            client,
            queue,
            digests,
        }
    }

    /// Sends a transaction, alone or with others.
    ///
    /// # Errors
    ///
    /// If too many transactions wait, or the runtime ends.
    pub(crate) async fn send(&self, txn: Txn) -> Result<Result<TxnReply, Status>, StoreError> {
        let sender = match self.queue.route() {
            Route::Inline(_permit) => return Ok(self.client.call(txn).await),
            Route::Queued(sender) => sender,
        };
        let key = txn.compare.first().map(|compare| &compare.key);
        let queued = Queued {
            digest: self.digests.hash_one(key),
            tries: self.client.tries(),
            txn: txn.clone(),
        };
        match sender.submit(queued).await? {
            Some(answer) => Ok(answer),
            None => Ok(self.client.call(txn).await),
        }
    }
}

/// Sends transactions together, to one member.
struct Transactions(Arc<Client>);

/// A transaction that waits.
struct Queued {
    txn: Txn,
    digest: u64,
    /// How often it may still be sent.
    tries: usize,
}

impl Operation for Queued {
    fn size(&self) -> usize {
        self.txn.encoded_len()
    }

    fn digest(&self) -> Option<u64> {
        Some(self.digest)
    }
}

impl BatchTypes for Transactions {
    type Operation = Queued;
    /// `None`: nothing was changed, and the caller sends its transaction alone.
    type Reply = Option<Result<TxnReply, Status>>;
}

type Answers = Vec<Answer<Queued, Option<Result<TxnReply, Status>>>>;

impl Transport for Transactions {
    /// Before a batch is made, so that it has no transaction whose caller goes meanwhile.
    async fn ready(&self) {
        self.0.ready().await;
    }

    async fn send(&self, batch: Vec<Queued>) -> Answers {
        let is_alone = batch.len() == 1;
        let request = match batch.as_slice() {
            [alone] => alone.txn.clone(),
            several => Txn {
                success: several.iter().map(|queued| Op::txn(&queued.txn)).collect(),
                ..Txn::default()
            },
        };
        match self.0.send(request).await {
            Ok(reply) if is_alone => vec![Answer::Reply(Some(Ok(reply)))],
            Ok(reply) => {
                let replies = reply.responses.into_iter().map(|one| one.txn.map(Ok));
                replies.map(Answer::Reply).collect()
            }
            Err(status) => {
                let failed = batch.into_iter();
                failed.map(|one| one.failed(is_alone, &status)).collect()
            }
        }
    }
}

impl Queued {
    fn failed(
        mut self,
        is_alone: bool,
        status: &Status,
    ) -> Answer<Self, Option<Result<TxnReply, Status>>> {
        self.tries -= 1;
        if self.tries > 0 && is_unsent(status) {
            return Answer::Again(self);
        }
        // If several were refused, it is perhaps because of one of them.
        let is_answer = is_alone || judge(status).0 == StoreErrorKind::Unknown;
        Answer::Reply(is_answer.then(|| Err(status.clone())))
    }
}

#[cfg(test)]
mod tests;
