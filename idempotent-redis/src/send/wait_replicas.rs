//! Sends writes that wait for replicas: each, or a batch, with one `WAIT`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, RedisError, RedisResult, Value, pipe};
use futures_util::FutureExt as _;
use idempotent_runtime::port::redis::{Answer, BatchTypes, Transport};

use crate::client::connection::RedisConnection;
use crate::client::connection_like::StoreClient;
use crate::client::replicas::{Replicas, Short};
use crate::mutation::mutation;
use crate::send::layer::Layer;
use crate::send::op::{Op, Reply, SendError};
use crate::send::pipeline::Sent;
use crate::send::request::Request;
use crate::send::unsent::{again, fail};
use crate::send::wait_connections::WaitConnections;

/// The lowest layer of writes that wait for replicas. A clone shares its connections.
#[derive(Clone)]
pub(crate) struct WaitReplicas<C> {
    connection: C,
    /// `None` on the caller's own connection, where `WAIT` blocks that connection.
    wait_connections: Option<Arc<WaitConnections>>,
    replicas: Replicas,
}

/// The reply to a write, and whether enough replicas have the write.
type Acknowledged = (Value, Result<(), Short>);

type ReplicaAnswers = Vec<Answer<Request, Reply>>;

impl<C> WaitReplicas<C> {
    /// Waits on this connection.
    pub(crate) fn new(connection: C, replicas: Replicas) -> Self {
        Self {
            connection,
            wait_connections: None,
            replicas,
        }
    }
}

impl WaitReplicas<RedisConnection> {
    /// Waits on other connections to the same servers.
    pub(crate) fn on_other_connections(self) -> Self {
        let wait_connections = WaitConnections::new(self.connection.clone());
        Self {
            wait_connections: Some(Arc::new(wait_connections)),
            ..self
        }
    }
}

impl<C: StoreClient> Layer for WaitReplicas<C> {
    async fn run(&self, op: &Op<'_>) -> Reply {
        let reply = match &self.wait_connections {
            Some(wait_connections) => {
                let connecting = wait_connections.acquire().await;
                let mut connection = connecting.map_err(SendError::Redis)?;
                let reply = write(connection.begin(), self.replicas, op).await;
                connection.end(reply.as_ref().err().into_iter());
                reply
            }
            None => write(&mut self.connection.clone(), self.replicas, op).await,
        };
        let (reply, enough) = reply.map_err(SendError::Redis)?;
        check(reply, enough)
    }
}

/// Sends one write, and again with another `WAIT` if the server did not know its script.
async fn write<C: ConnectionLike>(
    connection: &mut C,
    replicas: Replicas,
    op: &Op<'_>,
) -> RedisResult<Acknowledged> {
    match write_once(connection, replicas, op.encode()).await {
        Err(error) => match op.by_source(&error) {
            Some(command) => write_once(connection, replicas, command).await,
            None => Err(error),
        },
        reply => reply,
    }
}

/// Sends a command and `WAIT` in one pipeline. `WAIT` waits only for the writes of its connection, so on another connection it
/// would return at once, although no replica has the write.
async fn write_once<C: ConnectionLike>(
    connection: &mut C,
    replicas: Replicas,
    command: Cmd,
) -> RedisResult<Acknowledged> {
    let mut together = pipe();
    together.add_command(command).add_command(replicas.wait());
    // `query_async` would merge both replies into one error.
    let replies = connection.req_packed_commands(&together, 0, 2).await?;
    let Ok([reply, have]) = <[Value; 2]>::try_from(replies) else {
        let message = "two commands have not two replies";
        return Err(RedisError::from((ErrorKind::UnexpectedReturnType, message)));
    };
    Ok((reply.extract_error()?, replicas.check_count(have)))
}

/// The reply to a write that enough replicas have. A reply that no write was done needs no replica.
fn check(reply: Value, enough: Result<(), Short>) -> Reply {
    match (reply, enough) {
        (Value::Int(1..) | Value::Array(_), Err(short)) => {
            Err(SendError::Store(short.into_error()))
        }
        (reply, _) => Ok(reply),
    }
}

impl<C> WaitReplicas<C> {
    /// Sends a batch as a pipeline with one `WAIT` at its end, which waits for all writes of the batch.
    ///
    /// A script that the server does not know goes again in the next batch, before the `WAIT` of that batch.
    async fn send_on<D: ConnectionLike>(
        &self,
        connection: &mut D,
        batch: Vec<Request>,
    ) -> ReplicaAnswers {
        let sent = Sent::new(batch, true);
        let sent = if mutation!(AcknowledgesAtOnce) {
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
        let acknowledge = |answer| match answer {
            Answer::Reply(Ok(reply)) => Answer::Reply(check(reply, enough.clone())),
            answer => answer,
        };
        let answers = sent.read(replies, &AtomicBool::new(false));
        answers.into_iter().map(acknowledge).collect()
    }

    async fn send_on_wait_connection(
        &self,
        wait_connections: &WaitConnections,
        batch: Vec<Request>,
    ) -> ReplicaAnswers {
        let Some(mut connection) = wait_connections.take() else {
            return again(batch);
        };
        match connection.connect().now_or_never() {
            Some(Ok(())) => {}
            Some(Err(error)) => return fail(batch.len(), &error),
            None => return again(batch),
        }
        let answers = self.send_on(connection.begin(), batch).await;
        let errors = answers.iter().filter_map(|answer| match answer {
            Answer::Reply(Err(SendError::Redis(error))) => Some(error),
            _ => None,
        });
        connection.end(errors);
        answers
    }
}

impl<C> BatchTypes for WaitReplicas<C> {
    type Operation = Request;
    type Reply = Reply;
}

impl<C: StoreClient> Transport for WaitReplicas<C> {
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

    async fn send(&self, batch: Vec<Request>) -> ReplicaAnswers {
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
        // The connections that wait are to the same server.
        if let Some(connection) = RedisConnection::of(&self.connection) {
            connection.probe();
        }
    }
}

#[cfg(test)]
mod tests;
