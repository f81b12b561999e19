//! Connections for writes that wait for replicas.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::redis::{RedisError, RedisResult};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::client::connection::RedisConnection;
use crate::client::unusable::is_unusable;

/// A few connections, made on demand, with one write or one batch of writes at a time on each.
///
/// `WAIT` blocks every other command on its connection, so these connections are for such writes only.
pub(crate) struct WaitConnections {
    model: RedisConnection,
    idle: Mutex<VecDeque<RedisConnection>>,
    free: Semaphore,
}

/// The most single writes of a store that wait for replicas at once. Each takes about two round trips. Batches have their own
/// limit.
const MAX_SINGLE: usize = 16;

impl WaitConnections {
    /// Connections to the servers of `model`, which is not used itself.
    pub(crate) fn new(model: RedisConnection) -> Self {
        Self {
            model,
            idle: Mutex::default(),
            free: Semaphore::new(MAX_SINGLE),
        }
    }

    /// A connection for one write, when fewer writes than allowed have one.
    pub(crate) async fn acquire(&self) -> RedisResult<WaitConnection<'_>> {
        let permit = self.free.acquire().await;
        let permit = permit.expect("the semaphore is never closed");
        let idle = self.idle().pop_front();
        let connection = self.connection(idle, Some(permit));
        connection.connect().await?;
        Ok(connection)
    }

    /// Waits until an idle connection is usable, or the attempt to make it has failed.
    pub(crate) async fn prepare(&self) {
        let idle = self.idle().pop_front();
        let mut connection = self.connection(idle, None);
        let _ = connection.connect().await;
        // The batch takes the connection from this end, also to get the error of a failed attempt.
        connection.is_reusable = false;
        self.idle().push_front(connection.connection.clone());
    }

    /// An idle connection for a batch; `None` if another batch took the prepared connection.
    pub(crate) fn take(&self) -> Option<WaitConnection<'_>> {
        let idle = self.idle().pop_front()?;
        Some(self.connection(Some(idle), None))
    }

    fn connection<'a>(
        &'a self,
        idle: Option<RedisConnection>,
        permit: Option<SemaphorePermit<'a>>,
    ) -> WaitConnection<'a> {
        WaitConnection {
            connections: self,
            connection: idle.unwrap_or_else(|| self.model.duplicate()),
            is_reusable: true,
            _permit: permit,
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<RedisConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that one write or one batch of writes uses.
pub(crate) struct WaitConnection<'a> {
    connections: &'a WaitConnections,
    connection: RedisConnection,
    /// No write is in flight on it. A dropped write may block the connection until its `WAIT` ends. Then the next write would
    /// be late, perhaps after its caller has given up.
    is_reusable: bool,
    _permit: Option<SemaphorePermit<'a>>,
}

impl WaitConnection<'_> {
    pub(crate) async fn connect(&self) -> RedisResult<()> {
        self.connection.connect().await
    }

    /// The connection for a write that begins now.
    pub(crate) fn begin(&mut self) -> &mut RedisConnection {
        // The client of a cluster reconnects by itself, and its connections to other nodes are usable. New connections take
        // longest to make when a node hangs.
        self.is_reusable = self.connection.is_cluster();
        &mut self.connection
    }

    /// The write has ended, with these errors.
    pub(crate) fn end<'e>(&mut self, mut errors: impl Iterator<Item = &'e RedisError>) {
        // The same failure has probably broken all connections, so the next write should not use one of them.
        if errors.any(is_unusable) && !self.connection.is_cluster() {
            self.connections.idle().clear();
        } else {
            self.is_reusable = true;
        }
    }
}

impl Drop for WaitConnection<'_> {
    fn drop(&mut self) {
        if self.is_reusable {
            self.connections.idle().push_back(self.connection.clone());
        }
    }
}
