//! Connecting to a cluster.

use std::time::Duration;

use ::redis::aio::PubSub;
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::cluster_async::ClusterConnection;
use ::redis::{Client, ConnectionInfo, ProtocolVersion, RedisError, RedisResult};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::timeout;

use super::link::{CONNECT_TIMEOUT, connect, in_time, repeats_command, tcp_settings, unavailable};
use super::replicas::Replicas;
use super::tls::{self, Certificates};
use crate::store::StoreError;

/// A cluster, known by some of its nodes.
pub(super) struct Cluster {
    client: ClusterClient,
    nodes: Vec<Client>,
}

impl Cluster {
    pub(super) fn new(
        nodes: Vec<ConnectionInfo>,
        certificates: &Certificates,
        replicas: Replicas,
    ) -> Result<Self, StoreError> {
        let waited_for = if replicas.wanted > 0 {
            replicas.timeout
        } else {
            Duration::ZERO
        };
        let builder = ClusterClientBuilder::new(nodes.clone())
            .tcp_settings(tcp_settings())
            .connection_timeout(CONNECT_TIMEOUT)
            // The client stands still while it learns the slots from a node that hangs. A caller's
            // command that is not answered by then is sent again.
            .response_timeout(NODE_TIMEOUT.saturating_add(waited_for))
            // How long a call may take in all is its caller's to say.
            .overall_response_timeout(None)
            // A quarter of a second at most: then the caller is told why, and decides.
            .retries(6)
            .min_retry_wait(5)
            .max_retry_wait(60)
            .retry_wait_formula(5, 2);
        let builder = with_certificates(builder, certificates)?;
        let nodes = nodes.into_iter().map(|node| certificates.client(node));
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            client: builder.build().map_err(tls::unusable)?,
        })
    }

    pub(super) async fn connect(&self) -> RedisResult<ClusterConnection> {
        // The client logs what a node answers, and one that does not know `HELLO` repeats it, with the password. What else a
        // node refuses is no reason to leave the others.
        if self.says_hello()
            && let Some(error) = self.refusal(repeats_command).await
        {
            return Err(error);
        }
        let connecting = timeout(3 * CONNECT_TIMEOUT, self.client.get_async_connection());
        match connecting.await {
            Ok(Ok(connection)) => Ok(connection),
            // The client does not say what the nodes refused.
            Ok(Err(error)) if error.is_io_error() => {
                let refusal = self.refusal(|refusal| !refusal.is_io_error()).await;
                Err(refusal.unwrap_or(error))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(unavailable(
                "has no node that answers in time (are the servers running?)",
            )),
        }
    }

    fn says_hello(&self) -> bool {
        let mut logins = self
            .nodes
            .iter()
            .map(|node| node.get_connection_info().redis_settings());
        logins.any(|login| login.protocol() == ProtocolVersion::RESP3)
    }

    /// What a node said that was reached, if it is such a refusal.
    async fn refusal(&self, is_such: impl Fn(&RedisError) -> bool) -> Option<RedisError> {
        let mut nodes: FuturesUnordered<_> = self.nodes.iter().map(connect).collect();
        while let Some(connected) = nodes.next().await {
            match connected {
                Err(error) if is_such(&error) => return Some(error),
                _ => {}
            }
        }
        None
    }

    /// A connection to any node: what is published on one is heard on all.
    pub(super) async fn listen(&self) -> RedisResult<PubSub> {
        let mut failure = unavailable("has no known node");
        let first = rand::random_range(0..self.nodes.len().max(1));
        let (before, after) = self.nodes.split_at(first.min(self.nodes.len()));
        for node in after.iter().chain(before) {
            match in_time(NODE_TIMEOUT, node.get_async_pubsub()).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    pub(super) fn describe(&self) -> String {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|node| node.get_connection_info().addr().to_string())
            .collect();
        format!("redis cluster {}", nodes.join(", "))
    }
}

const NODE_TIMEOUT: Duration = Duration::from_millis(500);

#[cfg(feature = "redis-rustls")]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the features do not change the signature"
)]
fn with_certificates(
    builder: ClusterClientBuilder,
    certificates: &Certificates,
) -> Result<ClusterClientBuilder, StoreError> {
    tls::provide();
    if certificates.is_empty() {
        return Ok(builder);
    }
    Ok(builder.certs(certificates.of_client()))
}

#[cfg(not(feature = "redis-rustls"))]
fn with_certificates(
    builder: ClusterClientBuilder,
    certificates: &Certificates,
) -> Result<ClusterClientBuilder, StoreError> {
    if certificates.is_empty() {
        return Ok(builder);
    }
    Err(tls::bad_certificates(
        "need rustls in a cluster: enable the feature `redis-rustls`",
    ))
}
