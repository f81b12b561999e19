//! Batches of writes that wait for replicas.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::redis::aio::ConnectionLike;
use ::redis::{RedisResult, Value};
use futures_util::FutureExt as _;

use super::pipeline::Sent;
use super::request::Request;
use super::unsent::{again, fail};
#[cfg(test)]
use crate::batch::Broken;
use crate::batch::{Answer, Batched, Transport};
use crate::broken::broken;
use crate::redis::client::connection::RedisConnection;
use crate::redis::client::replicas::{Acknowledged, Replicas};
use crate::redis::send::wait_connections::WaitConnections;

/// Sends each batch of writes as a pipeline with one `WAIT` at its end, which waits for all writes of the batch.
///
/// A script that the server does not know goes again in the next batch, before the `WAIT` of that batch.
pub(crate) struct WaitingPipelines<C> {
    pub(crate) connection: C,
    /// `None` on the caller's own connection.
    pub(crate) wait_connections: Option<Arc<WaitConnections>>,
    pub(crate) replicas: Replicas,
}

type Answers = Vec<Answer<Request, RedisResult<Acknowledged>>>;

impl<C> WaitingPipelines<C> {
    async fn send_on<D: ConnectionLike>(&self, connection: &mut D, batch: Vec<Request>) -> Answers {
        let sent = Sent::new(batch, true);
        let sent = if broken!(Broken::AcknowledgesAtOnce) {
            sent
        } else {
            sent.and_wait(self.replicas.wait())
        };
        let (pipeline, commands) = (&sent.pipeline, sent.pipeline.len());
        // Not by `query_async`, because it makes one error of all replies.
        let mut replies = connection.req_packed_commands(pipeline, 0, commands).await;
        let have = replies.as_mut().ok().and_then(|replies| {
            // Without this reply there are too few, which is an error.
            (commands > sent.commands).then(|| replies.pop()).flatten()
        });
        let enough = match have {
            Some(have) => self.replicas.check_count(have),
            None => Ok(()),
        };
        let acknowledge = |answer: Answer<Request, RedisResult<Value>>| match answer {
            Answer::Reply(reply) => Answer::Reply(reply.map(|reply| (reply, enough.clone()))),
            Answer::Again(request) => Answer::Again(request),
        };
        let answers = sent.read(replies, &AtomicBool::new(false));
        answers.into_iter().map(acknowledge).collect()
    }

    async fn send_on_wait_connection(
        &self,
        wait_connections: &WaitConnections,
        batch: Vec<Request>,
    ) -> Answers {
        let Some(mut wait_connection) = wait_connections.take() else {
            return again(batch);
        };
        match wait_connection.connect().now_or_never() {
            Some(Ok(())) => {}
            Some(Err(error)) => return fail(batch.len(), &error),
            None => return again(batch),
        }
        let answers = self.send_on(wait_connection.begin(), batch).await;
        let errors = answers.iter().filter_map(|answer| match answer {
            Answer::Reply(Err(error)) => Some(error),
            _ => None,
        });
        wait_connection.end(errors);
        answers
    }
}

impl<C> Batched for WaitingPipelines<C> {
    type Operation = Request;
    type Reply = RedisResult<Acknowledged>;
}

impl<C> Transport for WaitingPipelines<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    async fn ready(&self) {
        // Each operation of the next batch gets the error of a failed attempt.
        match (
            &self.wait_connections,
            RedisConnection::of(&self.connection),
        ) {
            (Some(wait_connections), _) => wait_connections.prepare().await,
            (None, Some(connection)) => {
                let _ = connection.connect().await;
            }
            (None, None) => {}
        }
    }

    async fn send(&self, batch: Vec<Request>) -> Answers {
        if let Some(wait_connections) = &self.wait_connections {
            return self.send_on_wait_connection(wait_connections, batch).await;
        }
        if let Some(reconnecting) = RedisConnection::of(&self.connection) {
            match reconnecting.connect().now_or_never() {
                Some(Ok(())) => {}
                Some(Err(error)) => return fail(batch.len(), &error),
                // The connection was lost a moment ago. Batches that wait for a connection would overtake each other.
                None => return again(batch),
            }
        }
        self.send_on(&mut self.connection.clone(), batch).await
    }

    fn overdue(&self) {
        // The wait_connections are on the same server.
        if let Some(connection) = RedisConnection::of(&self.connection) {
            connection.probe();
        }
    }
}

#[cfg(test)]
mod tests;
