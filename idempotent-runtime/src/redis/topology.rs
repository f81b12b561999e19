//! Where the records are: on one server, on the master of sentinels, in a cluster.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::{ConnectionLike as _, MultiplexedConnection, PubSub};
use ::redis::cluster_async::ClusterConnection;
use ::redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, Pipeline, RedisError,
    RedisResult, Value,
};
use tokio::time::timeout;

use super::cluster::Cluster;
use super::replicas::Replicas;
use super::sentinel::{self, Sentinels};
use super::tls::Certificates;
use super::url::{Address, Place, refused};
use crate::store::StoreError;

#[expect(clippy::large_enum_variant, reason = "a store has one")]
pub(super) enum Topology {
    Server(Client),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

/// A connection to those who keep the records.
#[derive(Clone)]
pub(super) enum Link {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Topology {
    /// The replicas are those that writes will wait for.
    pub(super) fn new(
        address: Address,
        certificates: Certificates,
        replicas: Replicas,
    ) -> Result<Self, StoreError> {
        let Address {
            place, tls, login, ..
        } = address;
        certificates.check(tls)?;
        let info = |address: ConnectionAddr| {
            let info = sentinel::info(address, login.clone());
            info.map_err(|_| refused("the URL names no address"))
        };
        Ok(match place {
            Place::Socket(path) => {
                Self::Server(certificates.client(info(ConnectionAddr::Unix(path))?)?)
            }
            Place::Server(host) => {
                Self::Server(certificates.client(info(sentinel::address(host, tls))?)?)
            }
            Place::Cluster(hosts) => {
                let nodes = hosts
                    .into_iter()
                    .map(|host| info(sentinel::address(host, tls)));
                let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
                Self::Cluster(Cluster::new(nodes, &certificates, replicas)?)
            }
            Place::Sentinels {
                sentinels,
                master,
                credentials,
            } => {
                let sentinels =
                    Sentinels::new(sentinels, credentials, master, tls, login, certificates)?;
                Self::Sentinels(sentinels)
            }
        })
    }

    /// Makes a connection. Whoever is the master, or owns the slots, is asked for anew.
    pub(super) async fn connect(&self) -> RedisResult<Link> {
        let connecting = async {
            match self {
                Self::Server(client) => connect(client).await.map(Link::Server),
                Self::Sentinels(sentinels) => {
                    let master = in_time(CONNECT_TIMEOUT, sentinels.connect()).await;
                    master.map(|(_, connection)| Link::Server(connection))
                }
                Self::Cluster(cluster) => cluster.connect().await.map(Link::Cluster),
            }
        };
        connecting.await.map_err(without_password).map_err(unsent)
    }

    /// Makes a connection to listen on.
    pub(super) async fn listen(&self) -> RedisResult<PubSub> {
        let connecting = async {
            match self {
                Self::Server(client) => client.get_async_pubsub().await,
                Self::Sentinels(sentinels) => sentinels.connect().await?.0.get_async_pubsub().await,
                Self::Cluster(cluster) => cluster.listen().await,
            }
        };
        connecting.await.map_err(without_password)
    }

    pub(super) fn db(&self) -> i64 {
        match self {
            Self::Server(client) => client.get_connection_info().redis_settings().db(),
            Self::Sentinels(sentinels) => sentinels.db(),
            Self::Cluster(_) => 0,
        }
    }
}

impl Link {
    pub(super) async fn command(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Server(connection) => connection.send_packed_command(cmd).await,
            Self::Cluster(connection) => connection.req_packed_command(cmd).await,
        }
    }

    pub(super) async fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        match self {
            Self::Server(connection) => {
                let replies = connection.send_packed_commands(pipeline, offset, count);
                replies.await
            }
            Self::Cluster(connection) => {
                let replies = connection.req_packed_commands(pipeline, offset, count);
                replies.await
            }
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(client) => client.get_connection_info().addr().fmt(f),
            Self::Sentinels(sentinels) => f.write_str(&sentinels.describe()),
            Self::Cluster(cluster) => f.write_str(&cluster.describe()),
        }
    }
}

/// A call that meets an outage is to fail within its own deadline, which is a second unless told
/// otherwise.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        // The deadline of a command is its caller's: a second timer for each would be a twentieth of
        // what it costs.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(1024);
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// A server repeats the words of a command that it does not know. The first ones on a connection have the password among them.
pub(super) fn repeats_command(error: &RedisError) -> bool {
    let repeats = |detail: &str| detail.contains("with args beginning with");
    error.detail().is_some_and(repeats)
}

fn without_password(error: RedisError) -> RedisError {
    if !repeats_command(&error) {
        return error;
    }
    let what = "the server does not know a command that a connection begins with: \
                with `protocol=3` that is `HELLO`, else `AUTH` or `SELECT`";
    RedisError::from((ErrorKind::InvalidClientConfig, what))
}

/// Whatever it was, a time-out included: the command was not sent, and this says so.
fn unsent(error: RedisError) -> RedisError {
    // It is how rustls tells of a certificate that it does not accept, and of a peer without TLS.
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<Source>());
    let io = source.and_then(|source| source.downcast_ref::<io::Error>());
    if io.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData) {
        let what = "TLS is not possible with this server and these certificates";
        return RedisError::from((ErrorKind::InvalidClientConfig, what, error.to_string()));
    }
    if error.is_connection_refusal() {
        return error;
    }
    if error.is_io_error() || error.kind() == ErrorKind::Client {
        return RedisError::from(io::Error::new(io::ErrorKind::ConnectionRefused, error));
    }
    error
}

/// How the client keeps the cause of an error.
type Source = Arc<dyn Error + Send + Sync>;

/// An error that says: not sent, and worth another try.
pub(super) fn not_now(what: &'static str) -> RedisError {
    RedisError::from(io::Error::new(io::ErrorKind::ConnectionRefused, what))
}

pub(super) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let answered = timeout(limit, answer).await;
    answered.unwrap_or_else(|_| Err(RedisError::from(io::Error::from(io::ErrorKind::TimedOut))))
}

pub(super) fn tcp_settings() -> TcpSettings {
    // A peer that vanished without a word (a fail-over behind one address, a dropped NAT entry)
    // would otherwise hold the connection for the quarter of an hour that TCP retransmits.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(3));
    let settings = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(Duration::from_secs(10));
    settings
}
