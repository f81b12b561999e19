//! Order numbers on Redis, each handle with its own connection.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis;
use idempotent_runtime::store::Bytes;
use idempotent_runtime::{Error, Idempotency, OrderNumbers, OrderNumbersBuilder, Placed, Store};
use tokio::sync::Barrier;
use tokio::time::sleep;

use crate::numbers::{SECRET, USER, is_unavailable, key_of, machine_of, occupy_all_but};
use support::redis_client::connection_to;

const MAX_WAIT: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

/// Numbers on a handle with a deadline that is long enough for a server on a busy machine.
fn builder(store: RedisStore) -> OrderNumbersBuilder {
    let handle = Idempotency::builder(store).deadline(MAX_WAIT);
    OrderNumbers::builder(&handle.build().unwrap(), "orders", SECRET)
}

async fn numbers(store: RedisStore) -> OrderNumbers {
    builder(store).build().await.unwrap()
}

async fn connect(server: &RedisServer) -> RedisStore {
    RedisStore::connect(&server.url()).await.unwrap()
}

async fn flush(server: &RedisServer) {
    let mut connection = connection_to(server.url()).await;
    let flushed: redis::RedisResult<()> = redis::cmd("FLUSHALL").query_async(&mut connection).await;
    flushed.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handles_with_their_own_connections_never_share_a_machine_id() {
    const AT_ONCE: usize = 200;
    let server = RedisServer::start().unwrap();
    let stores = join_all((0..8).map(|_| connect(&server))).await;
    let barrier = Barrier::new(AT_ONCE);
    let leases = (0..AT_ONCE).map(|at| {
        let (barrier, store) = (&barrier, stores[at % stores.len()].clone());
        async move {
            barrier.wait().await;
            numbers(store).await
        }
    });
    let all = join_all(leases).await;
    let machines: HashSet<i64> = all.iter().map(machine_of).collect();
    assert_eq!(machines.len(), AT_ONCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_leased_again_only_after_its_lease_and_the_skew() {
    // A handle that stands still for longer than the lease and the skew loses its id.
    for rest in [3, 12, 48] {
        if is_leased_again_only_after(SECOND * rest).await {
            return;
        }
    }
    panic!("the handle lost its id, three times");
}

/// `false`: the first handle lost its id.
async fn is_leased_again_only_after(rest: Duration) -> bool {
    let server = RedisServer::start().unwrap();
    let store = connect(&server).await;
    let first = builder(connect(&server).await).lease(SECOND).skew(rest);
    let first = first.build().await.unwrap();
    let id = machine_of(&first);
    occupy_all_but(&store, id).await;

    // After three leases the record still exists, because it was renewed.
    let began = Instant::now();
    while began.elapsed() < SECOND * 3 {
        // A busy machine may be late by a second.
        let _ = first.issue(&USER);
        sleep(SECOND / 10).await;
    }
    if machine_of_soon(&first).await != id {
        return false;
    }
    let given_back = Instant::now();
    drop(first);
    let second = loop {
        if let Ok(second) = builder(store.clone()).build().await {
            break second;
        }
        assert!(given_back.elapsed() < MAX_WAIT, "the id must become free");
        sleep(SECOND / 10).await;
    };
    assert!(given_back.elapsed() >= rest, "{:?}", given_back.elapsed());
    assert_eq!(machine_of(&second), id);
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_server_stops_the_numbers_and_an_emptied_server_leases_other_ids() {
    let server = RedisServer::start().unwrap();
    let numbers = builder(connect(&server).await).lease(SECOND).skew(SECOND);
    let numbers = numbers.build().await.unwrap();
    server.pause().unwrap();
    let deadline = Instant::now() + MAX_WAIT;
    while !is_unavailable(&numbers.issue(&USER)) {
        assert!(
            Instant::now() < deadline,
            "no number may be issued without a lease"
        );
        sleep(SECOND / 20).await;
    }
    server.resume().unwrap();
    let id = machine_of_soon(&numbers).await;

    // Another owner may have the id now.
    flush(&server).await;
    let (store, theirs) = (connect(&server).await, Bytes::from("theirs"));
    let key = key_of(id);
    let _ = store.claim(&key, &theirs, MAX_WAIT).await.unwrap();
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let key = key_of(machine_of_soon(&numbers).await);
        let entry = store.get(&key).await.unwrap();
        if entry.is_some_and(|entry| entry.value != theirs) {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "the handle must notice that it has lost the id"
        );
        sleep(SECOND / 20).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_hint_does_not_allow_a_second_order() {
    let server = RedisServer::start().unwrap();
    let numbers = numbers(connect(&server).await).await;
    let number = numbers.issue(&USER).unwrap();
    let mut orders = HashSet::new();
    for submit in 0..3 {
        let placed = numbers.redeem(number.as_str(), &USER, async |number, _| {
            Ok::<Placed, Error>(if orders.insert(number) {
                Placed::New(())
            } else {
                Placed::Again
            })
        });
        assert_eq!(placed.await.unwrap() == Placed::New(()), submit == 0);
        flush(&server).await;
    }
}

async fn machine_of_soon(numbers: &OrderNumbers) -> i64 {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        if let Ok(number) = numbers.issue(&USER) {
            return crate::numbers::machine(&number);
        }
        assert!(Instant::now() < deadline, "a machine id must be leased");
        sleep(SECOND / 20).await;
    }
}
