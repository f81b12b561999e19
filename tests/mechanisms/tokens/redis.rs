//! Tokens in Redis.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{Cmd, FromRedisValue, cmd};
use idempotent_runtime::{Idempotency, Store, Tokens};

use crate::tokens::races::accepted;
use crate::tokens::{
    LONG, OPERATION, TTL, USER, assert_accepted, assert_refused, code_of, issue, redeem,
};
use support::redis_client::connection_to;

/// Tokens on a handle with a deadline that is long enough for a server on a busy machine.
fn on(store: impl Store) -> Tokens {
    let handle = Idempotency::builder(store).deadline(LONG);
    handle.build().unwrap().tokens()
}

async fn ask<T: FromRedisValue>(server: &RedisServer, command: &Cmd) -> T {
    let mut connection = connection_to(server.unix_url()).await;
    command.query_async(&mut connection).await.unwrap()
}

async fn keys(server: &RedisServer) -> Vec<String> {
    ask(server, cmd("KEYS").arg("*")).await
}

/// The value of each key, and its time to live in milliseconds.
async fn all(server: &RedisServer) -> HashMap<String, (String, i64)> {
    let mut all = HashMap::new();
    for key in keys(server).await {
        let value = ask(server, cmd("GET").arg(&key)).await;
        let remaining = ask(server, cmd("PTTL").arg(&key)).await;
        all.insert(key, (value, remaining));
    }
    all
}

#[tokio::test]
async fn each_outcome_has_its_own_error() {
    let server = RedisServer::start().unwrap();
    let tokens = on(RedisStore::connect(&server.url()).await.unwrap());
    let token = issue(&tokens).await;
    let thief = tokens.redeem(token.as_str(), &(USER + 1), OPERATION).await;
    assert_eq!(code_of(thief), "token_unknown");
    let elsewhere = tokens.redeem(token.as_str(), &USER, "orders.cancel").await;
    assert_eq!(code_of(elsewhere), "token_unknown");
    let malformed = tokens.redeem("session:42", &USER, OPERATION).await;
    assert_eq!(code_of(malformed), "token_malformed");
    let redeemed = redeem(&tokens, &token).await.unwrap();
    assert_refused(&tokens, &token, "token_used").await;
    assert!(redeemed.give_back().await.unwrap());
    assert_accepted(&tokens, &token).await;
    assert_refused(&tokens, &token, "token_used").await;
    assert!(redeemed.give_back().await.unwrap());
    assert_refused(&tokens, &token, "token_used").await;
}

#[tokio::test]
async fn no_key_is_without_an_expiry_and_none_has_the_token() {
    let server = RedisServer::start().unwrap();
    let tokens = on(RedisStore::connect(&server.url()).await.unwrap());
    let ttl = i64::try_from(TTL.as_millis()).unwrap();
    let mut issued = Vec::new();
    let mut look = async |token: &str, state: &str| {
        let all = all(&server).await;
        assert_eq!(all.len(), 1);
        for (key, (value, remaining)) in all {
            assert!(
                remaining > ttl - 60_000 && remaining <= ttl,
                "{key} has {remaining} ms to live"
            );
            assert!(key.starts_with("idem:#token:orders.submit:"), "{key}");
            assert!(value.starts_with(state), "{value}");
            assert!(
                !format!("{key}{value}").contains(&token[..16]),
                "{key} {value}"
            );
        }
        issued.push(token.to_owned());
    };
    let token = issue(&tokens).await;
    look(token.as_str(), "idem1 T fresh").await;
    let redeemed = redeem(&tokens, &token).await.unwrap();
    look(token.as_str(), "idem1 T used owner=").await;
    redeemed.give_back().await.unwrap();
    look(token.as_str(), "idem1 T returned owner=").await;
    assert_eq!(issued.len(), 3);
}

#[tokio::test]
async fn a_fresh_and_a_used_token_expire_together() {
    let server = RedisServer::start().unwrap();
    let tokens = on(RedisStore::connect(&server.url()).await.unwrap());
    let ttl = Duration::from_millis(400);
    let token = tokens.issue(&USER, OPERATION, ttl).await.unwrap();
    let used = tokens.issue(&USER, OPERATION, ttl).await.unwrap();
    let redeemed = redeem(&tokens, &used).await;
    let deadline = Instant::now() + LONG;
    while !keys(&server).await.is_empty() {
        assert!(Instant::now() < deadline, "the keys must expire");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for token in [token, used] {
        assert_refused(&tokens, &token, "token_unknown").await;
    }
    if let Ok(redeemed) = redeemed {
        assert!(!redeemed.give_back().await.unwrap());
    }
    assert!(
        keys(&server).await.is_empty(),
        "no key may be created again"
    );
}

/// Another program has removed the expiry.
#[tokio::test]
async fn a_token_without_an_expiry_is_accepted_once() {
    let server = RedisServer::start().unwrap();
    let tokens = on(RedisStore::connect(&server.url()).await.unwrap());
    let token = issue(&tokens).await;
    let key = keys(&server).await.pop().unwrap();
    let _: i64 = ask(&server, cmd("PERSIST").arg(&key)).await;
    assert_accepted(&tokens, &token).await;
    assert_refused(&tokens, &token, "token_used").await;
    assert_eq!(all(&server).await[&key].1, -1);
}

#[tokio::test]
async fn each_operation_is_one_command() {
    let server = RedisServer::start().unwrap();
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let tokens = on(RedisStore::connect(&proxy.url()).await.unwrap());
    let count = || proxy.plan(Direction::Request, usize::MAX, ProxyFault::Close);
    // Loads the script.
    redeem(&tokens, &issue(&tokens).await).await.unwrap();
    count();
    let token = issue(&tokens).await;
    assert_eq!(proxy.traffic().requests, 1);
    count();
    let redeemed = redeem(&tokens, &token).await.unwrap();
    assert_eq!(proxy.traffic().requests, 1);
    count();
    assert_refused(&tokens, &token, "token_used").await;
    assert_eq!(proxy.traffic().requests, 1);
    count();
    redeemed.give_back().await.unwrap();
    assert_eq!(proxy.traffic().requests, 1);
    count();
    assert_accepted(&tokens, &token).await;
    assert_eq!(
        proxy.traffic().requests,
        2,
        "the second redemption finds that the token was given back"
    );
    count();
    let malformed = tokens.redeem("*", &USER, OPERATION).await;
    assert_eq!(code_of(malformed), "token_malformed");
    assert_eq!(proxy.traffic().requests, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_a_hundred_concurrent_redemptions_is_accepted() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    for _ in 0..10 {
        assert_eq!(accepted(store.clone()).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_message_does_not_use_up_the_token() {
    let server = RedisServer::start().unwrap();
    let direct = on(RedisStore::connect(&server.url()).await.unwrap());
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let store = RedisStore::connect(&proxy.url()).await.unwrap();
    let handle = Idempotency::builder(store).deadline(Duration::from_secs(5));
    let handle = handle.build().unwrap();
    let tokens = handle.tokens();
    redeem(&tokens, &issue(&tokens).await).await.unwrap();
    for direction in [Direction::Request, Direction::Reply] {
        for fault in ProxyFault::all(Duration::from_millis(50)) {
            let case = format!("{direction:?} {fault:?}");
            let token = issue(&direct).await;
            proxy.plan(direction, 0, fault);
            match redeem(&tokens, &token).await {
                Ok(redeemed) => {
                    assert_refused(&direct, &token, "token_used").await;
                    assert!(redeemed.give_back().await.unwrap(), "{case}");
                }
                Err(error) => assert!(error.is_unavailable(), "{case}: {error}"),
            }
            handle.drain(LONG).await.unwrap();
            assert!(proxy.traffic().fault_applied, "{case}");
            assert_accepted(&direct, &token).await;
        }
    }
}
