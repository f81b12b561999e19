//! Writes that wait for replicas: alone on a wait_connection, or many in a batch with one `WAIT`. In a cluster each node has its own batches.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use ::redis::RedisResult;
use ::redis::aio::ConnectionLike;
use foldhash::fast::RandomState;

use crate::batch::{Batches, Limits, Route};
use crate::redis::client::connection::RedisConnection;
use crate::redis::client::replicas::{Acknowledged, Replicas};
use crate::redis::script::Script;
use crate::redis::send::batching::{Request, WaitingPipelines};
use crate::redis::send::gathering::{ByNode, Order};
use crate::redis::send::nodes::Nodes;
use crate::redis::send::wait_connections::WaitConnections;
use crate::store::StoreError;

/// The writes of a store that wait for replicas.
pub(crate) struct Replicated<C> {
    connection: C,
    /// `None` on the caller's own connection, where `WAIT` runs on that connection.
    wait_connections: Option<Arc<WaitConnections>>,
    replicas: Replicas,
    /// `None` if each write is its own request.
    batches: Option<Writes<C>>,
    /// The writes of each node of a cluster; `None` if the client of the cluster sends all writes.
    nodes: Option<Arc<dyn ByNode<Replicated<C>>>>,
}

struct Writes<C> {
    operations: Batches<WaitingPipelines<C>>,
    /// Renewals have their own queue, because a late renewal loses a lease.
    renewals: Batches<WaitingPipelines<C>>,
    /// Its seed is random, so a client cannot choose two keys that wait for each other.
    digests: RandomState,
}

/// Each batch needs a wait_connection, because `WAIT` blocks its connection.
const LIMITS: Limits = Limits {
    inline: 2,
    in_flight: 4,
    tasks: 16,
    // Each part would need its own wait_connection.
    parts: 1,
    ..Limits::DEFAULT
};

impl Replicated<RedisConnection> {
    /// Makes more connections for the writes.
    pub(crate) fn over_wait_connections(&self) -> Self {
        let replicas = self.replicas;
        let over_wait_connections = move |connection: &RedisConnection, batches| {
            let wait_connections = Arc::new(WaitConnections::new(connection.clone()));
            Self::with(
                connection.clone(),
                Some(wait_connections),
                replicas,
                batches,
            )
        };
        let writes = over_wait_connections(&self.connection, self.batches.is_some());
        if self.connection.masters().is_none() {
            return writes;
        }
        let of_node = move |node: &RedisConnection| over_wait_connections(node, true);
        Self {
            nodes: Some(Arc::new(Nodes::of(self.connection.clone(), of_node))),
            ..writes
        }
    }
}

impl<C> Replicated<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Writes on this connection.
    pub(crate) fn on(connection: C, replicas: Replicas, batches: bool) -> Self {
        Self::with(connection, None, replicas, batches)
    }

    fn with(
        connection: C,
        wait_connections: Option<Arc<WaitConnections>>,
        replicas: Replicas,
        batches: bool,
    ) -> Self {
        let batches_of = |limits| {
            let pipelines = WaitingPipelines {
                connection: connection.clone(),
                wait_connections: wait_connections.clone(),
                replicas,
            };
            Batches::new(pipelines, limits)
        };
        let batches = batches.then(|| Writes {
            operations: batches_of(LIMITS),
            renewals: batches_of(Limits {
                inline: 0,
                ..LIMITS
            }),
            digests: RandomState::default(),
        });
        Self {
            connection,
            wait_connections,
            replicas,
            batches,
            nodes: None,
        }
    }

    pub(crate) fn replicas(&self) -> Replicas {
        self.replicas
    }

    /// Runs a script that writes, alone.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> RedisResult<Acknowledged> {
        if let Some(wait_connections) = &self.wait_connections {
            wait_connections
                .run(self.replicas, script, keys, args)
                .await
        } else {
            let mut connection = self.connection.clone();
            self.replicas.run(&mut connection, script, keys, args).await
        }
    }

    /// Runs a script that writes, alone or with others.
    ///
    /// # Errors
    ///
    /// Of the queue. An error of the server is in the reply.
    pub(crate) async fn run_with_others(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
        order: Order,
    ) -> Result<RedisResult<Acknowledged>, StoreError> {
        let Some(nodes) = &self.nodes else {
            return self.run_in_batch(script, keys, args, order).await;
        };
        if let Some(node) = nodes.of_key(keys[0]) {
            let reply = node.run_in_batch(script, keys, args, order).await?;
            if !matches!(&reply, Err(error) if nodes.must_repeat(error)) {
                return Ok(reply);
            }
        }
        Ok(self.run(script, keys, args).await)
    }

    /// As [`run_with_others`](Self::run_with_others), on one server.
    async fn run_in_batch(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
        order: Order,
    ) -> Result<RedisResult<Acknowledged>, StoreError> {
        let Some(batches) = &self.batches else {
            return Ok(self.run(script, keys, args).await);
        };
        let route = match batches.operations.route() {
            Route::Queued(_) if order == Order::Renewal => batches.renewals.route(),
            route => route,
        };
        match route {
            Route::Queued(sender) => {
                let digest = (order != Order::Any).then(|| batches.digests.hash_one(keys[0]));
                let request = Request::script(script, keys, args, digest);
                sender.submit(request).await
            }
            Route::Inline(_inline) => Ok(self.run(script, keys, args).await),
        }
    }
}
