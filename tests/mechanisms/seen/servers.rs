//! Private servers, and the commands of the tests.

use std::time::Duration;

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::aio::MultiplexedConnection;
use idempotent_redis::redis::{Cmd, FromRedisValue, cmd};

use support::redis_client as admin;

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

/// The keys of the server, and their times to live in milliseconds, by `PTTL`.
pub(crate) async fn keys(server: &RedisServer) -> Vec<(String, i64)> {
    let mut connection = connection_to(server).await;
    let names: Vec<String> = cmd("KEYS")
        .arg("*")
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut keys = Vec::new();
    for name in names {
        let remaining = cmd("PTTL").arg(&name).query_async(&mut connection).await;
        keys.push((name, remaining.unwrap()));
    }
    keys
}
