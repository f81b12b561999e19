//! Runs scripts, each on the right connection.

use std::sync::Arc;

use ::redis::aio::ConnectionLike;
use ::redis::{FromRedisValue, RedisError, Value};

use super::connection::{RedisConnection, place_of, sends_once};
use super::failure::Failures;
use super::lanes::Lanes;
use super::large::{Large, Turn};
use super::replicas::Replicas;
use super::script::Script;
use crate::store::{Claim, StoreError, Swap};

/// The connections of a store. A clone shares them.
#[derive(Clone)]
pub(super) struct Executor<C> {
    connection: C,
    failures: Failures,
    /// `None` if writes do not wait for replicas.
    replicas: Option<Replicas>,
    /// `None` on the caller's own connection, where `WAIT` runs on that connection.
    lanes: Option<Arc<Lanes>>,
    /// `None` on the caller's own connection, from which the store cannot make another.
    large: Option<Arc<Large<C>>>,
}

impl Executor<RedisConnection> {
    /// Allows more connections to the same servers: for large records, and for writes that wait for replicas.
    pub(super) fn with_more_connections(self) -> Self {
        let lanes = self
            .replicas
            .map(|_| Arc::new(Lanes::to(self.connection.clone())));
        let large = Some(Arc::new(Large::on(self.connection.duplicate())));
        Self {
            lanes,
            large,
            ..self
        }
    }
}

impl<C> Executor<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    pub(super) fn new(connection: C, replicas: Replicas) -> Self {
        Self {
            failures: Failures {
                place: place_of(&connection),
                sends_once: sends_once(&connection),
            },
            connection,
            replicas: (replicas.wanted > 0).then_some(replicas),
            lanes: None,
            large: None,
        }
    }

    /// The connection for small records and for commands that do not wait.
    pub(super) fn connection(&self) -> C {
        self.connection.clone()
    }

    /// The connection for this key; `None` if it needs a turn because its record was large.
    pub(super) fn connection_without_turn(&self, key: &str) -> Option<C> {
        let was_large = self
            .large
            .as_ref()
            .is_some_and(|large| large.was_large(key));
        (!was_large).then(|| self.connection())
    }

    /// The connection for this key, after waiting for a turn if its record was large.
    pub(super) async fn connection_for(&self, key: &str) -> (C, Option<Turn<'_>>) {
        match self.large.as_ref().filter(|large| large.was_large(key)) {
            Some(large) => {
                let (connection, turn) = large.wait_turn().await;
                (connection, Some(turn))
            }
            None => (self.connection.clone(), None),
        }
    }

    /// Remembers whether the record of this key is large.
    pub(super) fn note_size(&self, key: &str, bytes: usize) {
        if let Some(large) = &self.large {
            large.note(key, bytes);
        }
    }

    /// The replicas that writes wait for.
    pub(super) fn replicas(&self) -> Option<Replicas> {
        self.replicas
    }

    /// Whether the client sends a command once, to one server.
    pub(super) fn sends_once(&self) -> bool {
        self.failures.sends_once
    }

    /// The address of the store, without a password.
    pub(super) fn place(&self) -> &str {
        &self.failures.place
    }

    /// The store's error for an error of the client.
    pub(super) fn error(&self, error: RedisError) -> StoreError {
        self.failures.of_operation(error)
    }

    pub(super) async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let reply = if let Some(mut connection) = self.connection_without_turn(keys[0]) {
            script.run(&mut connection, keys, args).await
        } else {
            let run_in_turn = async {
                let (mut connection, _turn) = self.connection_for(keys[0]).await;
                script.run(&mut connection, keys, args).await
            };
            Box::pin(run_in_turn).await
        };
        reply.map_err(|error| self.error(error))
    }

    /// Runs a script that writes; if writes wait for replicas, its `replicated` form with a `WAIT`.
    ///
    /// Its reply must be a number, or begin with a number, if the write is done or was done before.
    pub(super) async fn write(
        &self,
        script: &Script,
        replicated: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let Some(replicas) = self.replicas else {
            return self.run(script, keys, args).await;
        };
        let run = async {
            if let Some(lanes) = &self.lanes {
                lanes.run(replicas, replicated, keys, args).await
            } else {
                let mut connection = self.connection.clone();
                replicas.run(&mut connection, replicated, keys, args).await
            }
        };
        let (reply, enough) = Box::pin(run).await.map_err(|error| self.error(error))?;
        match (reply, enough) {
            (Value::Int(_) | Value::Array(_), Err(short)) => Err(short.into_error(self.place())),
            (reply, _) => Ok(reply),
        }
    }

    /// Converts a reply.
    pub(super) fn read<T: FromRedisValue>(&self, reply: Value) -> Result<T, StoreError> {
        T::from_redis_value(reply).map_err(|error| self.error(RedisError::from(error)))
    }

    /// Converts a reply: a number if the key is claimed, else the stored value.
    pub(super) fn read_claim(&self, reply: Value) -> Result<Claim, StoreError> {
        match reply {
            Value::Int(_) => Ok(Claim::Claimed),
            taken => Ok(Claim::Taken(self.read::<Vec<u8>>(taken)?.into())),
        }
    }

    /// Converts a reply: a number if the change is done, nil if nothing was stored, else the stored value.
    pub(super) fn read_swap(&self, reply: Value) -> Result<Swap, StoreError> {
        Ok(match reply {
            Value::Nil => Swap::Absent,
            Value::Int(_) => Swap::Done,
            other => Swap::Other(self.read::<Vec<u8>>(other)?.into()),
        })
    }
}
