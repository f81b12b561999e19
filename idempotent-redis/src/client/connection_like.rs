//! Sends commands over a connection, and what is known about the clients that send them.

use std::any::Any;
use std::sync::Arc;

use ::redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use ::redis::{Cmd, Pipeline, RedisFuture, Value};
use futures_util::FutureExt as _;

use crate::client::connection::RedisConnection;
use crate::client::link::Link;
use crate::client::unusable::{have_unusable, makes_unusable};

/// A client over which a store can send. A clone shares the connection.
pub(crate) trait StoreClient: ConnectionLike + Clone + Send + Sync + 'static {}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> StoreClient for C {}

impl RedisConnection {
    /// The connection that this client is; `None` for another client.
    pub(crate) fn of<C: 'static>(client: &C) -> Option<&Self> {
        let client: &dyn Any = client;
        client.downcast_ref()
    }
}

/// Whether this client sends a command once. A client that this crate does not know may repeat it.
pub(crate) fn sends_once<C: ConnectionLike + 'static>(client: &C) -> bool {
    if let Some(connection) = RedisConnection::of(client) {
        return !connection.is_cluster();
    }
    let client: &dyn Any = client;
    client.is::<ConnectionManager>() || client.is::<MultiplexedConnection>()
}

/// Whether this client of the caller makes commands wait while it reconnects. Then batches would overtake each other.
pub(crate) fn reconnects_itself<C: ConnectionLike + 'static>(client: &C) -> bool {
    let client: &dyn Any = client;
    client.is::<ConnectionManager>()
}

/// The server of a client, without a password.
pub(crate) fn place_of<C: ConnectionLike + 'static>(client: &C) -> Arc<str> {
    match RedisConnection::of(client) {
        Some(connection) => connection.topology().to_string().into(),
        None => "redis".into(),
    }
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let this = &*self;
        let reply = async move |link: &mut Link| link.command(cmd).await;
        // The client of one server returns error replies as `Ok`.
        let by_client = this.send(Some(cmd), reply, makes_unusable);
        let Some(master) = this.master_for(Some(cmd)) else {
            return by_client.boxed();
        };
        let straight = async move {
            match this.send_straight(master, cmd).await {
                Some(reply) => reply,
                None => by_client.await,
            }
        };
        straight.boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let this = &*self;
        let first = pipeline.cmd_iter().next();
        let replies = async move |link: &mut Link| link.pipeline(pipeline, offset, count).await;
        let by_client = this.send(first, replies, |replies| have_unusable(replies));
        let Some(master) = this.master_for(first) else {
            return by_client.boxed();
        };
        let straight = async move {
            let replies = this.send_all_straight(master, pipeline, offset, count);
            match replies.await {
                Some(replies) => replies,
                None => by_client.await,
            }
        };
        straight.boxed()
    }

    fn get_db(&self) -> i64 {
        self.topology().db()
    }
}
