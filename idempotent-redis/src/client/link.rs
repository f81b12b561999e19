//! Makes a connection to one server or to a cluster.

use std::io;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind,
    IntoConnectionInfo as _, Pipeline, RedisConnectionInfo, RedisError, RedisResult, Value,
};
use tokio::time::timeout;

use crate::client::cluster_link::ClusterLink;
use crate::client::reason::{Unavailable, io_error};
use crate::client::url::Host;

/// A connection to the servers of the records.
#[derive(Clone)]
pub(crate) enum Link {
    Server(MultiplexedConnection),
    Cluster(ClusterLink),
}

impl Link {
    pub(crate) async fn command(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Server(connection) => connection.send_packed_command(cmd).await,
            Self::Cluster(connection) => connection.command(cmd).await,
        }
    }

    pub(crate) async fn pipeline(
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
            Self::Cluster(connection) => connection.pipeline(pipeline, offset, count).await,
        }
    }
}

/// The longest time to connect. During an outage a call should fail within its deadline, by default 1 s.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        // The caller sets the deadline of a command. A second timer would be a twentieth of the cost of a command.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(1024);
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// The error of a command that was not sent and may be sent again.
pub(crate) fn unavailable(reason: &'static str) -> RedisError {
    let reason = Unavailable(reason);
    RedisError::from(io::Error::new(io::ErrorKind::ConnectionRefused, reason))
}

pub(crate) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let answered = timeout(limit, answer).await;
    answered.unwrap_or_else(|_| Err(RedisError::from(io::Error::from(io::ErrorKind::TimedOut))))
}

pub(crate) fn tcp_settings() -> TcpSettings {
    // Without these settings a peer that vanished (a fail-over behind one address, a dropped NAT entry) would block the
    // connection for the quarter of an hour in which TCP retransmits.
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

/// The address of a server.
pub(crate) fn address((host, port): Host, tls: bool) -> ConnectionAddr {
    if tls {
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
}

/// The address and the login of a server.
pub(crate) fn connection_info(
    address: ConnectionAddr,
    login: RedisConnectionInfo,
) -> RedisResult<ConnectionInfo> {
    let info = address.into_connection_info()?;
    Ok(info
        .set_redis_settings(login)
        .set_tcp_settings(tcp_settings()))
}

/// Whether the error quotes a command that the server does not know. The first commands of a connection contain the password.
pub(crate) fn quotes_command(error: &RedisError) -> bool {
    let quotes = |detail: &str| detail.contains("with args beginning with");
    error.detail().is_some_and(quotes)
}

/// The error, or another error in its place if its text contains the password.
pub(crate) fn without_password(error: RedisError) -> RedisError {
    if !quotes_command(&error) {
        return error;
    }
    let what = "the server does not know the first command of a connection, which is `HELLO` \
                if the URL has `protocol=3`, and otherwise `AUTH` or `SELECT`";
    RedisError::from((ErrorKind::InvalidClientConfig, what))
}

/// Converts an error of connecting, time-outs included, to a refused connection, because the command was not sent. An error of
/// TLS becomes a wrong configuration. Other answers of the server do not change.
pub(crate) fn unsent(error: RedisError) -> RedisError {
    // In this way rustls reports a certificate that it does not accept, and a peer without TLS.
    if io_error(&error).is_some_and(|error| error.kind() == io::ErrorKind::InvalidData) {
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
