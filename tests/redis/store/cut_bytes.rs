//! Connections to the nodes of a cluster, and to sentinels, that are closed at random bytes, also in the middle of a reply.

use std::time::Duration;

use idempotence_test_servers::{RedisCluster, RedisSentinels, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::Idempotency;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use support::orders::Orders;
use support::wire::CutBytes;
use tokio::time::Instant;

use crate::store::servers::{MAX_WAIT, send};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_cluster_that_cut_connections_give_no_foreign_result_and_repeat_no_body() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let cuts: Vec<_> = cluster.nodes().iter().map(cut).collect();
    for (node, cut) in cluster.nodes().iter().zip(&cuts) {
        // Clients and nodes learn this port.
        let announce = ["SET", "cluster-announce-port", &cut.port().to_string()];
        send(node, cmd("CONFIG").arg(&announce)).await;
    }
    let direct = cluster.nodes().iter().map(RedisServer::port);
    let url = through(cluster.url(), direct, &cuts);
    pays_once(&url, &cuts, async || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_cut_connections_give_no_foreign_result_and_repeat_no_body() {
    let sentinels = RedisSentinels::start().unwrap();
    sentinels.keep_master().unwrap();
    let cuts: Vec<_> = sentinels.sentinels().iter().map(cut).collect();
    let direct = sentinels.sentinels().iter().map(RedisServer::port);
    let url = through(sentinels.url(), direct, &cuts);
    let master = sentinels.master().unwrap();
    // A client that has the master asks no sentinel, so it loses its connection.
    let disconnect = async || {
        send(master, cmd("CLIENT").arg(&["KILL", "TYPE", "normal"])).await;
    };
    pays_once(&url, &cuts, disconnect).await;
}

fn cut(server: &RedisServer) -> CutBytes {
    let mut random = StdRng::seed_from_u64(u64::from(server.port()));
    // The first replies of a node have some thousand bytes.
    let bytes = std::iter::repeat_with(move || random.random_range(1..20_000));
    CutBytes::new(server.port(), bytes)
}

/// The URL through the cutting listeners.
fn through(url: String, direct: impl Iterator<Item = u16>, cuts: &[CutBytes]) -> String {
    let ports = direct.zip(cuts.iter().map(CutBytes::port));
    ports.fold(url, |url, (direct, cut)| {
        url.replace(&format!(":{direct}"), &format!(":{cut}"))
    })
}

/// Pays orders until enough connections were cut.
async fn pays_once(url: &str, cuts: &[CutBytes], before_each: impl AsyncFn()) {
    let store = connected(url).await;
    let handle = Idempotency::builder(store).deadline(Duration::from_secs(1));
    let handle = handle.build().unwrap();
    let mut orders = Orders::new();
    let connections = || cuts.iter().map(CutBytes::connections).sum::<usize>();
    let enough = connections() + 60;
    let deadline = Instant::now() + MAX_WAIT;
    while connections() < enough {
        assert!(Instant::now() < deadline, "{} connections", connections());
        before_each().await;
        orders.pay_all(&handle).await;
    }
    orders.check();
}

/// Connecting also fails when a connection is cut.
async fn connected(url: &str) -> RedisStore {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match RedisStore::connect(url).await {
            Ok(store) => return store,
            Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
        }
    }
}
