//! The texts of errors: for operators, and for clients.

use std::time::Duration;

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::{Idempotency, Store, StoreError, StoreErrorKind};

use crate::store::servers::{TTL, VALUE, add_user, send, url_of_user};

/// Asserts that the text is `place` and `reason`, and that the reason has no address and no password.
#[track_caller]
fn assert_text(error: &StoreError, place: &str, reason: &str) {
    assert_eq!(error.to_string(), format!("{place} {reason}"));
    for secret in ["127.0.0.1", "s3cret", "shop"] {
        assert!(!error.why().contains(secret), "{}", error.why());
    }
}

async fn refused(url: &str) -> StoreError {
    RedisStore::connect(url).await.unwrap_err()
}

async fn claim(store: &RedisStore) -> StoreError {
    store.claim("key", &VALUE, TTL).await.unwrap_err()
}

/// The place of the server, as errors name it.
fn place(server: &RedisServer) -> String {
    format!("redis 127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn a_url_that_is_wrong_is_explained() {
    for (url, reason) in [
        ("http://:s3cret@host", "must begin with `redis://`"),
        ("redis:host", "must have `://` and a host after its scheme"),
        ("redis://:s3#cret@host", "must not contain `#`"),
        ("redis://host:70000", "has an invalid host or port"),
        ("redis://:s3cret/x@host", "has an invalid host or port"),
        (
            "redis://host/shop",
            "must have a whole number as the database",
        ),
        (
            "redis://a,b",
            "names several hosts, so it must begin with `redis-cluster://`",
        ),
        (
            "redis://host?shop=s3cret",
            "has an unknown parameter `shop`: the known parameters are `allow_eviction`",
        ),
        (
            "redis://host?replica=3",
            "has an unknown parameter `replica`: did you mean `replicas`?",
        ),
        (
            "redis://:s?s3cret=x@host",
            "has an unknown parameter at position 1",
        ),
        (
            "redis-sentinel://host/m?sentinel_pass=a&s3cret=x",
            "has an unknown parameter at position 2",
        ),
        (
            "redis://host?replicas=s3cret",
            "must set `replicas` to a whole number",
        ),
        (
            "redis://:100%@host",
            "has a `%` that is not followed by two hexadecimal digits",
        ),
        (
            "redis-sentinel://host",
            "names no master: write `redis-sentinel://host:26379/master`",
        ),
        (
            "redis+unix:",
            "names no socket: write `redis+unix:///path/to/the.sock`",
        ),
    ] {
        let text = refused(url).await.to_string();
        assert!(
            text.starts_with(&format!("the Redis URL {reason}")),
            "{url}: {text}"
        );
        assert!(!text.contains("s3"), "{url}: {text}");
    }
    let options = RedisStore::options().root_certificates("s3cret");
    let error = options.clone().connect("redis://host").await.unwrap_err();
    let reason =
        "need a URL of TLS: write `rediss://`, `rediss-cluster://` or `rediss-sentinel://`";
    assert_text(&error, "the certificates for Redis", reason);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named_with_the_reason() {
    let server = RedisServer::start().unwrap();
    let (url, socket, at) = (server.url(), server.unix_url(), place(&server));
    server.pause().unwrap();
    let silent = "did not answer in time to a new connection (check host, port, TLS and firewall)";
    assert_text(&refused(&url).await, &at, silent);
    server.kill().unwrap();
    let closed = "refused the connection (is the server running?)";
    assert_text(&refused(&url).await, &at, closed);
    let nodes = url.replace("redis://", "redis-cluster://");
    let cluster = at.replace("redis ", "redis cluster ");
    let error = refused(&nodes).await;
    assert_text(
        &error,
        &cluster,
        "refused the connection at every node (are the servers running?)",
    );
    let sentinels = url.replace("redis://", "redis-sentinel://") + "/shop";
    let master = at.replace("redis ", "redis master `shop` of the sentinels ");
    assert_text(&refused(&sentinels).await, &master, closed);
    assert!(
        refused(&socket)
            .await
            .to_string()
            .ends_with("(is the server running?)")
    );
    let missing = refused("redis+unix:///nowhere/redis.sock").await;
    let reason = "has no socket at this path (is the server running?)";
    assert_text(&missing, "redis /nowhere/redis.sock", reason);
    let unknown = refused("redis://redis.invalid").await;
    let reason = "has a host name that no name server knows (check the host in the URL)";
    assert_text(&unknown, "redis redis.invalid:6379", reason);

    let error = Idempotency::from_url(&url).await.unwrap_err();
    let text = format!("cannot use the Redis of this URL: {at} {closed}");
    assert!(format!("{error:?}").starts_with(&text), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_killed_in_a_command_is_named_with_the_reason() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    server.pause().unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { claim(&store).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.kill().unwrap();
    let reason = "closed the connection before it answered (was the server stopped?)";
    assert_text(&waiting.await.unwrap(), &place(&server), reason);
    let reason = "refused the connection (is the server running?)";
    assert_text(&claim(&store).await, &place(&server), reason);
}

#[tokio::test]
async fn a_login_that_is_refused_is_named_with_the_reason() {
    let server = RedisServer::start_with(["--requirepass", "right"]).unwrap();
    let (at, port) = (place(&server), server.port());
    let without = refused(&server.url()).await;
    let reason = "requires a password (write `user:password@` before the host in the URL)";
    assert_text(&without, &at, reason);
    let wrong = "did not accept the user or the password (check both in the URL)";
    for protocol in [2, 3] {
        let url = format!("redis://:s3cret@127.0.0.1:{port}?protocol={protocol}");
        assert_text(&refused(&url).await, &at, wrong);
    }
    let url = format!("redis://:right@127.0.0.1:{port}/99");
    let reason = "has no database of this number (check the end of the URL)";
    assert_text(&refused(&url).await, &at, reason);
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named() {
    let server = RedisServer::start().unwrap();
    for (rules, reason) in [
        (
            "~* +@all -set",
            "does not let this user run `set` (allow `+set`)",
        ),
        (
            "~elsewhere:* +@all",
            "does not let this user use this key (allow the keys of the prefix, such as `~idem:*`)",
        ),
    ] {
        add_user(&server, "shop", &format!("reset on >s3cret {rules}")).await;
        let store = RedisStore::connect(&url_of_user(&server, "shop")).await;
        assert_text(&claim(&store.unwrap()).await, &place(&server), reason);
    }
    // A claim by a script: the refusal is a part of the script's error.
    add_user(&server, "shop", "reset on >s3cret ~* +@all -info -set").await;
    let store = RedisStore::connect(&url_of_user(&server, "shop")).await;
    let text = claim(&store.unwrap()).await.to_string();
    assert!(text.contains(" does not let this user run "), "{text}");
    for script in ["eval", "evalsha"] {
        let rules = format!("reset on >s3cret ~* +@all -{script}");
        add_user(&server, "shop", &rules).await;
        let error = refused(&url_of_user(&server, "shop")).await;
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        let reason = format!("does not let this user run `{script}` (allow `+{script}`)");
        assert_text(&error, &place(&server), &reason);
    }
}

#[tokio::test]
async fn a_server_that_refuses_writes_is_named_with_the_reason() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let at = place(&server);
    let set = |name: &str, value: &str| cmd("CONFIG").arg(&["SET", name, value]).clone();
    let replica = |of: [&str; 2]| cmd("REPLICAOF").arg(&of).clone();
    for (refusing, accepting, reason) in [
        (
            set("maxmemory", "1"),
            set("maxmemory", "0"),
            "is out of memory (raise `maxmemory`, or remove keys)",
        ),
        (
            set("min-replicas-to-write", "1"),
            set("min-replicas-to-write", "0"),
            "refuses writes because too few replicas are in sync (see `min-replicas-to-write`)",
        ),
        (
            replica(["127.0.0.1", "1"]),
            replica(["NO", "ONE"]),
            "is a read-only replica (connect to its primary)",
        ),
    ] {
        send(&server, &refusing).await;
        assert_text(&claim(&store).await, &at, reason);
        send(&server, &accepting).await;
    }
    send(&server, cmd("RPUSH").arg("key").arg("foreign")).await;
    let reason =
        "holds a value of another type under this key, such as a list, which another program wrote";
    assert_text(&claim(&store).await, &at, reason);
    send(&server, cmd("DEL").arg("key")).await;
    let wanting = format!("{}?replicas=1&replica_timeout=50ms", server.url());
    let wanting = RedisStore::connect(&wanting).await.unwrap();
    let reason = "has the record on 0 of 1 replicas after 50ms (are they connected and in time?)";
    assert_text(&claim(&wanting).await, &at, reason);
    send(&server, &set("maxmemory-policy", "allkeys-lru")).await;
    send(&server, &set("maxmemory", "100mb")).await;
    let text = refused(&server.url()).await.to_string();
    assert!(
        text.starts_with(&format!("{at} may evict live records")),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_of_another_kind_is_named_with_the_reason() {
    let node = RedisServer::start_with(["--cluster-enabled", "yes"]).unwrap();
    let store = RedisStore::connect(&node.url()).await.unwrap();
    let reason = "is a cluster in which no primary serves this key (see `CLUSTER INFO`)";
    assert_text(&claim(&store).await, &place(&node), reason);

    let sentinel = RedisServer::start_with(["--sentinel"]).unwrap();
    let reason = "is a sentinel and stores no records (write `redis-sentinel://host/master`)";
    assert_text(&refused(&sentinel.url()).await, &place(&sentinel), reason);
    let url = sentinel.url().replace("redis://", "redis-sentinel://") + "/other";
    let at = place(&sentinel).replace("redis ", "redis master `other` of the sentinels ");
    let reason = "knows no master of this name (compare the URL with `SENTINEL MASTERS`)";
    assert_text(&refused(&url).await, &at, reason);
}

#[cfg(feature = "redis-rustls")]
#[tokio::test]
async fn a_port_with_or_without_tls_is_named_with_the_reason() {
    let (plain, tls) = (
        RedisServer::start().unwrap(),
        RedisServer::start_tls().unwrap(),
    );
    let url = plain.url().replace("redis://", "rediss://");
    let text = refused(&url).await.to_string();
    let reason = "did not answer in time to a new connection (check host, port, TLS and firewall)";
    assert_eq!(text, format!("{} {reason}", place(&plain)));
    let url = tls.url().replace("rediss://", "redis://");
    let text = refused(&url).await.to_string();
    assert!(
        text.starts_with(&place(&tls)) && text.contains("does this port expect TLS?"),
        "{text}"
    );
    let reason = "shows a certificate of an unknown authority (give its certificate to \
                  `RedisOptions::root_certificates`)";
    assert_text(&refused(&tls.url()).await, &place(&tls), reason);
}
