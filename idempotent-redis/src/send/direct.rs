//! Sends operations over one connection: each as a request, or a batch as a pipeline.

use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::aio::ConnectionLike;
use ::redis::{ErrorKind, RedisError, Value, pipe};
use futures_util::FutureExt as _;
use idempotent_runtime::port::redis::{Answer, BatchTypes, Transport, count_broken};

use crate::client::connection::RedisConnection;
use crate::client::connection_like::StoreClient;
use crate::script;
use crate::send::layer::Layer;
use crate::send::op::{Op, Reply, SendError};
use crate::send::pipeline::Sent;
use crate::send::request::Request;
use crate::send::unsent::{again, fail};

/// The lowest layer: a connection.
pub(crate) struct Direct<C> {
    connection: C,
    /// Sends the batches while `connection` cannot be made, for example because the server allows no more connections.
    fallback: Option<C>,
    /// The server does not accept a script with many keys, so each key has its own script.
    refuses_many_keys: AtomicBool,
}

impl<C> Direct<C> {
    /// `connection` may connect when it is first used.
    pub(crate) fn new(connection: C) -> Self {
        Self {
            connection,
            fallback: None,
            refuses_many_keys: AtomicBool::new(false),
        }
    }

    pub(crate) fn with_fallback(self, fallback: C) -> Self {
        Self {
            fallback: Some(fallback),
            ..self
        }
    }
}

impl<C: StoreClient> Layer for Direct<C> {
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    fn run(&self, op: &Op<'_>) -> impl Future<Output = Reply> + Send {
        async move {
            let mut connection = self.connection.clone();
            // The rare ways are boxed, because the future of each operation would have room for them.
            if op.notifies {
                return Box::pin(send_and_notify(connection, op)).await;
            }
            let command = op.encode();
            let reply = connection.req_packed_command(&command).await;
            match reply.and_then(Value::extract_error) {
                Ok(reply) => Ok(reply),
                Err(error) => Box::pin(send_again(connection, op, error)).await,
            }
        }
    }
}

/// Sends a command again if this error allows it.
async fn send_again<C: ConnectionLike>(mut connection: C, op: &Op<'_>, error: RedisError) -> Reply {
    let Some(command) = op.by_source(&error) else {
        return Err(SendError::Redis(error));
    };
    let reply = script::send(&mut connection, &command).await;
    reply.map_err(SendError::Redis)
}

/// Sends a command and its notification in one pipeline. If the command changes nothing, the notification is spurious and
/// harmless.
async fn send_and_notify<C: ConnectionLike>(mut connection: C, op: &Op<'_>) -> Reply {
    let mut both = pipe();
    both.add_command(op.encode());
    both.add_command(op.notification());
    // `query_async` would fail the command if the notification is refused.
    let replies = connection.req_packed_commands(&both, 0, 2).await;
    let mut replies = replies.map_err(SendError::Redis)?.into_iter();
    let Some(reply) = replies.next() else {
        let message = "two commands have no reply";
        let error = RedisError::from((ErrorKind::UnexpectedReturnType, message));
        return Err(SendError::Redis(error));
    };
    reply.extract_error().map_err(SendError::Redis)
}

impl<C> BatchTypes for Direct<C> {
    type Operation = Request;
    type Reply = Reply;
}

impl<C: StoreClient> Transport for Direct<C> {
    async fn ready(&self) {
        if let Some(connection) = RedisConnection::of(&self.connection) {
            // Each operation of the next batch gets the error of a failed attempt.
            let _ = connection.connect().await;
        }
    }

    async fn send(&self, batch: Vec<Request>) -> Vec<Answer<Request, Reply>> {
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
        let operations = batch.len();
        let sent = Sent::new(batch, self.refuses_many_keys.load(Ordering::Relaxed));
        let (pipeline, commands) = (&sent.pipeline, sent.pipeline.len());
        // Not by `query_async`, because it makes one error of all replies.
        let replies = connection.req_packed_commands(pipeline, 0, commands).await;
        if replies.is_err() {
            count_broken(operations);
        }
        #[cfg(test)]
        let replies = crate::send::per_node::tests::replies(replies);
        sent.read(replies, &self.refuses_many_keys)
    }

    fn overdue(&self) {
        if let Some(connection) = RedisConnection::of(&self.connection) {
            connection.probe();
        }
    }
}
