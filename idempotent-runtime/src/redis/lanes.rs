//! Connections for writes that wait for replicas.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::redis::{RedisResult, Value};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::connection::RedisConnection;
use super::replicas::{Replicas, Short};
use super::script::Script;
use super::unusable::is_unusable;

/// A few connections, made on demand, with one write at a time on each.
///
/// `WAIT` blocks every other command on its connection, so these connections are for such writes only.
pub(super) struct Lanes {
    model: RedisConnection,
    idle: Mutex<VecDeque<RedisConnection>>,
    free: Semaphore,
}

/// The most writes of a store that wait for replicas at once. Each takes about two round trips.
const MAX_LANES: usize = 16;

impl Lanes {
    /// Lanes to the servers of `model`, which is not used itself.
    pub(super) fn to(model: RedisConnection) -> Self {
        Self {
            model,
            idle: Mutex::default(),
            free: Semaphore::new(MAX_LANES),
        }
    }

    pub(super) async fn run(
        &self,
        replicas: Replicas,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> RedisResult<(Value, Result<(), Short>)> {
        let mut lane = self.acquire().await;
        lane.connection.connect().await?;
        // The client of a cluster reconnects by itself, and its connections to other nodes are usable. New connections take
        // longest to make when a node hangs.
        let reconnects_itself = lane.connection.is_cluster();
        lane.is_reusable = reconnects_itself;
        let connection = &mut lane.connection;
        let reply = replicas.run(connection, script, keys, args).await;
        match &reply {
            // The same failure has probably broken all connections, so the next write should not use one of them.
            Err(error) if is_unusable(error) && !reconnects_itself => self.idle().clear(),
            _ => lane.is_reusable = true,
        }
        reply
    }

    async fn acquire(&self) -> Lane<'_> {
        let permit = self.free.acquire().await;
        let connection = self.idle().pop_front();
        Lane {
            lanes: self,
            connection: connection.unwrap_or_else(|| self.model.duplicate()),
            is_reusable: true,
            _permit: permit.expect("the semaphore is never closed"),
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<RedisConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Lane<'a> {
    lanes: &'a Lanes,
    connection: RedisConnection,
    /// No write is in flight on it. A dropped write may block the connection until its `WAIT` ends. Then the next write would
    /// be late, perhaps after its caller has given up.
    is_reusable: bool,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if self.is_reusable {
            self.lanes.idle().push_back(self.connection.clone());
        }
    }
}
