//! The batches of each node of a cluster.

use std::sync::{Arc, PoisonError, RwLock};

use ::redis::RedisError;

use super::batching::Batching;
use super::connection::RedisConnection;
use super::gathering::ByNode;
use super::slot::slot_of_key;

/// The batches of the masters that this connection knows. Each goes over the connection that a lone operation uses, too.
pub(super) struct Nodes {
    connection: RedisConnection,
    /// How many operations to one master their callers send themselves.
    inline: usize,
    made: RwLock<Vec<(RedisConnection, Arc<Batching<RedisConnection>>)>>,
}

impl Nodes {
    pub(super) fn of(connection: RedisConnection, inline: usize) -> Self {
        Self {
            connection,
            inline,
            made: RwLock::default(),
        }
    }

    fn make(&self, node: RedisConnection) -> Arc<Batching<RedisConnection>> {
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, batching)) = made.iter().find(|(known, _)| known.is_same(&node)) {
            return Arc::clone(batching);
        }
        made.retain(|(known, _)| self.connection.has_master(known));
        let batching = Arc::new(Batching::on(&node, node.duplicate(), self.inline));
        made.push((node, Arc::clone(&batching)));
        batching
    }
}

impl ByNode<RedisConnection> for Nodes {
    fn batching(&self, key: &str) -> Option<Arc<Batching<RedisConnection>>> {
        let slot = slot_of_key(key.as_bytes());
        #[cfg(test)]
        let slot = tests::slot(slot);
        let node = self.connection.master_of(slot)?;
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        let known = made.iter().find(|(known, _)| known.is_same(&node));
        let batching = known.map(|(_, batching)| Arc::clone(batching));
        drop(made);
        Some(batching.unwrap_or_else(|| self.make(node)))
    }

    fn must_repeat(&self, error: &RedisError) -> bool {
        self.connection.must_repeat(error)
    }
}

#[cfg(test)]
pub(super) mod tests;
