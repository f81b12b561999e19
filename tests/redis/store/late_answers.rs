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
    is_sent_again(&proxy, 0, async || {
        let entry = store.get(&key).await.unwrap();
        assert_eq!(entry.unwrap().value, DONE);
    })
    .await;
}

#[tokio::test]
async fn a_listing_of_a_late_node_is_asked_again_without_another_command() {
    let (_cluster, proxy) = behind_a_proxy().await;
    let store = store_at(&proxy).await;
    let key = key();
    store.claim(&key, &DONE, TTL).await.unwrap();
    // The first command asks for the masters, and the second for the keys.
    is_sent_again(&proxy, 1, async || {
        let page = store.list(&key, None, 10).await.unwrap().unwrap();
        assert_eq!(page.records.len(), 1);
    })
    .await;
}

/// Delays this reply, and asserts that its command is sent again. If the test itself stands still on a busy machine, the reply is not
/// late, so then the question is repeated.
async fn is_sent_again(proxy: &RedisProxy, reply: usize, ask: impl AsyncFn()) {
    for attempt in 1.. {
        proxy.plan(Direction::Reply, reply, ProxyFault::Delay(LATE));
        ask().await;
        let traffic = proxy.traffic();
        assert!(traffic.fault_applied);
        if traffic.requests > reply + 1 {
            return;
        }
        assert!(attempt < 5, "{traffic:?}");
    }
}
