//! Connections that break, servers that restart.

use std::time::{Duration, Instant};

use bytes::Bytes;
use idempotent_runtime::store::redis::redis::{self, Client, Value, cmd};
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::testkit::RedisServer;
use idempotent_runtime::{RedisStore, Store, StoreErrorKind};

use crate::servers::{DONE, PATIENCE, TTL, VALUE, chain, key, kind, send, shared};

#[tokio::test]
async fn the_store_connects_again_after_a_restart() {
    let server =
        RedisServer::start_with(["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    store.claim("key", &VALUE, TTL).await.unwrap();

    server.kill().unwrap();
    // The first call may meet the broken connection, the next ones meet nobody on the port.
    kind(store.get("key").await);
    assert_eq!(kind(store.get("key").await), StoreErrorKind::NotApplied);
    let claim = store.claim("other", &VALUE, TTL).await;
    assert_eq!(kind(claim), StoreErrorKind::NotApplied);

    server.restart().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let entry = loop {
        match store.get("key").await {
            Ok(entry) => break entry,
            Err(error) => assert!(Instant::now() < deadline, "{}", chain(&error)),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(entry.unwrap().value, VALUE);
    let swap = store.replace("key", &VALUE, &DONE, TTL).await.unwrap();
    assert_eq!(swap, Swap::Done);
}

#[tokio::test]
async fn a_reconnection_that_was_refused_is_tried_again() {
    let server = RedisServer::start_with(["--requirepass", "s3cret"]).unwrap();
    let url = format!("redis://:s3cret@127.0.0.1:{}", server.port());
    let store = RedisStore::connect(&url).await.unwrap();
    let client = Client::open(url).unwrap();
    let mut admin = client.get_multiplexed_async_connection().await.unwrap();
    let mut admin =
        async |command: &redis::Cmd| -> Value { command.query_async(&mut admin).await.unwrap() };
    for password in ["changed", "s3cret"] {
        let set = ["SET", "requirepass", password];
        admin(cmd("CONFIG").arg(&set)).await;
        admin(cmd("CLIENT").arg(&["KILL", "TYPE", "normal"])).await;
        let expected = match password {
            "s3cret" => None,
            _ => Some(StoreErrorKind::Misconfigured),
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = store.get("key").await.map_err(|error| error.kind());
            if answer.as_ref().err() == expected.as_ref() {
                break;
            }
            assert!(Instant::now() < deadline, "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_the_connection_in_order() {
    let (store, server) = (shared().await, RedisServer::start().unwrap());
    let key = key();
    for round in 0..200_u32 {
        let value = Bytes::from(round.to_string());
        let claim = store.claim(&key, &value, TTL);
        let patience = Duration::from_micros(u64::from(round));
        let _ = tokio::time::timeout(patience, claim).await;
        if let Some(entry) = store.get(&key).await.unwrap() {
            let swap = store.remove(&key, &entry.value).await.unwrap();
            assert_eq!(swap, Swap::Done);
        }
    }
    let store = RedisStore::connect(&server.url()).await.unwrap();
    server.kill().unwrap();
    for _ in 0..5 {
        let get = store.get(&key);
        let _ = tokio::time::timeout(Duration::from_micros(1), get).await;
    }
    server.restart().unwrap();
    let answered = async { while store.get(&key).await.is_err() {} };
    let patience = Duration::from_secs(20);
    tokio::time::timeout(patience, answered).await.unwrap();
}

#[tokio::test]
async fn a_paused_server_answers_when_it_goes_on() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    server.pause().unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.claim("key", &VALUE, TTL).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    server.resume().unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Claim::Claimed);
}

#[tokio::test]
async fn the_client_sends_at_once() {
    // Three dependent round trips in less than one delayed acknowledgement of 40 ms.
    let (store, key) = (shared().await, key());
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        store.claim(&key, &VALUE, TTL).await.unwrap();
        store.replace(&key, &VALUE, &DONE, TTL).await.unwrap();
        store.remove(&key, &DONE).await.unwrap();
        best = best.min(begun.elapsed());
    }
    assert!(best < Duration::from_millis(20), "{best:?}");
}

#[tokio::test]
async fn scripts_are_sent_again_when_the_server_forgot_them() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    for round in 0..3 {
        store.claim("key", &VALUE, TTL).await.unwrap();
        let swap = store.replace("key", &VALUE, &DONE, TTL).await.unwrap();
        assert_eq!(swap, Swap::Done, "round {round}");
        send(&server, cmd("SCRIPT").arg("FLUSH")).await;
        let swap = store.remove("key", &DONE).await.unwrap();
        assert_eq!(swap, Swap::Done, "round {round}");
        send(&server, cmd("SCRIPT").arg("FLUSH")).await;
    }
}
