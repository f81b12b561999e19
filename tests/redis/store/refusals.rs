//! Refusals by the server, and their kinds.

use std::time::{Duration, Instant};

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{cmd, from_redis_value};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Error, Idempotency, Store, StoreErrorKind};

use crate::store::servers::{
    DONE, LEAST, MAX_WAIT, TTL, VALUE, add_user, assert_works, by_script, chain, claims_natively,
    key, kind, next, removes_natively, send, shared, shared_by_script, url_of_user,
};

#[tokio::test]
async fn a_full_server_refuses_data_but_renews_and_releases() {
    let server = RedisServer::start().unwrap();
    for store in [
        RedisStore::connect(&server.url()).await.unwrap(),
        by_script(&server).await,
    ] {
        store.claim("held", &VALUE, TTL).await.unwrap();
        send(&server, cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
        let claim = store.claim("new", &VALUE, TTL).await;
        assert_eq!(kind(claim), StoreErrorKind::Full);
        let completion = store.replace("held", &VALUE, &DONE, TTL).await;
        assert_eq!(kind(completion), StoreErrorKind::Full);
        let renewal = store.replace("held", &VALUE, &VALUE, TTL * 2).await;
        assert_eq!(renewal.unwrap(), Swap::Done);
        let entry = store.get("held").await.unwrap().unwrap();
        assert_eq!(entry.value, VALUE);
        assert!(entry.ttl.unwrap() > TTL);
        let release = store.remove("held", &VALUE).await;
        assert_eq!(release.unwrap(), Swap::Done);
        send(&server, cmd("CONFIG").arg("SET").arg("maxmemory").arg(0)).await;
    }
}

#[tokio::test]
async fn a_result_for_which_a_server_has_no_room_for_a_moment_is_unavailable_to_duplicates() {
    let server = RedisServer::start().unwrap();
    let maxmemory = async |bytes: u8| {
        let mut set = cmd("CONFIG");
        send(&server, set.arg("SET").arg("maxmemory").arg(bytes)).await;
    };
    let store = RedisStore::connect(&server.url()).await.unwrap();
    // The call stores its result again until the deadline.
    let idempotency = Idempotency::builder(store).deadline(Duration::from_secs(5));
    let idempotency = idempotency.build().unwrap();
    let call = || {
        let call = idempotency.call("orders.pay").key(&1).replay();
        call.ttl(Duration::from_hours(24)).lease(TTL)
    };
    let body = async {
        maxmemory(1).await;
        Ok::<_, Error>(7)
    };
    assert_eq!(call().run(body).await.unwrap(), 7);
    maxmemory(0).await;
    idempotency.drain(MAX_WAIT).await.unwrap();
    let never = async { panic!("the body of a duplicate ran") };
    let refused: Result<i32, Error> = call().run(never).await;
    assert_eq!(refused.unwrap_err().code(), "result_unavailable");
}

#[tokio::test]
async fn a_key_of_another_type_is_a_misconfiguration() {
    let server = RedisServer::shared().unwrap();
    for store in [shared().await, shared_by_script().await] {
        let key = key();
        send(server, cmd("RPUSH").arg(&key).arg("foreign")).await;
        assert_misconfigured(&store, &key).await;
    }
}

#[tokio::test]
async fn a_key_that_the_user_may_not_touch_is_a_misconfiguration() {
    let server = RedisServer::shared().unwrap();
    let (forbidden, user) = (key(), format!("elsewhere{}", next()));
    let rules = ["on", ">s3cret", "~elsewhere:*", "+@all"];
    send(server, cmd("ACL").arg("SETUSER").arg(&user).arg(&rules)).await;
    let store = RedisStore::connect(&url_of_user(server, &user))
        .await
        .unwrap();
    assert_misconfigured(&store, &forbidden).await;
}

#[tokio::test]
async fn commands_that_the_user_may_not_send_are_a_misconfiguration() {
    let server = RedisServer::shared().unwrap();
    let (key, user) = (key(), format!("reader{}", next()));
    let rules = ["on", ">s3cret", "~*", "+@all", "-set", "-pexpire", "-del"];
    send(server, cmd("ACL").arg("SETUSER").arg(&user).arg(&rules)).await;
    let store = RedisStore::connect(&url_of_user(server, &user))
        .await
        .unwrap();
    shared().await.claim(&key, &VALUE, TTL).await.unwrap();
    let misconfigured = StoreErrorKind::Misconfigured;
    assert_eq!(kind(store.claim(&key, &VALUE, TTL).await), misconfigured);
    let renewal = store.replace(&key, &VALUE, &VALUE, TTL).await;
    assert_eq!(kind(renewal), misconfigured);
    let completion = store.replace(&key, &VALUE, &DONE, TTL).await;
    assert_eq!(kind(completion), misconfigured);
    assert_eq!(store.get(&key).await.unwrap().unwrap().value, VALUE);
    // The server's own removal command needs another permission than `DEL`.
    if !removes_natively(&store) {
        assert_eq!(kind(store.remove(&key, &VALUE).await), misconfigured);
    }
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let server = RedisServer::shared().unwrap();
    let user = format!("least{}", next());
    add_user(server, &user, LEAST).await;
    let store = RedisStore::connect(&url_of_user(server, &user))
        .await
        .unwrap();
    assert!(claims_natively(&store));
    assert_works(&store).await;
}

#[tokio::test]
async fn a_server_that_refuses_writes_has_applied_nothing() {
    let server = RedisServer::start().unwrap();
    let native = RedisStore::connect(&server.url()).await.unwrap();
    let by_script = by_script(&server).await;
    native.claim("held", &VALUE, TTL).await.unwrap();
    let replica = |of: [&str; 2]| cmd("REPLICAOF").arg(&of).clone();
    let needed = |replicas: u8| {
        let set = ["SET", "min-replicas-to-write", &replicas.to_string()];
        cmd("CONFIG").arg(&set).clone()
    };
    for (refusing, accepting) in [
        (replica(["127.0.0.1", "1"]), replica(["NO", "ONE"])),
        (needed(1), needed(0)),
    ] {
        send(&server, &refusing).await;
        for store in [&native, &by_script] {
            for refused in [
                store.claim("key", &VALUE, TTL).await.map(drop),
                store.replace("held", &VALUE, &VALUE, TTL).await.map(drop),
                store.replace("held", &VALUE, &DONE, TTL).await.map(drop),
                store.remove("held", &VALUE).await.map(drop),
            ] {
                assert_eq!(kind(refused), StoreErrorKind::NotApplied);
            }
        }
        send(&server, &accepting).await;
        for store in [&native, &by_script] {
            let claim = store.claim("key", &VALUE, TTL).await.unwrap();
            assert_eq!(claim, Claim::Claimed);
            let swap = store.remove("key", &VALUE).await.unwrap();
            assert_eq!(swap, Swap::Done);
        }
    }
}

async fn assert_misconfigured(store: &RedisStore, key: &str) {
    let misconfigured = StoreErrorKind::Misconfigured;
    assert_eq!(kind(store.claim(key, &VALUE, TTL).await), misconfigured);
    let renewal = store.replace(key, &VALUE, &VALUE, TTL).await;
    assert_eq!(kind(renewal), misconfigured);
    assert_eq!(kind(store.remove(key, &VALUE).await), misconfigured);
    assert_eq!(kind(store.get(key).await), misconfigured);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loading_server_has_applied_nothing() {
    let slow = [
        "--key-load-delay",
        "500",
        "--loading-process-events-interval-bytes",
        "1024",
    ];
    let server = RedisServer::start_with(slow).unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    store.claim("key", &VALUE, TTL).await.unwrap();
    let many = "for i = 1, 1000 do redis.call('SET', 'record' .. i, 'value') end";
    send(&server, cmd("EVAL").arg(many).arg(0)).await;
    send(&server, &cmd("SAVE")).await;
    let mut failures = Vec::new();
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| server.restart().unwrap());
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            runtime.block_on(async {
                while !restart.is_finished() {
                    if let Err(error) = store.replace("key", &VALUE, &VALUE, TTL).await {
                        failures.push((error.kind(), chain(&error)));
                    }
                }
            });
        });
    });
    let loading = failures.iter().find(|(_, text)| text.contains("loading"));
    assert_eq!(loading.unwrap().0, StoreErrorKind::NotApplied);
    let odd =
        |(kind, _): &&_| ![StoreErrorKind::NotApplied, StoreErrorKind::Unknown].contains(kind);
    assert_eq!(failures.iter().find(odd), None);
    let swap = store.replace("key", &VALUE, &DONE, TTL).await.unwrap();
    assert_eq!(swap, Swap::Done);
}

#[tokio::test]
async fn a_deleted_user_is_a_misconfiguration_and_reconnects_only_now_and_then() {
    let server = RedisServer::start().unwrap();
    add_user(&server, "shop", "on >s3cret ~* +@all").await;
    let store = RedisStore::connect(&url_of_user(&server, "shop"))
        .await
        .unwrap();
    send(&server, cmd("ACL").arg("DELUSER").arg("shop")).await;
    let connections = async || -> u64 {
        let stats: String =
            from_redis_value(send(&server, cmd("INFO").arg("stats")).await).unwrap();
        let count = stats.split("total_connections_received:").nth(1).unwrap();
        count.lines().next().unwrap().parse().unwrap()
    };
    // Deleting the user closes its connections.
    while kind(store.get("key").await) != StoreErrorKind::Misconfigured {}
    let (begun, before) = (Instant::now(), connections().await);
    let mut calls = 0_u32;
    while begun.elapsed() < Duration::from_millis(500) || calls <= 100 {
        assert_eq!(kind(store.get("key").await), StoreErrorKind::Misconfigured);
        calls += 1;
    }
    let tries = u128::from(connections().await - before);
    // The store pauses for 100 ms after a failed connection, and this test also makes connections.
    let most = begun.elapsed().as_millis() / 50;
    assert!(tries <= most, "{tries} connections for {calls} calls");

    add_user(&server, "shop", "on >s3cret ~* +@all").await;
    let deadline = Instant::now() + MAX_WAIT;
    while store.get("key").await.is_err() {
        assert!(Instant::now() < deadline);
    }
}
