//! Sends each operation to the node of its key, in the batches of this node.

use std::sync::{Arc, PoisonError, RwLock};

use idempotent_runtime::port::redis::BatchTypes;

use crate::client::connection::RedisConnection;
use crate::client::slot::slot_of_key;
use crate::send::batched::Batched;
use crate::send::layer::{BaseLayer, Layer};
use crate::send::op::{Op, Reply, SendError};

/// The batches of each master of a cluster. `S` sends over one connection.
pub(crate) struct PerNode<S: BatchTypes> {
    cluster: RedisConnection,
    /// Sends what no node takes: the client of the cluster.
    whole: S,
    make: Box<MakeBatches<S>>,
    made: RwLock<Vec<(RedisConnection, Arc<Batched<S>>)>>,
}

/// Makes the batches of a master.
type MakeBatches<S> = dyn Fn(&RedisConnection) -> Batched<S> + Send + Sync;

impl<S: BaseLayer> PerNode<S> {
    /// `make` makes the batches of a master.
    pub(crate) fn new(
        cluster: RedisConnection,
        whole: S,
        make: impl Fn(&RedisConnection) -> Batched<S> + Send + Sync + 'static,
    ) -> Self {
        Self {
            cluster,
            whole,
            make: Box::new(make),
            made: RwLock::default(),
        }
    }

    /// The batches of the node of this key; `None` if this node is not known or does not answer.
    fn of_key(&self, key: &str) -> Option<Arc<Batched<S>>> {
        let slot = slot_of_key(key.as_bytes());
        #[cfg(test)]
        let slot = tests::slot(slot);
        let node = self.cluster.master_of(slot)?;
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        let known = made.iter().find(|(known, _)| known.is_same(&node));
        let known = known.map(|(_, known)| Arc::clone(known));
        drop(made);
        Some(known.unwrap_or_else(|| self.make(node)))
    }

    fn make(&self, node: RedisConnection) -> Arc<Batched<S>> {
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = made.iter().find(|(known, _)| known.is_same(&node)) {
            return Arc::clone(known);
        }
        made.retain(|(known, _)| self.cluster.has_master(known));
        let new = Arc::new((self.make)(&node));
        made.push((node, Arc::clone(&new)));
        new
    }
}

impl<S: BaseLayer> Layer for PerNode<S> {
    async fn run(&self, op: &Op<'_>) -> Reply {
        if let Some(node) = self.of_key(op.key()) {
            match node.run(op).await {
                // The node has not run the operation, for example because the slot of its key is on another node now.
                Err(SendError::Redis(error)) if self.cluster.must_repeat(&error) => {}
                reply => return reply,
            }
        }
        self.whole.run(op).await
    }
}

#[cfg(test)]
pub(crate) mod tests;
