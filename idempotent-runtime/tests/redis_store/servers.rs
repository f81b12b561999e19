//! Servers, stores on them, and what the tests say to them.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use idempotence_test_servers::RedisServer;
use idempotent_runtime::redis::redis::{self, AsyncConnectionConfig, Client, Value, cmd};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{RedisOptions, RedisStore, Store, StoreError, StoreErrorKind};

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

pub(crate) fn removes_natively(store: &RedisStore) -> bool {
    format!("{store:?}").contains("native_removal: Some")
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
    // By the socket, because that needs no certificates.
    let client = Client::open(server.unix_url()).unwrap();
    // Hundreds of tests run at once, and what is asked for here is not what they try.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

pub(crate) async fn send(server: &RedisServer, command: &redis::Cmd) -> Value {
    let mut connection = connection_to(server).await;
    command.query_async(&mut connection).await.unwrap()
}

/// The numbers of all who are connected, the one that asks included.
pub(crate) async fn clients(server: &RedisServer) -> Vec<String> {
    let clients = send(server, cmd("CLIENT").arg("LIST")).await;
    let clients: String = redis::from_redis_value(clients).unwrap();
    let ids = clients.lines().map(|line| line.split(' ').next().unwrap());
    ids.map(str::to_owned).collect()
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

/// Asks all servers until one connection to any of them listens to `key`.
pub(crate) async fn is_listened_to(servers: &[RedisServer], key: &str) {
    let deadline = Instant::now() + PATIENCE;
    let mut connections = Vec::new();
    for server in servers {
        connections.push(connection_to(server).await);
    }
    loop {
        let mut listening = 0;
        for connection in &mut connections {
            let answer: (String, u32) = listening_to(key).query_async(connection).await.unwrap();
            listening += answer.1;
        }
        if listening == 1 {
            return;
        }
        assert!(Instant::now() < deadline, "{listening} listen to {key}");
        tokio::task::yield_now().await;
    }
}

/// On a busy machine sentinels may be at odds, or a handshake may take too long.
pub(crate) async fn connected_by(options: &RedisOptions, url: &str) -> RedisStore {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match options.clone().connect(url).await {
            Ok(store) => return store,
            Err(error) => assert!(Instant::now() < deadline, "{}", chain(&error)),
        }
    }
}

/// Has a record claimed, renewed, settled and removed.
pub(crate) async fn assert_works(store: &RedisStore) {
    let key = key();
    assert_eq!(
        store.claim(&key, &VALUE, TTL).await.unwrap(),
        Claim::Claimed
    );
    for value in [VALUE, DONE] {
        let swap = store.replace(&key, &VALUE, &value, TTL).await.unwrap();
        assert_eq!(swap, Swap::Done);
    }
    assert_eq!(store.get(&key).await.unwrap().unwrap().value, DONE);
    assert_eq!(store.remove(&key, &DONE).await.unwrap(), Swap::Done);
}

/// A user who has what the documentation says, and nothing else.
pub(crate) const LEAST: &str =
    "on >s3cret ~redis_store:* +set +get +pttl +pexpire +del +evalsha +eval +info";

/// Makes a user on this server.
pub(crate) async fn add_user(server: &RedisServer, user: &str, rules: &str) {
    let rules: Vec<_> = rules.split(' ').collect();
    send(server, cmd("ACL").arg("SETUSER").arg(user).arg(&rules)).await;
}

/// How many connections listen to `key`.
pub(crate) fn listening_to(key: &str) -> redis::Cmd {
    cmd("PUBSUB").arg("NUMSUB").arg(key).clone()
}
