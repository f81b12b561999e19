//! A connection from a test to its Redis server.

use std::time::Duration;

use idempotent_redis::redis::aio::MultiplexedConnection;
use idempotent_redis::redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};

/// The client waits 500 ms for a reply by default, which is too short on a busy machine. This connection is not under test.
const TIMEOUT: Option<Duration> = Some(Duration::from_mins(1));

pub async fn connection_to(server: impl IntoConnectionInfo) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(TIMEOUT)
        .set_response_timeout(TIMEOUT);
    let client = Client::open(server).unwrap();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}
