//! Sends the operations of a store through its layers.

use std::sync::Arc;

use ::redis::{FromRedisValue, RedisError, Value};
use idempotent_runtime::port::redis::BatchTypes;
use idempotent_runtime::store::StoreError;

use crate::client::connection_like::{StoreClient, place_of, sends_once};
use crate::client::failure::Failures;
use crate::client::replicas::Replicas;
use crate::send::batched::Batched;
use crate::send::direct::Direct;
use crate::send::large::Large;
use crate::send::layer::{BaseLayer, Layer};
use crate::send::op::{Op, Reply, SendError};
use crate::send::per_node::PerNode;
use crate::send::wait_replicas::WaitReplicas;

/// Sends the operations of a store. A clone shares the connections.
#[derive(Clone)]
pub(crate) struct Sender<C>(Arc<Layers<C>>);

struct Layers<C> {
    connection: C,
    failures: Failures,
    replicas: Replicas,
    operations: BatchScope<Direct<C>>,
    /// `None` on the caller's own connection, from which the store cannot make another.
    large: Option<Large<C>>,
    /// The writes that wait for replicas. `None` if none do.
    replicated: Option<BatchScope<WaitReplicas<C>>>,
}

/// Which operations go in a batch: the layers over `S`, which sends over one connection.
pub(crate) enum BatchScope<S: BatchTypes> {
    /// No batches: each operation is its own request.
    Off(S),
    /// All operations of the server.
    Server(Batched<S>),
    /// The operations of each node of a cluster.
    PerNode(PerNode<S>),
}

impl<S: BaseLayer> Layer for BatchScope<S> {
    async fn run(&self, op: &Op<'_>) -> Reply {
        match self {
            Self::Off(connection) => connection.run(op).await,
            Self::Server(batches) => batches.run(op).await,
            // Boxed, because it is longer than the others.
            Self::PerNode(nodes) => Box::pin(nodes.run(op)).await,
        }
    }
}

impl<C: StoreClient> Sender<C> {
    /// Sends over these layers. Operations that go alone use `connection`.
    pub(crate) fn over(
        connection: C,
        replicas: Replicas,
        operations: BatchScope<Direct<C>>,
        large: Option<Large<C>>,
        replicated: Option<BatchScope<WaitReplicas<C>>>,
    ) -> Self {
        Self(Arc::new(Layers {
            failures: Failures {
                place: place_of(&connection),
                sends_once: sends_once(&connection),
            },
            replicas,
            connection,
            operations,
            large,
            replicated,
        }))
    }

    /// Sends an operation.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    pub(crate) fn send(&self, op: &Op<'_>) -> impl Future<Output = Reply> + Send {
        async move {
            if let Some(layers) = &self.0.replicated
                && let Some(op) = op.replicated()
            {
                // Boxed, because few stores wait for replicas and the future of each operation would have room for it.
                return Box::pin(async move { layers.run(&op).await }).await;
            }
            let large = self.0.large.as_ref();
            let is_large = large.filter(|large| large.has(op.key()));
            // One match and no layer for each, so that the future of an operation is short.
            let reply = match (is_large, &self.0.operations) {
                (Some(large), _) => Box::pin(large.run(op)).await,
                (None, BatchScope::Off(connection)) => connection.run(op).await,
                (None, BatchScope::Server(batches)) => batches.run(op).await,
                (None, BatchScope::PerNode(nodes)) => Box::pin(nodes.run(op)).await,
            };
            if let Some(large) = large {
                large.note(op.key(), is_large.is_some(), &reply);
            }
            reply
        }
    }

    /// Whether an operation on this key may wait for others, because its record was large.
    pub(crate) fn is_large(&self, key: &str) -> bool {
        let large = self.0.large.as_ref();
        large.is_some_and(|large| large.has(key))
    }

    /// The value of a reply, or the store's error.
    pub(crate) fn value(&self, reply: Reply) -> Result<Value, StoreError> {
        reply.map_err(|error| self.error(error))
    }

    /// The store's error for an operation without an answer.
    pub(crate) fn error(&self, error: SendError) -> StoreError {
        match error {
            SendError::Redis(error) => self.0.failures.of_operation(error),
            SendError::Store(error) => error.place(self.place().to_owned()),
        }
    }

    /// Converts a reply.
    pub(crate) fn read<T: FromRedisValue>(&self, reply: Value) -> Result<T, StoreError> {
        let value = T::from_redis_value(reply);
        value.map_err(|error| self.error(SendError::Redis(RedisError::from(error))))
    }

    /// The connection of operations that go alone.
    pub(crate) fn connection(&self) -> C {
        self.0.connection.clone()
    }

    /// The replicas that writes wait for.
    pub(crate) fn replicas(&self) -> Option<Replicas> {
        let replicas = self.0.replicas;
        (replicas.wanted > 0).then_some(replicas)
    }

    /// Whether the client sends a command once, to one server.
    pub(crate) fn sends_once(&self) -> bool {
        self.0.failures.sends_once
    }

    /// The address of the store, without a password.
    pub(crate) fn place(&self) -> &str {
        &self.0.failures.place
    }
}
