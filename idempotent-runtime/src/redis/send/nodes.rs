//! What a store has for each node of a cluster: its batches, and its writes that wait for replicas.

use std::sync::{Arc, PoisonError, RwLock};

use ::redis::RedisError;

use crate::redis::client::connection::RedisConnection;
use crate::redis::client::slot::slot_of_key;
use crate::redis::send::gathering::ByNode;

/// One `T` for each master that this connection knows.
pub(crate) struct Nodes<T> {
    connection: RedisConnection,
    make: Box<dyn Fn(&RedisConnection) -> T + Send + Sync>,
    made: RwLock<Vec<(RedisConnection, Arc<T>)>>,
}

impl<T> Nodes<T> {
    /// `make` makes the `T` of a master.
    pub(crate) fn of(
        connection: RedisConnection,
        make: impl Fn(&RedisConnection) -> T + Send + Sync + 'static,
    ) -> Self {
        Self {
            connection,
            make: Box::new(make),
            made: RwLock::default(),
        }
    }

    fn make(&self, node: RedisConnection) -> Arc<T> {
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = made.iter().find(|(known, _)| known.is_same(&node)) {
            return Arc::clone(known);
        }
        made.retain(|(known, _)| self.connection.has_master(known));
        let new = Arc::new((self.make)(&node));
        made.push((node, Arc::clone(&new)));
        new
    }
}

impl<T: Send + Sync> ByNode<T> for Nodes<T> {
    fn of_key(&self, key: &str) -> Option<Arc<T>> {
        let slot = slot_of_key(key.as_bytes());
        #[cfg(test)]
        let slot = tests::slot(slot);
        let node = self.connection.master_of(slot)?;
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        let known = made.iter().find(|(known, _)| known.is_same(&node));
        let known = known.map(|(_, known)| Arc::clone(known));
        drop(made);
        Some(known.unwrap_or_else(|| self.make(node)))
    }

    fn must_repeat(&self, error: &RedisError) -> bool {
        self.connection.must_repeat(error)
    }
}

#[cfg(test)]
pub(crate) mod tests;
