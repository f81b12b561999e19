//! A batch of calls makes fewer requests than a loop.

use std::future::ready;

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{self, cmd};
use idempotent_runtime::{Error, Idempotency};
use support::patient::patient;

use crate::store::servers::{TTL, send};

const ROWS: usize = 200;

/// How often the server has read from a connection. It reads a batch at once.
async fn requests(server: &RedisServer) -> usize {
    let stats = send(server, cmd("INFO").arg("stats")).await;
    let stats: String = redis::from_redis_value(stats).unwrap();
    let count = stats.split("total_reads_processed:").nth(1).unwrap();
    count.lines().next().unwrap().parse().unwrap()
}

/// Runs a call for each row, at most `limit` at a time. Returns how many requests the server got.
async fn run_each(server: &RedisServer, idempotency: &Idempotency, limit: usize) -> usize {
    let before = requests(server).await;
    let call = idempotency.call("import.row").key(&limit).ttl(TTL);
    let mut outcomes = call.run_each(0..ROWS, limit, |call, row| async move {
        call.key(&row).run(ready(Ok::<_, Error>(()))).await
    });
    while let Some(outcome) = outcomes.next().await {
        outcome.unwrap();
    }
    requests(server).await - before
}

#[tokio::test]
async fn a_batch_of_calls_makes_fewer_requests_than_a_loop() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let idempotency = patient(store);
    let before = requests(&server).await;
    for row in 0..ROWS {
        let call = idempotency.call("import.row").key(&("loop", row)).ttl(TTL);
        call.run(ready(Ok::<_, Error>(()))).await.unwrap();
    }
    let of_loop = requests(&server).await - before;
    assert!(of_loop >= 2 * ROWS, "{of_loop} requests");
    // One call at a time saves nothing.
    let one_by_one = run_each(&server, &idempotency, 1).await;
    assert!(one_by_one >= 2 * ROWS, "{one_by_one} requests");
    let together = run_each(&server, &idempotency, 64).await;
    assert!(4 * together < of_loop, "{together} of {of_loop} requests");
}
