//! Many operations at once in a cluster: they go straight to their node.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotence_test_servers::{RedisCluster, RedisServer};
use idempotent_redis::redis::{cmd, from_redis_value};
use idempotent_redis::{RedisOptions, RedisStore};
use idempotent_runtime::Store;
use idempotent_runtime::store::{Bytes, Claim, Swap};
use tokio::time::timeout;

use crate::store::batches::gathering;
use crate::store::cluster::assert_is_not_delayed;
use crate::store::servers::{
    LEAST, MAX_WAIT, TTL, add_user, assert_works_in_cluster, key, next, removed_in_cluster, send,
};

static VALUE: Bytes = crate::store::servers::VALUE;

/// As many operations as a batch can have.
const MANY: usize = 512;

/// Claims, renews, settles, reads and removes a record, which nobody else uses. Each answer must be the answer to this record. Returns
/// whether the client of the cluster sent the removal again: it sends what a node of a busy machine does not take in time.
async fn works_alone(store: &RedisStore, key: &str) -> bool {
    let [mine, done] = ["mine", "done"].map(|what| Bytes::from(format!("{what} {key}")));
    let claim = store.claim(key, &mine, TTL).await.unwrap();
    assert_eq!(claim, Claim::Claimed, "{key}");
    let renewal = store.replace(key, &mine, &mine, TTL).await.unwrap();
    assert_eq!(renewal, Swap::Done, "{key}");
    let taken = store.claim(key, &VALUE, TTL).await.unwrap();
    assert_eq!(taken, Claim::Taken(mine.clone()), "{key}");
    let completion = store.replace_and_notify(key, &mine, &done, TTL).await;
    assert_eq!(completion.unwrap(), Swap::Done, "{key}");
    assert_eq!(store.get(key).await.unwrap().unwrap().value, done, "{key}");
    let other = store.remove(key, &mine).await.unwrap();
    assert_eq!(other, Swap::Other(done.clone()), "{key}");
    let is_repeated = removed_in_cluster(store.remove_and_notify(key, &done)).await;
    let absent = store.remove(key, &done).await.unwrap();
    assert_eq!(absent, Swap::Absent, "{key}");
    is_repeated
}

/// Runs [`works_alone`] for all keys at once, and again with other keys if a tenth of the removals was sent again. On a busy machine that
/// may happen in one of three rounds.
async fn works_alone_for_each(store: &RedisStore, keys: impl Fn() -> Vec<String>) {
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let tasks = keys().into_iter().map(|key| {
            let store = store.clone();
            tokio::spawn(async move { works_alone(&store, &key).await })
        });
        let answers = join_all(tasks).await.into_iter();
        let answers: Vec<_> = answers.map(Result::unwrap).collect();
        let repeated = answers.iter().filter(|repeated| **repeated).count();
        if repeated * 10 < answers.len() {
            return;
        }
        rounds.push(repeated);
    }
    panic!("removals were sent again, or found nothing: {rounds:?}");
}

pub(crate) async fn works_for_many(store: &RedisStore) {
    works_alone_for_each(store, || (0..MANY).map(|_| key()).collect()).await;
}

/// Repeats `works_for_many` until `end` ends.
pub(crate) async fn works_during(store: &RedisStore, end: impl Future<Output = ()>) {
    let running = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                works_for_many(&store).await;
            }
        }
    });
    end.await;
    assert!(!running.is_finished(), "an operation has failed");
    running.abort();
    assert!(
        running.await.unwrap_err().is_cancelled(),
        "an operation has failed"
    );
}

/// The connections to a node, beside the connections of other nodes.
pub(crate) async fn connections(node: &RedisServer) -> usize {
    // One of them asks this question.
    clients(node).await.lines().count() - 1
}

async fn clients(node: &RedisServer) -> String {
    let clients = send(node, cmd("CLIENT").arg("LIST").arg("TYPE").arg("NORMAL")).await;
    from_redis_value(clients).unwrap()
}

/// A store that knows all nodes. Before, the client of the cluster sends every operation, and sends an operation again if its node
/// takes more than half a second.
async fn connected(cluster: &RedisCluster) -> RedisStore {
    let store = gathering(&cluster.url()).await;
    until_connected(cluster, &store).await;
    store
}

/// As [`connected`], on a cluster that other stores use as well. The nodes know the store by its own user.
pub(crate) async fn connected_among_others(
    cluster: &RedisCluster,
    options: RedisOptions,
) -> RedisStore {
    let user = format!("user{}", next());
    for node in cluster.nodes() {
        add_user(node, &user, "on >s3cret ~* &* +@all").await;
    }
    let url = cluster.url().replace("://", &format!("://{user}:s3cret@"));
    let store = options.connect(&url).await.unwrap();
    let deadline = Instant::now() + MAX_WAIT;
    for node in cluster.nodes() {
        let connections = async || {
            let clients = clients(node).await;
            clients.matches(&format!(" user={user} ")).count()
        };
        while connections().await < 2 {
            assert!(Instant::now() < deadline, "the store must know its nodes");
            store.get(&key()).await.unwrap();
        }
    }
    // The store uses a connection after its handshake.
    for _ in 0..20 {
        store.get(&key()).await.unwrap();
    }
    store
}

pub(crate) async fn until_connected(cluster: &RedisCluster, store: &RedisStore) {
    let deadline = Instant::now() + MAX_WAIT;
    // The other nodes are replicas.
    for node in &cluster.nodes()[..3] {
        while connections(node).await < 2 {
            assert!(Instant::now() < deadline, "the store must know its nodes");
            for _ in 0..10 {
                store.get(&key()).await.unwrap();
            }
        }
    }
    // The store uses a connection after its handshake.
    for _ in 0..20 {
        assert_works_in_cluster(store).await;
    }
}

/// Runs operations until each node has this many connections.
async fn each_node_has(cluster: &RedisCluster, store: &RedisStore, expected: usize) {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        works_for_many(store).await;
        let mut all = Vec::new();
        for node in cluster.nodes() {
            all.push(connections(node).await);
        }
        if all.iter().all(|have| *have == expected) {
            return;
        }
        assert!(Instant::now() < deadline, "{all:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_go_straight_to_their_node() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    for node in cluster.nodes() {
        let rules = format!("{LEAST} +cluster|slots +ping +asking");
        add_user(node, "least", &rules).await;
    }
    let url = cluster.url().replace("://", "://least:s3cret@");
    for parameters in ["", "/?protocol=3"] {
        let store = RedisStore::connect(&format!("{url}{parameters}"))
            .await
            .unwrap();
        until_connected(&cluster, &store).await;
        // The connection of the client of the cluster, the connection for operations on records, and one for renewals, which is
        // made when renewals wait behind other operations.
        each_node_has(&cluster, &store, 3).await;
        drop(store);
        all_closed(&cluster).await;
    }
}

async fn all_closed(cluster: &RedisCluster) {
    let deadline = Instant::now() + MAX_WAIT;
    for node in cluster.nodes() {
        while connections(node).await > 0 {
            assert!(
                Instant::now() < deadline,
                "a store must close its connections"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_batches_the_client_of_the_cluster_sends_everything() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let options = RedisStore::options().batch(false);
    let store = options.connect(&cluster.url()).await.unwrap();
    works_for_many(&store).await;
    for node in cluster.nodes() {
        assert_eq!(connections(node).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_follow_a_slot_that_moves_while_many_run() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = connected(&cluster).await;
    works_for_many(&store).await;
    let held = "redis_store:{slot}held";
    let hour = Duration::from_hours(1);
    store.claim(held, &VALUE, hour).await.unwrap();
    for _ in 0..2 {
        let moves = async {
            let moving = cluster.begin_move(held).unwrap();
            in_slot(&store).await;
            moving.move_keys().unwrap();
            in_slot(&store).await;
            moving.finish().unwrap();
            in_slot(&store).await;
        };
        works_during(&store, moves).await;
    }
    let renewal = store.replace(held, &VALUE, &VALUE, TTL).await.unwrap();
    assert_eq!(renewal, Swap::Done);
}

/// Many operations, of which a few are in the slot that moves.
pub(crate) async fn in_slot(store: &RedisStore) {
    for _ in 0..10 {
        let keys = || {
            let in_slot = format!("redis_store:{{slot}}{}", key());
            (0..49).map(|_| key()).chain([in_slot]).collect()
        };
        works_alone_for_each(store, keys).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_sent_again_if_one_node_has_lost_them() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = connected(&cluster).await;
    let flushes = async {
        for _ in 0..10 {
            send(&cluster.nodes()[0], cmd("SCRIPT").arg("FLUSH")).await;
            works_for_many(&store).await;
        }
    };
    works_during(&store, flushes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_does_not_hold_up_many_operations_on_others() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let (store, control) = (connected(&cluster).await, connected(&cluster).await);
    works_for_many(&store).await;
    let hangs = &cluster.nodes()[0];
    let mut keys = HashMap::<bool, Vec<String>>::new();
    for _ in 0..128 {
        let key = key();
        let is_hanging = cluster.master_of(&key).unwrap().port() == hangs.port();
        keys.entry(is_hanging).or_default().push(key);
    }
    hangs.pause().unwrap();
    let unanswered = keys[&true].iter().map(|key| {
        let (store, key) = (store.clone(), key.clone());
        tokio::spawn(async move {
            loop {
                let claim = async { store.claim(&key, &VALUE, TTL).await };
                let _ = timeout(Duration::from_millis(250), claim).await;
            }
        })
    });
    let unanswered: Vec<_> = unanswered.collect();
    let (mine, of_control) = keys[&false].split_at(keys[&false].len() / 2);
    let ask = async |store: &RedisStore, keys: &[String]| {
        join_all(keys.iter().map(|key| works_alone(store, key))).await;
    };
    assert_is_not_delayed(
        async || ask(&store, mine).await,
        async || {
            ask(&control, of_control).await;
        },
    )
    .await;
    hangs.resume().unwrap();
    for task in unanswered {
        task.abort();
    }
    for key in &keys[&true] {
        let deadline = Instant::now() + MAX_WAIT;
        while !matches!(
            timeout(Duration::from_secs(1), store.claim(key, &VALUE, TTL)).await,
            Ok(Ok(Claim::Claimed))
        ) {
            assert!(Instant::now() < deadline, "{key} is not served");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_operations_follow_a_fail_over() {
    let cluster = RedisCluster::start(3, 1).unwrap();
    let store = connected(&cluster).await;
    works_for_many(&store).await;
    let failing = "redis_store:a";
    let old = cluster.master_of(failing).unwrap();
    old.kill().unwrap();
    let load: Vec<_> = (0..64)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                loop {
                    let claim = async { store.claim(&key(), &VALUE, TTL).await };
                    let _ = timeout(Duration::from_millis(250), claim).await;
                }
            })
        })
        .collect();
    cluster.wait_for_failover(failing, old).unwrap();
    let deadline = Instant::now() + MAX_WAIT;
    while !matches!(
        timeout(Duration::from_secs(1), store.claim(failing, &VALUE, TTL)).await,
        Ok(Ok(_))
    ) {
        assert!(Instant::now() < deadline, "the new master must be used");
    }
    old.restart().unwrap();
    cluster.wait_until_healthy().unwrap();
    for task in load {
        task.abort();
    }
    assert_works_in_cluster(&store).await;
    works_for_many(&store).await;
}

/// Some claims are dropped in the queue, some in flight, and some after the answer. A removal that follows its claim over the same
/// connection finds it.
#[tokio::test]
async fn a_claim_that_is_dropped_and_its_removal_leave_nothing_in_a_cluster() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = connected(&cluster).await;
    // If a node of a busy machine is silent for a while, the client of the cluster sends the removal over another connection, which
    // may overtake the claim. So all rounds are repeated.
    for attempt in 1.. {
        for round in 0..200_u32 {
            let keys: Vec<_> = (0..60).map(|_| key()).collect();
            let claims = keys.iter().map(|key| store.claim(key, &VALUE, TTL));
            let limit = Duration::from_micros(u64::from(round) * 20);
            let _ = timeout(limit, join_all(claims)).await;
            let removals = keys.iter().map(|key| store.remove(key, &VALUE));
            for removal in join_all(removals).await {
                removal.unwrap();
            }
        }
        let mut left = 0;
        for node in cluster.nodes() {
            let size = send(node, &cmd("DBSIZE")).await;
            left += from_redis_value::<usize>(size).unwrap();
            send(node, &cmd("FLUSHALL")).await;
        }
        if left == 0 {
            return;
        }
        assert!(attempt < 10, "{left} claims are left");
    }
}

/// A store on the cluster whose operations go in batches, because other callers use all nodes all the time.
pub(crate) async fn crowded(cluster: &RedisCluster) -> RedisStore {
    let store = connected_among_others(cluster, RedisStore::options().batch_above(2)).await;
    crowd(&store).await;
    store
}

/// Starts other callers, which use all nodes all the time.
pub(crate) async fn crowd(store: &RedisStore) {
    for _ in 0..12 {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                let key = key();
                store.claim(&key, &VALUE, TTL).await.unwrap();
                store.remove(&key, &VALUE).await.unwrap();
            }
        });
    }
    tokio::task::yield_now().await;
}
