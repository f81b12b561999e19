//! Runs scripts, each on the connection that it is meant for.

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

/// The connections of a store, and what an error on them means. A clone shares them.
#[derive(Clone)]
pub(super) struct Executor<C> {
    connection: C,
    failures: Failures,
    /// None where the server's own word is enough.
    replicas: Option<Replicas>,
    /// None on a connection of the caller's own, which waits for the replicas itself.
    lanes: Option<Arc<Lanes>>,
    /// None on a connection of the caller's own, of which no other can be made.
    large: Option<Arc<Large<C>>>,
}

impl Executor<RedisConnection> {
    /// Makes more connections to the same servers when they are needed: for large records, and for writes that wait for
    /// replicas.
    pub(super) fn with_connections_beside(self) -> Self {
        let lanes = self
            .replicas
            .map(|_| Arc::new(Lanes::beside(self.connection.clone())));
        let large = Some(Arc::new(Large::on(self.connection.another())));
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

    /// The connection for what is small, and waits for nobody.
    pub(super) fn connection(&self) -> C {
        self.connection.clone()
    }

    /// The connection for what is asked about this key, and the turn on it, if it has to be waited for.
    pub(super) async fn connection_for(&self, key: &str) -> (C, Option<Turn<'_>>) {
        match self.large.as_ref().filter(|large| large.knows(key)) {
            Some(large) => {
                let (connection, turn) = large.turn().await;
                (connection, Some(turn))
            }
            None => (self.connection.clone(), None),
        }
    }

    /// Keeps in mind how large the record of this key is.
    pub(super) fn note_size(&self, key: &str, bytes: usize) {
        if let Some(large) = &self.large {
            large.note(key, bytes);
        }
    }

    /// The replicas that writes wait for.
    pub(super) fn replicas(&self) -> Option<Replicas> {
        self.replicas
    }

    /// Whether the client sends a command once, and so to one server.
    pub(super) fn sends_once(&self) -> bool {
        self.failures.sends_once
    }

    /// Where the store is, without a password.
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
        let (mut connection, _turn) = self.connection_for(keys[0]).await;
        let reply = script.run(&mut connection, keys, args).await;
        reply.map_err(|error| self.error(error))
    }

    /// Runs a script that writes; where replicas must have what it wrote, the form of it for that.
    ///
    /// Its reply is a number, or begins with one, if the write, or one that it found done already, is to count.
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
        let ran = if let Some(lanes) = &self.lanes {
            lanes.run(replicas, replicated, keys, args).await
        } else {
            let mut connection = self.connection.clone();
            replicas.run(&mut connection, replicated, keys, args).await
        };
        let (reply, enough) = ran.map_err(|error| self.error(error))?;
        match (reply, enough) {
            (Value::Int(_) | Value::Array(_), Err(short)) => Err(short.into_error(self.place())),
            (reply, _) => Ok(reply),
        }
    }

    /// Reads a reply of a kind that this store's commands give.
    pub(super) fn read<T: FromRedisValue>(&self, reply: Value) -> Result<T, StoreError> {
        T::from_redis_value(reply).map_err(|error| self.error(RedisError::from(error)))
    }

    /// Reads a reply that is a number if it is claimed, or what stands there.
    pub(super) fn read_claim(&self, reply: Value) -> Result<Claim, StoreError> {
        match reply {
            Value::Int(_) => Ok(Claim::Claimed),
            taken => Ok(Claim::Taken(self.read::<Vec<u8>>(taken)?.into())),
        }
    }

    /// Reads a reply that is a number if it is done, nil if nothing was there, or what stands there.
    pub(super) fn read_swap(&self, reply: Value) -> Result<Swap, StoreError> {
        Ok(match reply {
            Value::Nil => Swap::Absent,
            Value::Int(_) => Swap::Done,
            other => Swap::Other(self.read::<Vec<u8>>(other)?.into()),
        })
    }
}
