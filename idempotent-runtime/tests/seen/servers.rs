//! Private servers, and the commands of the tests.

use std::time::Duration;

use idempotence_test_servers::RedisServer;
use idempotent_runtime::RedisStore;
use idempotent_runtime::redis::redis::aio::MultiplexedConnection;
use idempotent_runtime::redis::redis::{Cmd, FromRedisValue, cmd};

use crate::admin;

/// Far longer than any operation of these tests takes.
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(1);

pub(crate) async fn private() -> (RedisServer, RedisStore) {
    let server = RedisServer::start().unwrap();
    let store = store_on(&server).await;
    (server, store)
}

pub(crate) async fn store_on(server: &RedisServer) -> RedisStore {
    RedisStore::connect(&server.url()).await.unwrap()
}

pub(crate) async fn connection_to(server: &RedisServer) -> MultiplexedConnection {
    admin::connection_to(server.unix_url()).await
}

pub(crate) async fn send<T: FromRedisValue>(server: &RedisServer, command: &Cmd) -> T {
    let mut connection = connection_to(server).await;
    command.query_async(&mut connection).await.unwrap()
}

/// A key of a set on the server.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) key: String,
    /// The time to live in milliseconds, by `PTTL`.
    pub(crate) remaining: i64,
    pub(crate) members: usize,
}

/// All keys of the server.
pub(crate) async fn buckets(server: &RedisServer) -> Vec<Bucket> {
    let mut connection = connection_to(server).await;
    let keys: Vec<String> = cmd("KEYS")
        .arg("*")
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut buckets = Vec::new();
    for key in keys {
        let remaining = cmd("PTTL").arg(&key).query_async(&mut connection).await;
        let members = cmd("HLEN").arg(&key).query_async(&mut connection).await;
        let (remaining, members) = (remaining.unwrap(), members.unwrap());
        // `-2`: the key has expired in the meantime.
        if remaining != -2 {
            buckets.push(Bucket {
                key,
                remaining,
                members,
            });
        }
    }
    buckets
}
