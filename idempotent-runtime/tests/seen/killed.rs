//! Servers that are killed while members are added.

use std::time::{Duration, Instant};

use idempotence_test_servers::RedisServer;
use idempotent_runtime::redis::redis::cmd;
use idempotent_runtime::{Idempotency, SeenSet};
use tokio::task::JoinSet;

use crate::is_first;
use crate::servers::{MAX_WAIT, buckets, send, store_on};

const HOUR: Duration = Duration::from_hours(1);

const ROUNDS: u32 = 5;

/// Almost every member is in its own shard, so nearly every add makes a bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bucket_without_an_expiry_survives_a_kill() {
    let aof = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let server = RedisServer::start_with(aof).unwrap();
    let idempotency = Idempotency::new(store_on(&server).await);
    let keys = async || send::<usize>(&server, &cmd("DBSIZE")).await;
    for round in 0..ROUNDS {
        let seen = SeenSet::builder(&idempotency, format!("round-{round}")).retention(HOUR);
        let (seen, before) = (seen.shards(4096).build().unwrap(), keys().await);
        let mut callers = JoinSet::new();
        for caller in 0..8 {
            let seen = seen.clone();
            callers.spawn(async move {
                let mut number = 0_u32;
                while seen.first_time(&(caller, number)).await.is_ok() {
                    number += 1;
                }
            });
        }
        let deadline = Instant::now() + MAX_WAIT;
        while keys().await < before + 100 {
            assert!(Instant::now() < deadline, "members must be added");
        }
        server.kill().unwrap();
        callers.join_all().await;
        server.restart().unwrap();
        let after = buckets(&server).await;
        assert!(!after.is_empty(), "the server must read its file");
        let without_expiry: Vec<_> = after.iter().filter(|bucket| bucket.remaining < 0).collect();
        assert!(
            without_expiry.is_empty(),
            "{without_expiry:?} of {}",
            after.len()
        );
        idempotency.drain(MAX_WAIT).await.unwrap();
        let deadline = Instant::now() + MAX_WAIT;
        while seen.first_time(&round).await.is_err() {
            assert!(
                Instant::now() < deadline,
                "the store must reconnect to the server"
            );
        }
        assert!(!is_first(&seen, round).await);
    }
}
