//! Servers, stores on them, and commands to them.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use idempotence_test_servers::RedisServer;
use idempotent_redis::redis::{self, Value, cmd};
use idempotent_redis::{RedisOptions, RedisStore};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Store, StoreError, StoreErrorKind};
use tokio::sync::watch;

use support::redis_client as admin;

pub(crate) const VALUE: Bytes = Bytes::from_static(b"value");
pub(crate) const DONE: Bytes = Bytes::from_static(b"done");
pub(crate) const TTL: Duration = Duration::from_mins(10);
/// Far longer than a notification takes, also on a slow machine.
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(3);

/// A store on the shared server.
pub(crate) async fn shared() -> RedisStore {
    let url = RedisServer::shared().unwrap().url();
    RedisStore::connect(&url).await.unwrap()
}

/// A store that may not read the version of the server, so it claims with the script for old servers.
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

/// A store on this server that may not read its version.
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

/// The error and its sources in one line.
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
    // The socket needs no certificates.
    admin::connection_to(server.unix_url()).await
}

pub(crate) async fn send(server: &RedisServer, command: &redis::Cmd) -> Value {
    let mut connection = connection_to(server).await;
    command.query_async(&mut connection).await.unwrap()
}

/// The ids of all connections, including the connection of this command.
pub(crate) async fn clients(server: &RedisServer) -> Vec<String> {
    let clients = send(server, cmd("CLIENT").arg("LIST")).await;
    let clients: String = redis::from_redis_value(clients).unwrap();
    let ids = clients.lines().map(|line| line.split(' ').next().unwrap());
    ids.map(str::to_owned).collect()
}

/// Polls the server until it answers `expected`.
pub(crate) async fn becomes<T>(server: &RedisServer, question: &redis::Cmd, expected: T)
where
    T: redis::FromRedisValue + PartialEq + std::fmt::Debug,
{
    let mut connection = connection_to(server).await;
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let answer: T = question.query_async(&mut connection).await.unwrap();
        if answer == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        tokio::task::yield_now().await;
    }
}

/// Polls all servers until exactly one connection is subscribed to `key`.
pub(crate) async fn is_listened_to(servers: &[RedisServer], key: &str) {
    let deadline = Instant::now() + MAX_WAIT;
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

/// Connects, and retries: on a busy machine sentinels may disagree, or a handshake may be too slow.
pub(crate) async fn connected_by(options: &RedisOptions, url: &str) -> RedisStore {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match options.clone().connect(url).await {
            Ok(store) => return store,
            Err(error) => assert!(Instant::now() < deadline, "{}", chain(&error)),
        }
    }
}

/// Subscribes, and tries again: on a busy machine a subscription may take longer than a store waits for it.
pub(crate) async fn subscribed(store: &RedisStore, key: &str) -> watch::Receiver<()> {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        if let Some(listener) = store.subscribe(key).await {
            return listener;
        }
        assert!(Instant::now() < deadline, "there are no hints");
    }
}

/// Asserts that a removal through the client of a cluster has found its record. The client sends it again after half a second without
/// an answer, and then it finds nothing. Returns whether that happened.
pub(crate) async fn removed_in_cluster(
    removal: impl Future<Output = Result<Swap, StoreError>>,
) -> bool {
    let sent = Instant::now();
    let answer = removal.await.unwrap();
    let is_repeated = answer == Swap::Absent && sent.elapsed() >= Duration::from_millis(500);
    assert!(answer == Swap::Done || is_repeated, "{answer:?}");
    is_repeated
}

/// Claims, renews, settles and removes a record.
pub(crate) async fn assert_works(store: &RedisStore) {
    let key = settled(store).await;
    assert_eq!(store.remove(&key, &DONE).await.unwrap(), Swap::Done);
}

/// As [`assert_works`], through the client of a cluster.
pub(crate) async fn assert_works_in_cluster(store: &RedisStore) {
    let key = settled(store).await;
    removed_in_cluster(store.remove(&key, &DONE)).await;
}

/// Claims, renews and settles a record. Returns its key.
async fn settled(store: &RedisStore) -> String {
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
    key
}

/// The rules of a user with exactly the documented permissions.
pub(crate) const LEAST: &str =
    "on >s3cret ~redis_store:* +set +get +pttl +pexpire +del +evalsha +eval +info";

/// Makes a user on this server.
pub(crate) async fn add_user(server: &RedisServer, user: &str, rules: &str) {
    let rules: Vec<_> = rules.split(' ').collect();
    send(server, cmd("ACL").arg("SETUSER").arg(user).arg(&rules)).await;
}

/// Asks how many connections are subscribed to `key`.
pub(crate) fn listening_to(key: &str) -> redis::Cmd {
    cmd("PUBSUB").arg("NUMSUB").arg(key).clone()
}
