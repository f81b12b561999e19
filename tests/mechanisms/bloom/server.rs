//! Servers, and what the tests read from them.

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{Cmd, FromRedisValue, cmd};

use support::redis_client::connection_to;

pub(crate) async fn store_on(server: &RedisServer) -> RedisStore {
    RedisStore::connect(&server.url()).await.unwrap()
}

pub(crate) async fn ask<T: FromRedisValue>(server: &RedisServer, command: &Cmd) -> T {
    let mut connection = connection_to(server.unix_url()).await;
    command.query_async(&mut connection).await.unwrap()
}

pub(crate) async fn keys(server: &RedisServer) -> Vec<String> {
    ask(server, cmd("KEYS").arg("*")).await
}

/// A number in `INFO`, such as `used_memory`, or a part of an entry, such as `usec` of `cmdstat_evalsha`.
pub(crate) async fn info(server: &RedisServer, section: &str, name: &str, part: &str) -> f64 {
    let info: String = ask(server, cmd("INFO").arg(section)).await;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let Some(line) = line else {
        return 0.0;
    };
    let mut parts = line.split(',').filter_map(|part| part.split_once('='));
    let part = parts
        .find(|(name, _)| *name == part)
        .map_or(line, |(_, value)| value);
    part.trim().parse().unwrap()
}

/// How often the server ran this command.
pub(crate) async fn calls(server: &RedisServer, command: &str) -> f64 {
    info(
        server,
        "commandstats",
        &format!("cmdstat_{command}"),
        "calls",
    )
    .await
}
