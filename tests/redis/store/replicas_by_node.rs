//! Many writes at once in a cluster: the writes of each node wait for its replicas together.

use std::sync::OnceLock;
use std::time::Instant;

use futures_util::future::join_all;
use idempotence_test_servers::{RedisCluster, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{cmd, from_redis_value};
use idempotent_runtime::store::{Bytes, Claim, Swap};
use idempotent_runtime::{Store, StoreErrorKind};

use crate::store::batches::calls;
use crate::store::nodes::{crowd, in_slot, until_connected, works_during, works_for_many};
use crate::store::servers::{DONE, MAX_WAIT, TTL, key, send};

static VALUE: Bytes = crate::store::servers::VALUE;

mod suite_in_batches {
    idempotence::testkit::conformance!(super::crowded());
}

const MANY: usize = 300;
/// No replica replaces the master of a busy machine.
const PATIENT: [&str; 2] = ["--cluster-node-timeout", "20000"];

/// Three masters, each with a replica that no test stops.
fn shared_cluster() -> &'static RedisCluster {
    static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| RedisCluster::start_with(3, 1, PATIENT).unwrap())
}

async fn connected(cluster: &RedisCluster, timeout: &str) -> RedisStore {
    let url = format!("{}?replicas=1&replica_timeout={timeout}", cluster.url());
    let store = RedisStore::connect(&url).await.unwrap();
    until_connected(cluster, &store).await;
    store
}

/// A store whose writes go in batches, because other callers use all nodes all the time.
async fn crowded() -> RedisStore {
    let store = connected(shared_cluster(), "20s").await;
    crowd(&store).await;
    store
}

fn keys() -> Vec<String> {
    (0..MANY).map(|_| key()).collect()
}

/// The replica of a master.
async fn replica_of<'a>(cluster: &'a RedisCluster, master: &RedisServer) -> &'a RedisServer {
    for node in cluster.nodes() {
        let info = send(node, cmd("INFO").arg("replication")).await;
        let info: String = from_redis_value(info).unwrap();
        if info.contains(&format!("master_port:{}\r\n", master.port())) {
            return node;
        }
    }
    panic!("the master has no replica");
}

/// The records on all nodes.
async fn records(cluster: &RedisCluster) -> usize {
    let mut records = 0;
    for node in cluster.nodes() {
        let size = send(node, &cmd("DBSIZE")).await;
        records += from_redis_value::<usize>(size).unwrap();
    }
    records
}

/// The calls of `WAIT` on all nodes.
async fn waits(cluster: &RedisCluster) -> usize {
    let mut waits = 0;
    for node in cluster.nodes() {
        waits += calls(node, "wait").await;
    }
    waits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writes_wait_for_the_replicas_of_their_node_once() {
    let cluster = RedisCluster::start_with(3, 1, PATIENT).unwrap();
    let store = connected(&cluster, "20s").await;
    let keys = keys();
    let deadline = Instant::now() + MAX_WAIT;
    while records(&cluster).await > 0 {
        assert!(
            Instant::now() < deadline,
            "a replica does not follow its master"
        );
    }
    let before = waits(&cluster).await;
    let claims = keys.iter().map(|key| store.claim(key, &VALUE, TTL));
    for claim in join_all(claims).await {
        assert_eq!(claim.unwrap(), Claim::Claimed);
    }
    // Each claim is on its master and on its replica.
    assert_eq!(records(&cluster).await, 2 * MANY);
    let done = DONE;
    let renewals = keys
        .iter()
        .map(|key| store.replace(key, &VALUE, &VALUE, TTL));
    for renewal in join_all(renewals).await {
        assert_eq!(renewal.unwrap(), Swap::Done);
    }
    let results = keys
        .iter()
        .map(|key| store.replace(key, &VALUE, &done, TTL));
    for result in join_all(results).await {
        assert_eq!(result.unwrap(), Swap::Done);
    }
    let waits = waits(&cluster).await - before;
    assert!(waits < 3 * MANY / 4, "{waits}");
    works_for_many(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_writes_of_the_node_with_a_late_replica_fail() {
    let cluster = RedisCluster::start_with(3, 1, PATIENT).unwrap();
    let store = connected(&cluster, "1s").await;
    let keys = keys();
    let late = cluster.master_of(&keys[0]).unwrap();
    let replica = replica_of(&cluster, late).await;
    let masters = keys
        .iter()
        .map(|key| cluster.master_of(key).unwrap().port());
    let masters: Vec<_> = masters.collect();
    replica.pause().unwrap();
    let claims = join_all(keys.iter().map(|key| store.claim(key, &VALUE, TTL))).await;
    for (claim, master) in claims.into_iter().zip(masters) {
        match claim {
            Err(error) if master == late.port() => {
                assert_eq!(error.kind(), StoreErrorKind::Unknown);
            }
            claim => {
                assert_ne!(master, late.port(), "{claim:?}");
                assert_eq!(claim.unwrap(), Claim::Claimed);
            }
        }
    }
    replica.resume().unwrap();
    let patient = connected(&cluster, "20s").await;
    let claims = join_all(keys.iter().map(|key| patient.claim(key, &VALUE, TTL))).await;
    for claim in claims {
        assert_eq!(claim.unwrap(), Claim::Claimed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_wait_follow_a_slot_that_moves() {
    let cluster = RedisCluster::start_with(3, 1, PATIENT).unwrap();
    let store = connected(&cluster, "20s").await;
    let held = "redis_store:{slot}held";
    store.claim(held, &VALUE, TTL).await.unwrap();
    let moves = async {
        let moving = cluster.begin_move(held).unwrap();
        in_slot(&store).await;
        moving.move_keys().unwrap();
        in_slot(&store).await;
        moving.finish().unwrap();
        in_slot(&store).await;
    };
    works_during(&store, moves).await;
    let renewal = store.replace(held, &VALUE, &VALUE, TTL).await.unwrap();
    assert_eq!(renewal, Swap::Done);
}
