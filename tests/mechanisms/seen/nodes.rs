//! Sets on several servers: the nodes of a cluster, and replicas.

use std::time::{Duration, Instant};

use idempotence_test_servers::{RedisCluster, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_runtime::Idempotency;
use idempotent_runtime::store::{Bytes, Claim, Store};

use crate::seen::servers::{MAX_WAIT, keys};
use crate::seen::{added, is_first, patient, set_of};

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_members_of_a_set_are_spread_over_a_cluster() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = RedisStore::connect(&cluster.url()).await.unwrap();
    let seen = set_of(&patient(store), HOUR);
    for number in 0..200 {
        let first = added(&seen, number).await;
        assert!(!is_first(&seen, number).await);
        if number % 10 == 0 {
            assert!(first.take_back().await.unwrap());
            assert!(is_first(&seen, number).await);
        }
    }
    let mut members = 0;
    for node in cluster.nodes() {
        let there = keys(node).await;
        assert!(!there.is_empty(), "{}", node.port());
        assert!(there.iter().all(|(_, remaining)| *remaining > 0));
        members += there.len();
    }
    assert_eq!(members, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_add_counts_only_when_the_replica_has_it() {
    // By default a server waits for five seconds for more replicas.
    let primary = RedisServer::start_with(["--repl-diskless-sync-delay", "0"]).unwrap();
    let port = primary.port().to_string();
    let replica = RedisServer::start_with(["--replicaof", "127.0.0.1", &port]).unwrap();
    let url = format!("{}?replicas=1&replica_timeout=", primary.url());
    let slow = RedisStore::connect(&format!("{url}20s")).await.unwrap();
    let hasty = RedisStore::connect(&format!("{url}50ms")).await.unwrap();

    let (mine, yours) = (Bytes::from("mine"), Bytes::from("yours"));
    let add =
        async |store: &RedisStore, owner| store.set_insert("set", b"member", owner, HOUR).await;
    let deadline = Instant::now() + MAX_WAIT;
    while add(&slow, &mine).await.is_err() {
        assert!(Instant::now() < deadline, "the replica must connect");
    }
    let there = keys(&replica).await;
    assert!(matches!(there[..], [(_, 1..)]), "{there:?}");

    replica.pause().unwrap();
    // An add that is sent again writes again, so that there is a write to wait for.
    add(&hasty, &mine).await.unwrap_err();
    let taken = add(&hasty, &yours).await.unwrap();
    assert_eq!(
        taken,
        Claim::Taken(mine),
        "an add of another owner's member needs no replica"
    );
    let idempotency = Idempotency::new(hasty);
    let seen = set_of(&idempotency, HOUR);
    let error = seen.first_time(&42).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    replica.resume().unwrap();
    idempotency.drain(MAX_WAIT).await.unwrap();
    let seen = set_of(&patient(slow), HOUR);
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match seen.first_time(&42).await {
            Ok(first) => break assert!(first.is_first(), "the member must have been removed"),
            Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
        }
    }
}
