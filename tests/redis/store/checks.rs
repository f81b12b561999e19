//! The checks when a store connects.

use std::time::{Duration, Instant};

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::{Idempotency, Store, StoreErrorKind};
use support::log_capture::LogCapture;

use crate::store::servers::{
    TTL, VALUE, by_script, chain, claims_natively, connection_to, kind, send, shared, url_of_user,
};

#[tokio::test]
async fn a_new_server_claims_natively() {
    assert!(claims_natively(&shared().await));
}

#[tokio::test]
async fn an_evicting_server_is_refused_unless_that_is_accepted() {
    let args = ["--maxmemory", "10mb", "--maxmemory-policy", "volatile-lru"];
    let server = RedisServer::start_with(args).unwrap();
    let url = server.url();
    let refused = RedisStore::connect(&url).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Misconfigured);
    let text = chain(&refused);
    for part in [
        "maxmemory-policy",
        "volatile-lru",
        "10485760",
        "allow_eviction",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let refused = RedisStore::from_connection(connection_to(&server).await).await;
    assert_eq!(kind(refused), StoreErrorKind::Misconfigured);

    let allowing = RedisStore::options().allow_eviction(true);
    let in_the_url = format!("{url}?allow_eviction=true");
    RedisStore::connect(&in_the_url).await.unwrap();
    allowing.clone().connect(&url).await.unwrap();
    let connection = connection_to(&server).await;
    allowing.clone().from_connection(connection).await.unwrap();
    let refusing = format!("{url}/?protocol=3&allow_eviction=false");
    assert_eq!(
        kind(allowing.connect(&refusing).await),
        StoreErrorKind::Misconfigured
    );
    let wrong = RedisStore::connect(&format!("{url}?allow_eviction=yes")).await;
    assert_eq!(kind(wrong), StoreErrorKind::Misconfigured);
}

#[tokio::test]
async fn a_policy_without_a_limit_evicts_nothing() {
    let server = RedisServer::start_with(["--maxmemory-policy", "allkeys-lru"]).unwrap();
    RedisStore::connect(&server.url()).await.unwrap();
}

#[tokio::test]
async fn a_server_without_info_is_accepted_with_a_warning() {
    let log = LogCapture::start();
    let server = RedisServer::start().unwrap();
    let store = by_script(&server).await;
    assert_eq!(log.events().len(), 1, "{:?}", log.events());
    store.claim("key", &VALUE, TTL).await.unwrap();
}

#[tokio::test]
async fn a_missing_permission_to_subscribe_is_logged_once() {
    let log = LogCapture::start();
    let server = RedisServer::start().unwrap();
    let rules = [
        "SETUSER",
        "deaf",
        "on",
        ">s3cret",
        "~*",
        "+@all",
        "-subscribe",
    ];
    send(&server, cmd("ACL").arg(&rules)).await;
    let store = RedisStore::connect(&url_of_user(&server, "deaf"))
        .await
        .unwrap();
    for _ in 0..3 {
        assert!(store.subscribe("key").await.is_none());
    }
    assert_eq!(log.events().len(), 1, "{:?}", log.events());
}

#[tokio::test]
async fn connecting_to_a_dead_or_silent_server_fails_in_time() {
    let server = RedisServer::start().unwrap();
    let address = server.url().replace("redis://", "");
    for break_it in [RedisServer::pause, RedisServer::kill] {
        break_it(&server).unwrap();
        let begun = Instant::now();
        let error = RedisStore::connect(&server.url()).await.unwrap_err();
        assert!(
            begun.elapsed() < Duration::from_secs(25),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(error.kind(), StoreErrorKind::NotApplied);
        let text = chain(&error);
        assert!(text.contains(&address), "{text}");
    }
}

#[tokio::test]
async fn a_handle_accepts_every_redis_url() {
    let server = RedisServer::start().unwrap();
    Idempotency::from_url(&server.url()).await.unwrap();
    Idempotency::from_url(&server.unix_url()).await.unwrap();
    for (url, expected) in [
        ("redis-cluster://127.0.0.1:1", "redis cluster 127.0.0.1:1"),
        (
            "redis-sentinel://127.0.0.1:1/m",
            "redis master `m` of the sentinels 127.0.0.1:1",
        ),
        ("redis-sentinel://127.0.0.1:1", "names no master"),
        ("redis+cluster://127.0.0.1:1", "`redis-cluster://`"),
        ("rediss://127.0.0.1:1#insecure", "root_certificates"),
        ("rediss-cluster://127.0.0.1:1", ""),
        ("rediss-sentinel://127.0.0.1:1/m", ""),
    ] {
        let error = Idempotency::from_url(url).await.unwrap_err();
        let text = chain(&error);
        assert!(text.contains("cannot use the Redis"), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_missing_database_is_a_misconfiguration() {
    let server = RedisServer::start().unwrap();
    let error = RedisStore::connect(&format!("{}/99", server.url())).await;
    assert_eq!(kind(error), StoreErrorKind::Misconfigured);
}

#[tokio::test]
async fn no_error_contains_the_password() {
    let server = RedisServer::start_with(["--requirepass", "right"]).unwrap();
    let port = server.port();
    for url in [
        format!("redis://:s3cret@127.0.0.1:{port}"),
        format!("redis://user:s3cret@127.0.0.1:{port}"),
        "redis://:s3cret@127.0.0.1:1".to_owned(),
        "redis://:s3cret@127.0.0.1:70000".to_owned(),
        "redis://:s3cret@127.0.0.1/no-number".to_owned(),
        "redis://:s3c#s3cret@127.0.0.1".to_owned(),
        "redis://:s3c/s3cret@127.0.0.1".to_owned(),
        "redis://:a?allow_eviction=s3cret@127.0.0.1".to_owned(),
        "http://:s3cret@127.0.0.1".to_owned(),
        "s3cret".to_owned(),
    ] {
        let error = RedisStore::connect(&url).await.unwrap_err();
        for text in [chain(&error), format!("{error:?}"), format!("{error:#?}")] {
            assert!(!text.contains("s3c"), "{url}: {text}");
        }
    }
    let wrong = RedisStore::connect(&format!("redis://:wrong@127.0.0.1:{port}")).await;
    assert_eq!(kind(wrong), StoreErrorKind::Misconfigured);
    assert_eq!(
        kind(RedisStore::connect(&server.url()).await),
        StoreErrorKind::Misconfigured
    );
    let store = RedisStore::connect(&format!("redis://:right@127.0.0.1:{port}"))
        .await
        .unwrap();
    assert!(!format!("{store:?}").contains("right"));
}
