//! Connections for writes that wait for replicas.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::redis::{RedisResult, Value};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::connection::{RedisConnection, is_over};
use super::replicas::{Replicas, Short};
use super::script::Script;

/// A few connections, made when they are needed, with one write at a time on each.
///
/// `WAIT` holds up whatever else was sent on its connection: so these are for nothing else, and are
/// taken in turns.
pub(super) struct Lanes {
    model: RedisConnection,
    idle: Mutex<VecDeque<RedisConnection>>,
    free: Semaphore,
}

/// How many writes of a store wait for replicas at once. Each takes about two round trips.
const MOST: usize = 16;

impl Lanes {
    /// Lanes to where `model` leads, which is not used itself.
    pub(super) fn beside(model: RedisConnection) -> Self {
        Self {
            model,
            idle: Mutex::default(),
            free: Semaphore::new(MOST),
        }
    }

    pub(super) async fn run(
        &self,
        replicas: Replicas,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> RedisResult<(Value, Result<(), Short>)> {
        let mut lane = self.take().await;
        lane.connection.connect().await?;
        // A cluster's client does, and its connections to the other nodes are well: to make them anew
        // takes longest just when a node hangs.
        let mends_itself = lane.connection.is_cluster();
        lane.fit = mends_itself;
        let connection = &mut lane.connection;
        let reply = replicas.run(connection, script, keys, args).await;
        match &reply {
            // What broke this connection has most likely broken all: the next write is not to find
            // that out again.
            Err(error) if is_over(error) && !mends_itself => self.idle().clear(),
            _ => lane.fit = true,
        }
        reply
    }

    async fn take(&self) -> Lane<'_> {
        let permit = self.free.acquire().await;
        let connection = self.idle().pop_front();
        Lane {
            lanes: self,
            connection: connection.unwrap_or_else(|| self.model.another()),
            fit: true,
            _permit: permit.expect("nobody closes it"),
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<RedisConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Lane<'a> {
    lanes: &'a Lanes,
    connection: RedisConnection,
    /// Nothing is under way on it. A write that was dropped may hold the connection up until its
    /// `WAIT` ends: the next one would be late, and might arrive when it is given up already.
    fit: bool,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if self.fit {
            self.lanes.idle().push_back(self.connection.clone());
        }
    }
}
