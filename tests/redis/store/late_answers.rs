//! A node of a cluster that answers late, while no other command is sent.

use std::time::Duration;

use idempotence_test_servers::{Direction, ProxyFault, RedisCluster, RedisProxy};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::Store as _;

use crate::store::servers::{DONE, TTL, key, send};

/// Much longer than the client of the cluster waits for a node before it sends a command again.
const LATE: Duration = Duration::from_secs(3);

/// A cluster of one node, whose clients reach it through the proxy.
async fn behind_a_proxy() -> (RedisCluster, RedisProxy) {
    let cluster = RedisCluster::start(1, 0).unwrap();
    let node = &cluster.nodes()[0];
    let proxy = RedisProxy::start(("127.0.0.1", node.port())).unwrap();
    let mut announce = cmd("CONFIG");
    announce.arg("SET").arg("cluster-announce-port");
    send(node, announce.arg(proxy.port())).await;
    (cluster, proxy)
}

/// The client of the cluster sends every operation.
async fn store_at(proxy: &RedisProxy) -> RedisStore {
    let url = proxy.url().replace("redis://", "redis-cluster://");
    let options = RedisStore::options().batch(false);
    options.connect(&url).await.unwrap()
}

#[tokio::test]
async fn a_command_to_a_late_node_is_sent_again_without_another_command() {
    let (_cluster, proxy) = behind_a_proxy().await;
    let store = store_at(&proxy).await;
    let key = key();
    store.claim(&key, &DONE, TTL).await.unwrap();
    proxy.plan(Direction::Reply, 0, ProxyFault::Delay(LATE));
    let entry = store.get(&key).await.unwrap();
    assert_eq!(entry.unwrap().value, DONE);
    assert!(proxy.traffic().fault_applied);
    assert!(proxy.traffic().requests > 1, "{:?}", proxy.traffic());
}

#[tokio::test]
async fn a_listing_of_a_late_node_is_asked_again_without_another_command() {
    let (_cluster, proxy) = behind_a_proxy().await;
    let store = store_at(&proxy).await;
    let key = key();
    store.claim(&key, &DONE, TTL).await.unwrap();
    // The first command asks for the masters, and the second for the keys.
    proxy.plan(Direction::Reply, 1, ProxyFault::Delay(LATE));
    let page = store.list(&key, None, 10).await.unwrap().unwrap();
    assert_eq!(page.records.len(), 1);
    assert!(proxy.traffic().fault_applied);
    assert!(proxy.traffic().requests > 2, "{:?}", proxy.traffic());
}
