//! Servers, stores on them, and what the tests say to them.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use idempotent_runtime::store::redis::redis::{self, Client, Value, cmd};
use idempotent_runtime::testkit::RedisServer;
use idempotent_runtime::{RedisStore, StoreError, StoreErrorKind};

pub(crate) const VALUE: Bytes = Bytes::from_static(b"value");
pub(crate) const DONE: Bytes = Bytes::from_static(b"done");
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// Far longer than a hint takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A store on the server that the tests of this file share.
pub(crate) async fn shared() -> RedisStore {
    let url = RedisServer::shared().unwrap().url();
    RedisStore::connect(&url).await.unwrap()
}

/// One that may not ask for the server's version, and so claims by the script for old servers.
pub(crate) async fn shared_by_script() -> RedisStore {
    let server = RedisServer::shared().unwrap();
    let user = format!("scripted{}", next());
    let rules = ["on", ">s3cret", "~*", "+@all", "-info"];
    send(server, cmd("ACL").arg("SETUSER").arg(&user).arg(&rules)).await;
    let url = url_of_user(server, &user);
    let store = RedisStore::connect(&url).await.unwrap();
    assert!(!claims_natively(&store));
    store
}

/// A user of this server who may do all but ask for its version.
pub(crate) async fn by_script(server: &RedisServer) -> RedisStore {
    let rules = ["on", ">s3cret", "~*", "+@all", "-info"];
    send(
        server,
        cmd("ACL").arg("SETUSER").arg("scripted").arg(&rules),
    )
    .await;
    let store = RedisStore::connect(&url_of_user(server, "scripted"))
        .await
        .unwrap();
    assert!(!claims_natively(&store));
    store
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, StoreError>) -> StoreErrorKind {
    result.unwrap_err().kind()
}

pub(crate) fn claims_natively(store: &RedisStore) -> bool {
    format!("{store:?}").contains("native_claim: true")
}

pub(crate) fn url_of_user(server: &RedisServer, user: &str) -> String {
    format!("redis://{user}:s3cret@127.0.0.1:{}", server.port())
}

/// What a person is shown.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

pub(crate) fn next() -> usize {
    static NUMBERS: AtomicUsize = AtomicUsize::new(0);
    NUMBERS.fetch_add(1, Ordering::SeqCst)
}

pub(crate) fn key() -> String {
    format!("redis_store:{}", next())
}

pub(crate) async fn connection_to(server: &RedisServer) -> redis::aio::MultiplexedConnection {
    let client = Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

pub(crate) async fn send(server: &RedisServer, command: &redis::Cmd) -> Value {
    let mut connection = connection_to(server).await;
    command.query_async(&mut connection).await.unwrap()
}

/// Asks the server until it answers `expected`.
pub(crate) async fn becomes<T>(server: &RedisServer, question: &redis::Cmd, expected: T)
where
    T: redis::FromRedisValue + PartialEq + std::fmt::Debug,
{
    let mut connection = connection_to(server).await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer: T = question.query_async(&mut connection).await.unwrap();
        if answer == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        tokio::task::yield_now().await;
    }
}

/// How many connections listen to `key`.
pub(crate) fn listening_to(key: &str) -> redis::Cmd {
    cmd("PUBSUB").arg("NUMSUB").arg(key).clone()
}
