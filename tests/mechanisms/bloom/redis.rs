//! Filters in Redis.

use std::time::Duration;

use idempotence_test_servers::{Direction, ProxyFault, RedisCluster, RedisProxy, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::{Bloom, Hint};

use crate::bloom::rates::{CAPACITY, holds_its_error_rate_and_reports_when_it_is_full};
use crate::bloom::server::{ask, calls, keys, store_on};
use crate::bloom::{DAY, bloom, patient, perhaps_seen};

#[tokio::test]
async fn a_filter_in_redis_holds_its_error_rate_and_reports_when_it_is_full() {
    let server = RedisServer::start().unwrap();
    let bloom = bloom(store_on(&server).await, CAPACITY);
    holds_its_error_rate_and_reports_when_it_is_full(&bloom).await;
}

#[tokio::test]
async fn a_hint_is_one_round_trip_and_writes_once() {
    let server = RedisServer::start().unwrap();
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let store = RedisStore::connect(&proxy.url()).await.unwrap();
    let bloom = bloom(store, 1000);
    // Loads the script, and makes the bucket.
    perhaps_seen(&bloom, 0..1).await;
    proxy.plan(Direction::Request, usize::MAX, ProxyFault::Close);
    ask::<()>(&server, cmd("CONFIG").arg("RESETSTAT")).await;
    for member in 1..101 {
        let _ = bloom.hint(&member).await.unwrap();
    }
    let seen = proxy.traffic();
    assert_eq!((seen.requests, seen.replies), (100, 100));
    assert!((calls(&server, "bitfield").await - 100.0).abs() < 1.0);
    assert!((calls(&server, "pttl").await - 100.0).abs() < 1.0);
    assert!(calls(&server, "pexpireat").await < 1.0);
    // The search of a bucket ends at the first bit that is not set. There are two earlier buckets.
    assert!(calls(&server, "getbit").await < 250.0);
    bloom.stats().await.unwrap();
    bloom.stats().await.unwrap();
    // Counts only the second call, because the first call loads the script.
    assert_eq!(proxy.traffic().requests, 100 + 2 + 1);
    assert_eq!(perhaps_seen(&bloom, 1..101).await, 100);
}

#[tokio::test]
async fn every_key_expires_within_one_and_a_half_retentions() {
    let server = RedisServer::start().unwrap();
    let idempotency = patient(store_on(&server).await);
    let retention = Duration::from_millis(200);
    let short = idempotency
        .bloom("orders.no", 1000, 0.01, retention)
        .unwrap();
    // Continues through several turns of the ring.
    for member in 0..200 {
        let _ = short.hint(&member).await.unwrap();
        for key in keys(&server).await {
            let remaining: i64 = ask(&server, cmd("PTTL").arg(&key)).await;
            // Each of three buckets may be a millisecond longer than half of the retention.
            assert!(
                remaining == -2 || (0..=303).contains(&remaining),
                "{key}: {remaining}"
            );
        }
    }
    // A filter with another name, because a filter with the same name and size has the same keys.
    let long = idempotency.bloom("orders.long", 1000, 0.01, DAY).unwrap();
    assert_eq!(long.hint(&1).await.unwrap(), Hint::Unseen);
    let mut found = 0;
    for key in keys(&server).await {
        let remaining: i64 = ask(&server, cmd("PTTL").arg(&key)).await;
        let day = 24 * 60 * 60 * 1000;
        found += usize::from((day..=day * 3 / 2 + 3).contains(&remaining));
    }
    assert_eq!(found, 1);
}

#[tokio::test]
async fn no_part_of_a_member_is_in_the_server() {
    let server = RedisServer::start().unwrap();
    let bloom = bloom(store_on(&server).await, 1000);
    let _ = bloom.hint("canary").await.unwrap();
    let keys = keys(&server).await;
    assert_eq!(keys.len(), 1);
    assert!(keys[0].starts_with("idem:#bloom:{orders.no}:"), "{keys:?}");
}

#[tokio::test]
async fn a_filter_of_a_cluster_is_on_one_node() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let bloom = bloom(RedisStore::connect(&cluster.url()).await.unwrap(), 1000);
    assert_eq!(perhaps_seen(&bloom, 0..200).await, 0);
    assert_eq!(perhaps_seen(&bloom, 0..200).await, 200);
    assert!(bloom.stats().await.unwrap().unwrap().members > 190);
    let mut nodes = 0;
    for node in cluster.nodes() {
        nodes += usize::from(!keys(node).await.is_empty());
    }
    assert_eq!(nodes, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_many_concurrent_marks_finds_the_member_unseen() {
    let server = RedisServer::start().unwrap();
    let mut blooms = Vec::new();
    for _ in 0..4 {
        blooms.push(bloom(store_on(&server).await, 1000));
    }
    let mark = |bloom: Bloom| {
        tokio::spawn(async move {
            let mut unseen = Vec::new();
            for member in 0..200 {
                if bloom.hint(&member).await.unwrap() == Hint::Unseen {
                    unseen.push(member);
                }
            }
            unseen
        })
    };
    let marking: Vec<_> = blooms.into_iter().map(mark).collect();
    let mut unseen = Vec::new();
    for marking in marking {
        unseen.extend(marking.await.unwrap());
    }
    unseen.sort_unstable();
    assert!(
        unseen.iter().eq(&(0..200).collect::<Vec<_>>()),
        "{unseen:?}"
    );
}

#[tokio::test]
async fn a_filter_with_other_settings_is_another_filter() {
    let server = RedisServer::start().unwrap();
    let idempotency = patient(store_on(&server).await);
    for (capacity, error_rate) in [(1000, 0.01), (2000, 0.01), (1000, 0.001)] {
        let bloom = idempotency
            .bloom("orders.no", capacity, error_rate, DAY)
            .unwrap();
        assert_eq!(bloom.hint(&42).await.unwrap(), Hint::Unseen);
        assert_eq!(bloom.hint(&42).await.unwrap(), Hint::PerhapsSeen);
    }
}

#[tokio::test]
async fn a_bucket_takes_all_its_memory_at_the_first_mark() {
    let server = RedisServer::start().unwrap();
    let bloom = bloom(store_on(&server).await, 1_000_000);
    let _ = bloom.hint(&1).await.unwrap();
    let key = keys(&server).await.remove(0);
    let usage = async || -> usize { ask(&server, cmd("MEMORY").arg("USAGE").arg(&key)).await };
    let first = usage().await;
    // 11.03 bits per member, rounded up to a size of the server's allocator.
    assert!((1_378_000..1_700_000).contains(&first), "{first}");
    perhaps_seen(&bloom, 0..1000).await;
    assert_eq!(usage().await, first);
}
