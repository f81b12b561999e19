//! Sends operations over one connection: each as a request, or a batch as a pipeline.

use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, RedisError, RedisResult, Value, pipe};
use futures_util::FutureExt as _;

use crate::batch::{Answer, Batched, Transport};
use crate::redis::client::connection::RedisConnection;
use crate::redis::client::connection_like::StoreClient;
use crate::redis::script;
use crate::redis::send::layer::Layer;
use crate::redis::send::op::{Op, Reply, SendError};
use crate::redis::send::pipeline::Sent;
use crate::redis::send::request::Request;
use crate::redis::send::unsent::{again, fail};

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
    async fn run(&self, op: &Op<'_>) -> Reply {
        let mut connection = self.connection.clone();
        let command = op.encode();
        let reply = match op.notification() {
            None => script::send(&mut connection, &command).await,
            Some(notification) => Box::pin(send_both(&mut connection, command, notification)).await,
        };
        let reply = match reply {
            Err(error) => match op.by_source(&error) {
                // Boxed, because this is rare and the future of each operation would have room for it.
                Some(command) => {
                    let again = async { script::send(&mut connection, &command).await };
                    Box::pin(again).await
                }
                None => Err(error),
            },
            reply => reply,
        };
        reply.map_err(SendError::Redis)
    }
}

/// Sends a command and its notification in one pipeline. If the command changes nothing, the notification is spurious and
/// harmless.
async fn send_both<C: ConnectionLike>(
    connection: &mut C,
    command: Cmd,
    notification: Cmd,
) -> RedisResult<Value> {
    let mut both = pipe();
    both.add_command(command).add_command(notification);
    // `query_async` would fail the command if the notification is refused.
    let replies = connection.req_packed_commands(&both, 0, 2).await?;
    let Some(reply) = replies.into_iter().next() else {
        let message = "two commands have no reply";
        return Err(RedisError::from((ErrorKind::UnexpectedReturnType, message)));
    };
    reply.extract_error()
}

impl<C> Batched for Direct<C> {
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
        let replies = crate::redis::send::per_node::tests::replies(replies);
        sent.read(replies, &self.refuses_many_keys)
    }

    fn overdue(&self) {
        if let Some(connection) = RedisConnection::of(&self.connection) {
            connection.probe();
        }
    }
}
