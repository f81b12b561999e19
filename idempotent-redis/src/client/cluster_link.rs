//! A connection to a cluster over its client.

use std::pin::pin;
use std::time::Duration;

use ::redis::aio::ConnectionLike as _;
use ::redis::cluster_async::ClusterConnection;
use ::redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use ::redis::{Cmd, Pipeline, RedisResult, Value, cmd};
use futures_util::FutureExt as _;
use tokio::time::timeout;

/// The longest time for one answer of a node. Then the client sends the command again.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection to a cluster. It wakes the client while a command has no answer.
///
/// A command whose node did not answer in time goes into a queue of the client, and so does each part of a command to several nodes.
/// But the client reads the queue only when something else wakes it, for example another command (`dispatch_pending` in redis 1.8.1
/// does not register a waker). Without another command the caller would wait until the client's last limit.
#[derive(Clone)]
pub(crate) struct ClusterLink(ClusterConnection);

impl ClusterLink {
    pub(crate) fn new(client: ClusterConnection) -> Self {
        Self(client)
    }

    pub(crate) async fn command(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let client = self.0.clone();
        woken(client, self.0.req_packed_command(cmd)).await
    }

    pub(crate) async fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let client = self.0.clone();
        let replies = self.0.req_packed_commands(pipeline, offset, count);
        woken(client, replies).await
    }

    /// Sends a command to this node, whatever its key is.
    pub(crate) async fn command_to(
        &mut self,
        node: SingleNodeRoutingInfo,
        cmd: Cmd,
    ) -> RedisResult<Value> {
        let client = self.0.clone();
        let reply = self.0.route_command(cmd, RoutingInfo::SingleNode(node));
        woken(client, reply).await
    }
}

/// A little more than the client waits for a node, so that the first wake finds a late command in the queue.
const WAKE_EVERY: Duration = NODE_TIMEOUT.saturating_add(Duration::from_millis(50));

/// Waits for an answer, and wakes the client until the answer comes.
async fn woken<T>(client: ClusterConnection, answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    loop {
        match timeout(WAKE_EVERY, &mut answer).await {
            Ok(answer) => return answer,
            Err(_) => wake(client.clone()),
        }
    }
}

/// Wakes the client by a command for whose answer nobody waits. The client usually drops this command before it sends it.
fn wake(mut client: ClusterConnection) {
    let node = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
    let _ = client.route_command(cmd("PING"), node).now_or_never();
}
