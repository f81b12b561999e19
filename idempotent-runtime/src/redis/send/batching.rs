//! Operations of many callers in one request: a pipeline, in which operations of one script share its call.

mod pipeline;
mod request;
mod unsent;
mod waiting;

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::aio::ConnectionLike;
use ::redis::{RedisResult, Value};
use foldhash::fast::RandomState;
use futures_util::FutureExt as _;

use self::pipeline::Sent;
pub(crate) use self::request::Request;
use self::unsent::{again, fail};
pub(crate) use self::waiting::WaitingPipelines;
use crate::batch::{Answer, Batched, Batches, Limits, Route, Transport};
use crate::redis::client::connection::RedisConnection;

/// The batches of a store.
pub(crate) struct Batching<C> {
    operations: Batches<Pipelines<C>>,
    /// Renewals have their own queue and connection, because a late renewal loses a lease: neither a full queue nor a batch
    /// without an answer holds them up.
    renewals: Batches<Pipelines<C>>,
    /// Its seed is random, so a client cannot choose two keys that wait for each other.
    digests: RandomState,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Batching<C> {
    /// Up to `inline` callers send their operations themselves. `renewals` may connect when it is first used.
    pub(crate) fn on(connection: &C, renewals: C, inline: usize) -> Self {
        let limits = Limits {
            inline,
            ..Limits::default()
        };
        let connection = connection.clone();
        // A renewal that is alone goes as other operations do.
        let all_queued = Limits {
            inline: 0,
            ..limits
        };
        let renewals = Pipelines {
            fallback: Some(connection.clone()),
            ..Pipelines::on(renewals)
        };
        Self {
            operations: Batches::new(Pipelines::on(connection), limits),
            renewals: Batches::new(renewals, all_queued),
            digests: RandomState::default(),
        }
    }

    /// The route of an operation that is not a renewal.
    pub(crate) fn route(&self) -> Route<'_, Pipelines<C>> {
        self.operations.route()
    }

    /// The route of a renewal. If nothing else is in flight, its caller sends it on the connection of the other operations.
    pub(crate) fn renewal_route(&self) -> Route<'_, Pipelines<C>> {
        match self.operations.route() {
            Route::Queued(_) => self.renewals.route(),
            inline @ Route::Inline(_) => inline,
        }
    }

    pub(crate) fn digest(&self, key: &str) -> u64 {
        self.digests.hash_one(key)
    }
}

/// Sends each batch as a pipeline.
pub(crate) struct Pipelines<C> {
    connection: C,
    /// Sends the batches while `connection` cannot be made, for example because the server allows no more connections.
    fallback: Option<C>,
    /// The server does not accept a script with many keys, so each key has its own script.
    refuses_many_keys: AtomicBool,
}

impl<C> Pipelines<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    fn on(connection: C) -> Self {
        Self {
            connection,
            fallback: None,
            refuses_many_keys: AtomicBool::new(false),
        }
    }
}

impl<C> Batched for Pipelines<C> {
    type Operation = Request;
    type Reply = RedisResult<Value>;
}

impl<C> Transport for Pipelines<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    async fn ready(&self) {
        if let Some(connection) = RedisConnection::of(&self.connection) {
            // Each operation of the next batch gets the error of a failed attempt.
            let _ = connection.connect().await;
        }
    }

    async fn send(&self, batch: Vec<Request>) -> Vec<Answer<Request, RedisResult<Value>>> {
        let mut connection = self.connection.clone();
        if let Some(reconnecting) = RedisConnection::of(&self.connection) {
            match (reconnecting.connect().now_or_never(), &self.fallback) {
                (Some(Ok(())), _) => {}
                (Some(Err(_)), Some(fallback)) => connection = fallback.clone(),
                (Some(Err(error)), None) => return fail(batch.len(), &error),
                // The connection was lost a moment ago. Batches that wait for a connection would overtake each other.
                (None, _) => return again(batch),
            }
        }
        #[cfg(feature = "testkit")]
        let operations = batch.len();
        let sent = Sent::new(batch, self.refuses_many_keys.load(Ordering::Relaxed));
        let (pipeline, commands) = (&sent.pipeline, sent.pipeline.len());
        // Not by `query_async`, because it makes one error of all replies.
        let replies = connection.req_packed_commands(pipeline, 0, commands).await;
        #[cfg(feature = "testkit")]
        if replies.is_err() {
            crate::store::batch_counts::BatchCounts::count_broken(operations);
        }
        #[cfg(test)]
        let replies = crate::redis::send::nodes::tests::replies(replies);
        sent.read(replies, &self.refuses_many_keys)
    }

    fn overdue(&self) {
        if let Some(connection) = RedisConnection::of(&self.connection) {
            connection.probe();
        }
    }
}
