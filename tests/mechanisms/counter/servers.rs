//! Counters on Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{self, cmd};
use idempotent_runtime::{Counter, Error, Idempotency, Store, StoreErrorKind};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::counter::{line, together};
use support::redis_client::connection_to;
use support::required_only::RequiredOnly;

const WINDOW: Duration = Duration::from_mins(10);

async fn store(url: &str) -> RedisStore {
    RedisStore::connect(url).await.unwrap()
}

fn key() -> String {
    format!("idem:#count:servers:{:032x}", rand::random::<u128>())
}

async fn ask<T: redis::FromRedisValue>(server: &RedisServer, command: &redis::Cmd) -> T {
    let mut connection = connection_to(server.unix_url()).await;
    command.query_async(&mut connection).await.unwrap()
}

/// The keys of counters, and the time to live of each in milliseconds.
async fn expiries(server: &RedisServer) -> Vec<(String, i64)> {
    let mut expiries = Vec::new();
    for key in ask::<Vec<String>>(server, cmd("KEYS").arg("idem:*")).await {
        let remaining = ask(server, cmd("PTTL").arg(&key)).await;
        expiries.push((key, remaining));
    }
    expiries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_200_attempts_at_once_the_first_seven_are_admitted() {
    let server = RedisServer::start().unwrap();
    let counter = together::counter(store(&server.url()).await);
    assert_eq!(together::wrong(&counter, 200).await, None);
}

#[tokio::test]
async fn every_attempt_leaves_an_expiry_and_no_attempt_moves_it() {
    let server = RedisServer::shared().unwrap();
    let (store, key) = (store(&server.url()).await, key());
    let mut least = i64::MAX;
    for number in 1..=100 {
        let count = store.count(&key, number.into(), WINDOW).await.unwrap();
        assert_eq!(count.attempt, number);
        let remaining: i64 = ask(server, cmd("PTTL").arg(&key)).await;
        assert!(
            0 < remaining && remaining <= least,
            "{remaining}, before {least}"
        );
        assert!(count.remaining.as_millis() >= remaining.unsigned_abs().into());
        least = remaining;
    }
    assert!(least > 300_000);
}

#[tokio::test]
async fn many_attempts_do_not_move_the_end_of_the_window() {
    let server = RedisServer::start().unwrap();
    let (store, key) = (store(&server.url()).await, key());
    store.count(&key, 0, WINDOW).await.unwrap();
    let ends = || async { ask::<i64>(&server, cmd("PEXPIRETIME").arg(&key)).await };
    let before = ends().await;
    for attempt in 1..=2000 {
        store.count(&key, attempt, WINDOW * 2).await.unwrap();
    }
    assert_eq!(ends().await, before);
}

#[tokio::test]
async fn an_attempt_is_one_command() {
    let server = RedisServer::shared().unwrap();
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let (store, key) = (store(&proxy.url()).await, key());
    // Loads the script.
    store.count(&key, 0, WINDOW).await.unwrap();
    for attempt in 1..=5 {
        proxy.plan(Direction::Request, usize::MAX, ProxyFault::Close);
        store.count(&key, attempt, WINDOW).await.unwrap();
        assert_eq!((proxy.traffic().requests, proxy.traffic().replies), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_whose_message_is_damaged_is_counted_once() {
    let server = RedisServer::shared().unwrap();
    for direction in [Direction::Request, Direction::Reply] {
        for fault in ProxyFault::all(Duration::from_secs(1)) {
            let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
            // The first request times out after half a second.
            let idempotency = Idempotency::builder(store(&proxy.url()).await)
                .prefix(format!("harmed-{:016x}", rand::random::<u64>()))
                .deadline(Duration::from_secs(2))
                .build()
                .unwrap();
            let counter = idempotency.counter("pages.submit", 9, WINDOW).unwrap();
            let (mut last, _) = patiently(&counter).await;
            for _ in 0..2 {
                proxy.plan(direction, 0, fault);
                match counter.attempt("page").await {
                    Ok(attempt) => {
                        last += 1;
                        assert_eq!(attempt.number(), last, "{direction:?} {fault:?}");
                    }
                    // A silent connection is replaced, perhaps too late for this attempt.
                    Err(error) => assert!(error.is_unavailable(), "{error:?}"),
                }
                // Each refused attempt may be counted, so a machine that stands still makes larger numbers.
                // On a slow machine the damage may come after the end of the attempt.
                let (next, refused) = patiently(&counter).await;
                assert!(proxy.traffic().fault_applied);
                assert!(
                    (last + 1..=last + 2 + refused).contains(&next),
                    "{direction:?} {fault:?}: {next} after {last}, {refused} refused"
                );
                last = next;
            }
        }
    }
}

/// The number of an attempt as soon as the server is reachable again, and how many attempts were refused before.
async fn patiently(counter: &Counter) -> (u64, u64) {
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut refused = 0;
    loop {
        match counter.attempt("page").await {
            Ok(attempt) => return (attempt.number(), refused),
            Err(Error::LimitReached(limited)) => return (limited.attempt(), refused),
            Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
        }
        refused += 1;
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_record_is_the_same_in_every_store() {
    let server = RedisServer::shared().unwrap();
    let store = store(&server.url()).await;
    line::is_the_same_in_every_store(&store).await;
    line::is_read_as_strictly_as_in_memory(&store).await;
}

#[tokio::test]
async fn a_key_of_another_type_is_not_changed() {
    let server = RedisServer::shared().unwrap();
    let (store, key) = (store(&server.url()).await, key());
    let _: i64 = ask(server, cmd("LPUSH").arg(&key).arg("x")).await;
    let error = store.count(&key, 1, WINDOW).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert_eq!(ask::<i64>(server, cmd("LLEN").arg(&key)).await, 1);
}

#[tokio::test]
async fn a_record_without_an_expiry_gets_one() {
    let server = RedisServer::shared().unwrap();
    let redis = store(&server.url()).await;
    let stores: [&dyn Store; 2] = [&redis, &RequiredOnly(redis.clone())];
    for store in stores {
        let key = key();
        store.count(&key, 1, WINDOW).await.unwrap();
        let _: i64 = ask(server, cmd("PERSIST").arg(&key)).await;
        let count = store.count(&key, 2, WINDOW).await.unwrap();
        assert_eq!((count.attempt, count.remaining), (2, WINDOW));
        assert!(ask::<i64>(server, cmd("PTTL").arg(&key)).await > 0);
    }
}

#[tokio::test]
async fn windows_of_milliseconds_end_and_leave_no_key() {
    let server = RedisServer::start().unwrap();
    let (store, key) = (store(&server.url()).await, key());
    let (mut windows, mut attempt) = (0, 0);
    let deadline = Instant::now() + Duration::from_mins(2);
    // The attempts cover every moment of a window, including its last millisecond.
    while windows < 300 {
        attempt += 1;
        let count = store
            .count(&key, attempt, Duration::from_millis(3))
            .await
            .unwrap();
        assert!(count.remaining <= Duration::from_millis(3), "{count:?}");
        windows += usize::from(count.attempt == 1);
        assert!(Instant::now() < deadline, "{windows} windows");
    }
    while !expiries(&server).await.is_empty() {
        assert!(Instant::now() < deadline, "the last window must end");
        sleep(Duration::from_millis(1)).await;
    }
}

fn durable() -> RedisServer {
    RedisServer::start_with(["--appendonly", "yes", "--appendfsync", "always"]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_between_attempts_continues_to_count() {
    let server = durable();
    // An attempt that ends at its deadline may be counted, so the deadline is long enough for a busy machine.
    let idempotency = Idempotency::builder(store(&server.url()).await)
        .deadline(Duration::from_mins(2))
        .build()
        .unwrap();
    let counter = idempotency.counter("pages.submit", 3, WINDOW).unwrap();
    for expected in 1..=5 {
        let before = expiries(&server).await;
        assert_eq!(patiently(&counter).await.0, expected);
        server.restart().unwrap();
        let after = expiries(&server).await;
        assert_eq!(after.len(), 1);
        assert!(after[0].1 > 0, "{after:?}");
        assert!(
            before.is_empty() || after[0].1 <= before[0].1,
            "{before:?} {after:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_load_has_no_key_without_an_expiry() {
    let server = durable();
    let idempotency = Idempotency::new(store(&server.url()).await);
    let over = Arc::new(AtomicBool::new(false));
    let mut load = JoinSet::new();
    for (name, window) in [("short", 20), ("middle", 300), ("long", 60_000)] {
        let window = Duration::from_millis(window);
        let counter = idempotency.counter(name, 5, window).unwrap();
        for _ in 0..4 {
            let (counter, over) = (counter.clone(), Arc::clone(&over));
            load.spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let page = rand::random_range(0..20);
                    match counter.attempt(&page).await {
                        Ok(_) | Err(Error::LimitReached(_)) => {}
                        Err(error) => assert!(error.is_unavailable(), "{error:?}"),
                    }
                }
            });
        }
    }
    let mut seen = 0;
    for _ in 0..6 {
        sleep(Duration::from_millis(rand::random_range(50..400))).await;
        // A busy machine reconnects later. Some of the counts must outlive the restart.
        let deadline = Instant::now() + Duration::from_mins(1);
        let outlive = |(_, remaining): &&(String, i64)| *remaining > 20_000;
        while expiries(&server).await.iter().filter(outlive).count() <= 10 {
            assert!(Instant::now() < deadline, "the attempts must be counted");
        }
        server.restart().unwrap();
        for (key, remaining) in expiries(&server).await {
            assert_ne!(remaining, -1, "{key} would never expire");
            seen += 1;
        }
    }
    over.store(true, Ordering::SeqCst);
    load.join_all().await;
    assert!(seen > 60, "{seen}");
}
