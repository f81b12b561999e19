//! Connecting to a cluster.

use std::io;
use std::time::Duration;

use ::redis::aio::PubSub;
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::{Client, ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisError, RedisResult};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use idempotent_runtime::store::StoreError;
use tokio::time::timeout;

use crate::client::cluster_link::{ClusterLink, NODE_TIMEOUT};
use crate::client::link::{
    CONNECT_TIMEOUT, address, connect, connection_info, in_time, quotes_command, tcp_settings,
    unavailable,
};
use crate::client::reason::{Unavailable, is_unanswered};
use crate::client::replicas::Replicas;
use crate::client::tls::{self, Certificates};
use crate::client::url::Host;

/// A cluster and its configured nodes.
pub(crate) struct Cluster {
    client: ClusterClient,
    nodes: Vec<Client>,
    certificates: Certificates,
}

impl Cluster {
    pub(crate) fn new(
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
            // The client blocks while it reads the slots from a node that hangs. After this time it repeats a command.
            .response_timeout(NODE_TIMEOUT.saturating_add(waited_for))
            // The caller sets the deadline of a call. A command that the client repeats too long ends, too.
            .overall_response_timeout(Some(LONGEST.saturating_add(waited_for)))
            // At most a quarter of a second in all. Then the caller gets the error and decides.
            .retries(6)
            .min_retry_wait(5)
            .max_retry_wait(60)
            .retry_wait_formula(5, 2);
        let builder = with_certificates(builder, certificates)?;
        let nodes = nodes.into_iter().map(|node| certificates.client(node));
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            client: builder.build().map_err(tls::unusable)?,
            certificates: certificates.clone(),
        })
    }

    /// A client for one node, with the login of the cluster; `None` if the address cannot be used.
    pub(crate) fn node(&self, node: &Host) -> Option<Client> {
        let known = self.nodes.first()?.get_connection_info();
        let tls = matches!(known.addr(), ConnectionAddr::TcpTls { .. });
        let login = known.redis_settings().clone();
        let info = connection_info(address(node.clone(), tls), login).ok()?;
        self.certificates.client(info).ok()
    }

    pub(crate) async fn connect(&self) -> RedisResult<ClusterLink> {
        if self.uses_hello() {
            self.check_hello().await?;
        }
        let connecting = timeout(3 * CONNECT_TIMEOUT, self.client.get_async_connection());
        match connecting.await {
            Ok(Ok(client)) => Ok(ClusterLink::new(client)),
            // The client does not report the refusals of nodes.
            Ok(Err(error)) if error.is_io_error() => Err(self.refusal(error).await),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(unanswered()),
        }
    }

    fn uses_hello(&self) -> bool {
        let mut logins = self
            .nodes
            .iter()
            .map(|node| node.get_connection_info().redis_settings());
        logins.any(|login| login.protocol() == ProtocolVersion::RESP3)
    }

    /// Checks that a node accepts `HELLO`, and that no node repeats this command, which contains the password: the client logs
    /// the answers of nodes. Nodes that are too slow to answer here could repeat the command to the client.
    async fn check_hello(&self) -> RedisResult<()> {
        let mut nodes: FuturesUnordered<_> = self.nodes.iter().map(connect).collect();
        let mut checked = Err(unavailable("has no known node"));
        while let Some(connected) = nodes.next().await {
            match connected {
                Ok(_) => checked = Ok(()),
                Err(error) if quotes_command(&error) => return Err(error),
                // A refusal says more than a lost connection.
                Err(error) if checked.as_ref().is_err_and(RedisError::is_io_error) => {
                    checked = Err(error);
                }
                Err(_) => {}
            }
        }
        checked
    }

    /// Why the client could not connect: the refusal of a node, or that no node answers. Otherwise `error`.
    async fn refusal(&self, error: RedisError) -> RedisError {
        let mut nodes: FuturesUnordered<_> = self.nodes.iter().map(connect).collect();
        let (mut answers, mut is_silent) = (false, false);
        while let Some(connected) = nodes.next().await {
            match connected {
                Ok(_) => answers = true,
                Err(refusal) if !refusal.is_io_error() => return refusal,
                Err(error) => is_silent |= is_unanswered(&error),
            }
        }
        match (answers, is_silent) {
            (true, _) => late(error),
            (false, true) => unanswered(),
            (false, false) => error,
        }
    }

    /// Makes a connection to any node: every node forwards all publications.
    pub(crate) async fn connect_pubsub(&self) -> RedisResult<PubSub> {
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

    pub(crate) fn describe(&self) -> String {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|node| node.get_connection_info().addr().to_string())
            .collect();
        format!("redis cluster {}", nodes.join(", "))
    }
}

/// The error of the client, which is worth another attempt: a node that answers now may have been too slow for the client.
fn late(error: RedisError) -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, error).into()
}

fn unanswered() -> RedisError {
    let reason = Unavailable("has no node that answers in time (are the servers running?)");
    io::Error::new(io::ErrorKind::TimedOut, reason).into()
}

/// The longest time for a command with all its redirections and repetitions.
const LONGEST: Duration = Duration::from_secs(30);

#[cfg(feature = "redis-rustls")]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the features do not change the signature"
)]
fn with_certificates(
    builder: ClusterClientBuilder,
    certificates: &Certificates,
) -> Result<ClusterClientBuilder, StoreError> {
    tls::install_crypto();
    if certificates.is_empty() {
        return Ok(builder);
    }
    Ok(builder.certs(certificates.client_config()))
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

#[cfg(test)]
mod tests {
    use ::redis::{ErrorKind, IntoConnectionInfo as _};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::client::reason::reason_for;

    /// The error of a client that could connect to none of these nodes.
    async fn refusal(nodes: &[&TcpListener]) -> RedisError {
        let nodes = nodes.iter().map(|node| {
            let at = node.local_addr().expect("an address");
            let url = format!("redis://{at}");
            url.into_connection_info().expect("a URL")
        });
        let replicas = Replicas {
            wanted: 0,
            timeout: Duration::ZERO,
        };
        let cluster = Cluster::new(nodes.collect(), &Certificates::default(), replicas);
        let error = RedisError::from((ErrorKind::Io, "no node", "Connection refused".to_owned()));
        cluster.expect("a cluster").refusal(error).await
    }

    async fn node() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").await.expect("a port")
    }

    /// Accepts every command of a client that connects.
    async fn answers(node: &TcpListener) {
        loop {
            let (mut client, _) = node.accept().await.expect("a client");
            let mut read = [0; 1024];
            while client.read(&mut read).await.is_ok_and(|read| read > 0) {
                let answers = b"+OK\r\n".repeat(8);
                client.write_all(&answers).await.expect("a client");
            }
        }
    }

    #[tokio::test]
    async fn a_node_that_answers_or_is_silent_is_asked_again() {
        let (one, other) = (node().await, node().await);
        let both = [&one, &other];
        let refused = "refused the connection at every node (are the servers running?)";
        let late = tokio::select! {
            () = answers(&one) => unreachable!("it accepts clients for ever"),
            error = refusal(&both) => error,
        };
        assert!(is_unanswered(&late));
        assert_eq!(reason_for(&late).as_deref(), Some(refused));
        let silent = refusal(&both).await;
        assert!(is_unanswered(&silent));
        let expected = "has no node that answers in time (are the servers running?)";
        assert_eq!(reason_for(&silent).as_deref(), Some(expected));
    }
}
