//! Stores on a cluster.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use idempotence::testkit::conformance;
use idempotence_test_servers::{RedisCluster, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{cmd, from_redis_value};
use idempotent_runtime::store::{Claim, ClaimAll, ClaimAny, Swap};
use idempotent_runtime::{Store, StoreErrorKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::store::load::Load;
use crate::store::nodes::connected_among_others;
use crate::store::replicas::runs_only_with_replicas;
use crate::store::servers::{
    DONE, LEAST, MAX_WAIT, TTL, VALUE, add_user, assert_works_in_cluster, chain, connection_to,
    key, kind, removed_in_cluster, send,
};
use crate::store::waiting::assert_waiting_call_is_woken;

mod suite {
    idempotence::testkit::conformance!(super::on_the_shared_cluster());
}

mod suite_in_batches {
    idempotence::testkit::conformance!(crate::store::nodes::crowded(super::shared_cluster()));
}

/// Without batches the client of the cluster sends every operation, and sends it again if its node is silent for half a second. A
/// repeated removal finds nothing. So a case that failed for that, while a node of a busy machine was silent, is repeated alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes_without_batches() {
    let url = format!("{}/?batch=false", shared_cluster().url());
    let store = RedisStore::connect(&url).await.unwrap();
    let suite = conformance::failures(async || store.clone());
    let (failures, mut silence) = with_longest_silence(suite).await;
    for failure in failures {
        let removes = failure.case.contains("remov") || failure.message.contains("Absent");
        assert!(removes, "{failure}");
        let (mut passed, mut repeated) = (false, 0);
        while !passed {
            let was_silent = silence > Duration::from_millis(100);
            assert!(was_silent && repeated < 3, "{silence:?}: {failure}");
            repeated += 1;
            let alone = conformance::check(failure.case, ready(store.clone()));
            let (alone, longest) = with_longest_silence(tokio::spawn(alone)).await;
            (passed, silence) = (alone.is_ok(), longest);
        }
    }
}

/// Also returns the longest time that a node of the shared cluster took to answer in the meantime.
async fn with_longest_silence<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let ends = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&ends);
    let asking = tokio::spawn(async move {
        let (mut longest, mut connections) = (Duration::ZERO, Vec::new());
        for node in shared_cluster().nodes() {
            connections.push(connection_to(node).await);
        }
        while !is_over.load(Ordering::SeqCst) {
            for connection in &mut connections {
                let asked = Instant::now();
                let _: String = cmd("PING").query_async(connection).await.unwrap();
                longest = longest.max(asked.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        longest
    });
    let done = work.await;
    ends.store(true, Ordering::SeqCst);
    (done, asking.await.unwrap())
}

/// A cluster without replicas, so that no slot changes its node.
fn shared_cluster() -> &'static RedisCluster {
    static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| RedisCluster::start(3, 0).unwrap())
}

async fn on_the_shared_cluster() -> RedisStore {
    connected_among_others(shared_cluster(), RedisStore::options()).await
}

#[tokio::test]
async fn a_waiting_call_is_woken_in_a_cluster() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let here = RedisStore::connect(&cluster.url()).await.unwrap();
    let there = RedisStore::connect(&cluster.url()).await.unwrap();
    assert_waiting_call_is_woken(here, there, cluster.nodes()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_are_claimed_together_if_they_share_a_slot() {
    let store = on_the_shared_cluster().await;
    // Any node refuses keys of two slots.
    let node = RedisStore::connect(&shared_cluster().nodes()[0].url()).await;
    let ([one, other], value, done) = ([key(), key()], VALUE, DONE);
    let apart = [(&*one, &value), (&*other, &value)];
    for store in [&store, &node.unwrap()] {
        let claim = store.claim_all(&apart, TTL).await;
        assert_eq!(claim.unwrap(), ClaimAll::NotTogether);
        let claim = store.claim_any(&apart, TTL).await;
        assert_eq!(claim.unwrap(), ClaimAny::NotTogether);
    }
    let [one, other] = ["a", "b"].map(|name| format!("{name}{{{one}}}"));
    let together = [(&*one, &value), (&*other, &value)];
    let claim = store.claim_all(&together, TTL).await;
    assert_eq!(claim.unwrap(), ClaimAll::Claimed);
    let together = [(&*one, &done), (&*other, &done)];
    let claim = store.claim_all(&together, TTL).await;
    assert_eq!(claim.unwrap(), ClaimAll::Taken(0, VALUE));
    let claim = store.claim_any(&together, TTL).await;
    assert_eq!(claim.unwrap(), ClaimAny::Taken(vec![VALUE, VALUE]));
}

#[tokio::test]
async fn one_node_of_the_url_is_enough_to_find_the_others() {
    let cluster = shared_cluster();
    for node in cluster.urls() {
        let url = node.replace("redis://", "redis-cluster://127.0.0.1:1,");
        let store = RedisStore::connect(&url).await.unwrap();
        for _ in 0..20 {
            assert_works_in_cluster(&store).await;
        }
    }
}

/// A node refuses, for example, because it has too many clients.
#[tokio::test]
async fn connecting_succeeds_if_one_node_refuses() {
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = refusing.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = refusing.accept().await {
            tokio::spawn(async move {
                while client.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {
                    let refusal = b"-ERR max number of clients reached\r\n".repeat(8);
                    client.write_all(&refusal).await.unwrap();
                }
            });
        }
    });
    let node = &shared_cluster().urls()[0];
    let url = node.replace("redis://", &format!("redis-cluster://{at},"));
    for parameters in ["", "/?protocol=3"] {
        let url = format!("{url}{parameters}");
        let store = RedisStore::connect(&url).await.expect(parameters);
        assert_works_in_cluster(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_is_replaced_under_load() {
    let cluster = RedisCluster::start(3, 1).unwrap();
    let store = RedisStore::connect(&cluster.url()).await.unwrap();
    let load = Load::on(&store).await;
    let master = cluster.master_of("key").unwrap();
    master.kill().unwrap();
    cluster.wait_for_failover("key", master).unwrap();
    let begun = Instant::now();
    works_for(&store, "key").await;
    eprintln!(
        "the key is served {:?} after the fail-over",
        begun.elapsed()
    );
    load.goes_well().await;
    assert!(!load.end().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_master_is_replaced_after_the_failover() {
    let cluster = RedisCluster::start(3, 1).unwrap();
    let store = RedisStore::connect(&cluster.url()).await.unwrap();
    let load = Load::on(&store).await;
    let master = cluster.master_of("key").unwrap();
    master.pause().unwrap();
    cluster.wait_for_failover("key", master).unwrap();
    let begun = Instant::now();
    works_for(&store, "key").await;
    eprintln!(
        "the key is served {:?} after the fail-over",
        begun.elapsed()
    );
    load.goes_well().await;
    master.resume().unwrap();
    load.goes_well().await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_node_does_not_delay_the_other_nodes() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = RedisStore::connect(&cluster.url()).await.unwrap();
    let control = RedisStore::connect(&cluster.url()).await.unwrap();
    let (hangs, answers) = (cluster.master_of("a").unwrap(), "b");
    assert_ne!(hangs.port(), cluster.master_of(answers).unwrap().port());
    hangs.pause().unwrap();
    let unanswered = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                let _ = timeout(Duration::from_millis(250), store.get("a")).await;
            }
        }
    });
    let ask = async |store: &RedisStore| {
        store.get(answers).await.unwrap();
    };
    assert_is_not_delayed(async || ask(&store).await, async || ask(&control).await).await;
    hangs.resume().unwrap();
    unanswered.abort();
    works_for(&store, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_node_does_not_delay_replicated_writes_to_other_nodes() {
    let cluster = RedisCluster::start_with(3, 1, ["--cluster-node-timeout", "20000"]).unwrap();
    let url = format!("{}?replicas=1", cluster.url());
    let store = RedisStore::connect(&url).await.unwrap();
    let control = RedisStore::connect(&url).await.unwrap();
    let (hangs, answers) = (cluster.master_of("a").unwrap(), "b");
    assert_ne!(hangs.port(), cluster.master_of(answers).unwrap().port());
    // Connecting takes long while a node hangs, so both stores connect before.
    tokio::join!(until_claimed(&store, "a"), until_claimed(&store, answers));
    until_claimed(&control, answers).await;
    hangs.pause().unwrap();
    let unanswered = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                let (value, try_time) = (VALUE, Duration::from_millis(250));
                let _ = timeout(try_time, store.claim("a", &value, TTL)).await;
            }
        }
    });
    let ask = async |store: &RedisStore| until_claimed(store, answers).await;
    assert_is_not_delayed(async || ask(&store).await, async || ask(&control).await).await;
    hangs.resume().unwrap();
    unanswered.abort();
    until_claimed(&store, "a").await;
}

/// Checks that requests take no longer than requests of `control`, whose store sends none to the hanging node. A busy machine
/// also delays a request, so the check is repeated; a hanging node would delay requests each time.
pub(crate) async fn assert_is_not_delayed(ask: impl AsyncFn(), control: impl AsyncFn()) {
    let mut tries = 0;
    loop {
        let (worst, unharmed) = tokio::join!(slowest(&ask), slowest(&control));
        tries += 1;
        eprintln!(
            "try {tries}: the slowest request took {worst:?}, and {unharmed:?} in the control"
        );
        if worst < Duration::from_secs(1) + unharmed {
            return;
        }
        assert!(tries < 6, "{worst:?}");
    }
}

/// The longest time that one of many requests takes, one after another for five seconds.
async fn slowest(ask: impl AsyncFn()) -> Duration {
    let (begun, mut slowest) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(5) {
        let sent = Instant::now();
        ask().await;
        slowest = slowest.max(sent.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    slowest
}

async fn until_claimed(store: &RedisStore, key: &str) {
    let deadline = Instant::now() + MAX_WAIT;
    while store.claim(key, &VALUE, TTL).await.is_err() {
        assert!(Instant::now() < deadline, "{key} is not claimed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_a_cluster_runs_only_when_the_replica_has_its_claim() {
    let cluster = RedisCluster::start_with(3, 1, ["--cluster-node-timeout", "20000"]).unwrap();
    let url = format!("{}?replicas=1", cluster.url());
    let store = RedisStore::connect(&url).await.unwrap();
    let mut replicas = Vec::new();
    for node in cluster.nodes() {
        let role = send(node, cmd("INFO").arg("replication")).await;
        if from_redis_value::<String>(role)
            .unwrap()
            .contains("role:slave")
        {
            replicas.push(node);
        }
    }
    assert_eq!(replicas.len(), 3);
    runs_only_with_replicas(&store, &replicas).await;
    for _ in 0..20 {
        until_claimed(&store, &key()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_reconnects_to_a_restarted_cluster() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = RedisStore::connect(&cluster.url()).await.unwrap();
    let load = Load::on(&store).await;
    for node in cluster.nodes() {
        node.kill().unwrap();
    }
    let unavailable = [StoreErrorKind::NotApplied, StoreErrorKind::Unknown];
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let answer = timeout(MAX_WAIT, store.get("key")).await;
        let error = answer
            .expect("an answer in time")
            .expect_err("no node may answer");
        assert!(unavailable.contains(&error.kind()), "{}", chain(&error));
    }
    for node in cluster.nodes() {
        node.restart().unwrap();
    }
    cluster.wait_until_healthy().unwrap();
    works_for(&store, "key").await;
    load.goes_well().await;
    load.end().await;
}

#[tokio::test]
async fn a_moving_slot_is_followed() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    add_least_user(&cluster).await;
    let url = cluster.url().replace("://", "://least:s3cret@");
    let store = RedisStore::connect(&url).await.unwrap();
    let resp3 = format!("{url}/?protocol=3");
    let other = RedisStore::connect(&resp3).await.unwrap();
    let (held, free) = ("redis_store:{slot}held", "redis_store:{slot}free");
    store.claim(held, &VALUE, TTL).await.unwrap();
    let check = async || {
        for store in [&store, &other] {
            let claim = store.claim(held, &DONE, TTL).await.unwrap();
            assert_eq!(claim, Claim::Taken(VALUE));
            let renewal = store.replace(held, &VALUE, &VALUE, TTL).await.unwrap();
            assert_eq!(renewal, Swap::Done);
            assert_eq!(store.get(held).await.unwrap().unwrap().value, VALUE);
            assert_eq!(store.get(free).await.unwrap(), None);
            assert_eq!(
                store.claim(free, &VALUE, TTL).await.unwrap(),
                Claim::Claimed
            );
            let completion = store.replace(free, &VALUE, &DONE, TTL).await.unwrap();
            assert_eq!(completion, Swap::Done);
            assert_eq!(store.get(free).await.unwrap().unwrap().value, DONE);
            removed_in_cluster(store.remove(free, &DONE)).await;
        }
    };
    check().await;
    let moving = cluster.begin_move(held).unwrap();
    check().await;
    moving.move_keys().unwrap();
    check().await;
    moving.finish().unwrap();
    check().await;
    removed_in_cluster(other.remove(held, &VALUE)).await;
}

#[tokio::test]
async fn scripts_are_sent_again_after_a_script_flush_of_the_nodes() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = RedisStore::connect(&cluster.url()).await.unwrap();
    for _ in 0..3 {
        for _ in 0..10 {
            assert_works_in_cluster(&store).await;
        }
        for node in cluster.nodes() {
            send(node, cmd("SCRIPT").arg("FLUSH")).await;
        }
    }
}

#[tokio::test]
async fn the_documented_permissions_are_enough_in_a_cluster() {
    let cluster = shared_cluster();
    add_least_user(cluster).await;
    let url = cluster.url().replace("://", "://least:s3cret@");
    let store = RedisStore::connect(&url).await.unwrap();
    for _ in 0..20 {
        assert_works_in_cluster(&store).await;
    }
    let wrong = url.replace("s3cret", "wr0ng");
    let error = RedisStore::connect(&wrong).await.unwrap_err();
    assert_eq!(
        error.kind(),
        StoreErrorKind::Misconfigured,
        "{}",
        chain(&error)
    );
    assert!(!chain(&error).contains("wr0ng"));
}

#[tokio::test]
async fn a_deleted_user_is_a_misconfiguration_until_it_is_created_again() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let each = async |change: &[&str]| {
        for node in cluster.nodes() {
            send(node, cmd("ACL").arg(change)).await;
        }
    };
    let shop = ["SETUSER", "shop", "on", ">s3cret", "~*", "+@all"];
    each(&shop).await;
    let url = cluster.url().replace("://", "://shop:s3cret@");
    let store = RedisStore::connect(&url).await.unwrap();
    assert_works_in_cluster(&store).await;
    each(&["DELUSER", "shop"]).await;
    let deadline = Instant::now() + MAX_WAIT;
    while kind(store.get("key").await) != StoreErrorKind::Misconfigured {
        assert!(
            Instant::now() < deadline,
            "the client must see that its user is deleted"
        );
    }
    each(&shop).await;
    works_for(&store, "key").await;
}

#[tokio::test]
async fn a_server_outside_a_cluster_is_refused_by_the_cluster_url() {
    let server = RedisServer::start().unwrap();
    let url = server.url().replace("redis://", "redis-cluster://");
    let error = RedisStore::connect(&url).await.unwrap_err();
    assert_eq!(
        error.kind(),
        StoreErrorKind::Misconfigured,
        "{}",
        chain(&error)
    );

    server.kill().unwrap();
    let begun = Instant::now();
    let error = RedisStore::connect(&url).await.unwrap_err();
    assert_eq!(
        error.kind(),
        StoreErrorKind::NotApplied,
        "{}",
        chain(&error)
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
}

async fn add_least_user(cluster: &RedisCluster) {
    for node in cluster.nodes() {
        let rules = format!("{LEAST} +cluster|slots +ping +asking");
        add_user(node, "least", &rules).await;
    }
}

/// Repeats the claim until the key is served, each time with the limit of a call.
async fn works_for(store: &RedisStore, key: &str) {
    let deadline = Instant::now() + MAX_WAIT;
    while !matches!(
        timeout(Duration::from_secs(1), store.get(key)).await,
        Ok(Ok(_))
    ) {
        assert!(Instant::now() < deadline, "{key} is not served");
    }
}

#[tokio::test]
async fn a_client_of_one_server_in_a_cluster_is_advised_to_use_the_cluster_url() {
    let node = &shared_cluster().nodes()[0];
    let store = RedisStore::connect(&node.url()).await.unwrap();
    // Other nodes have two thirds of the keys.
    let error = loop {
        if let Err(error) = store.claim(&key(), &VALUE, TTL).await {
            break error;
        }
    };
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    let text = chain(&error);
    assert!(text.contains("write `redis-cluster://`"), "{text}");
}
