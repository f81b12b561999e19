//! Calls that wait for a call on another handle with another connection.

use std::time::{Duration, Instant};

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::{Error, GuardedCall, Idempotency};
use tokio::sync::oneshot;
use tokio::time::timeout;

use support::equal_calls::assert_only_equal_calls_are_duplicates;
use support::exports::assert_exports_keep_their_permits;
use support::patient::patient;
use support::transfers::assert_crossing_transfers_end;

use crate::store::servers::{MAX_WAIT, TTL, is_listened_to, subscribed};

const ROUNDS: u32 = 20;

fn pay(idempotency: &Idempotency, round: u32) -> GuardedCall {
    let call = idempotency.call("orders.pay").key(&round);
    call.ttl(TTL).wait(MAX_WAIT)
}

#[tokio::test]
async fn a_notification_is_faster_than_polling() {
    let server = RedisServer::start().unwrap();
    let here = RedisStore::connect(&server.url()).await.unwrap();
    let there = RedisStore::connect(&server.url()).await.unwrap();
    assert_waiting_call_is_woken(here, there, &[server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossing_transfers_end() {
    let server = RedisServer::start().unwrap();
    let handle = async || patient(RedisStore::connect(&server.url()).await.unwrap());
    assert_crossing_transfers_end([handle().await, handle().await]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_keep_their_permits() {
    let server = RedisServer::start().unwrap();
    let store = async || RedisStore::connect(&server.url()).await.unwrap();
    assert_exports_keep_their_permits([store().await, store().await]).await;
}

#[tokio::test]
async fn only_equal_calls_are_duplicates() {
    let server = RedisServer::start().unwrap();
    let handle = async || patient(RedisStore::connect(&server.url()).await.unwrap());
    assert_only_equal_calls_are_duplicates([handle().await, handle().await]).await;
}

/// Calls on two stores that meet on these servers.
pub(crate) async fn assert_waiting_call_is_woken(
    here: RedisStore,
    there: RedisStore,
    servers: &[RedisServer],
) {
    let _listening = subscribed(&there, "idem:first").await;
    let (here, there) = (patient(here), patient(there));
    // A busy machine also delays a duplicate that is woken, so the check is repeated.
    let deadline = Instant::now() + MAX_WAIT;
    for first_round in (0..).step_by(ROUNDS as usize) {
        let mut latencies = Vec::new();
        for round in first_round..first_round + ROUNDS {
            latencies.push(latency(&here, &there, servers, round).await);
        }
        latencies.sort();
        let median = latencies[latencies.len() / 2];
        let (least, most) = (latencies[0], latencies[latencies.len() - 1]);
        eprintln!(
            "from the end of the body to its duplicate: {least:?} to {most:?}, median {median:?}"
        );
        // Without a hint the store is polled again after at least 100 ms.
        if median < Duration::from_millis(50) {
            return;
        }
        assert!(Instant::now() < deadline, "no hint woke the duplicates");
    }
}

/// The time from the end of a body to the result of its duplicate.
async fn latency(
    here: &Idempotency,
    there: &Idempotency,
    servers: &[RedisServer],
    round: u32,
) -> Duration {
    let (runs, begun) = oneshot::channel();
    let (end, ends) = oneshot::channel();
    let body = async move {
        runs.send(()).unwrap();
        ends.await.unwrap();
        Ok::<_, Error>(round)
    };
    let first = tokio::spawn(pay(here, round).replay().run(body));
    begun.await.unwrap();
    let never = async { panic!("the body of a duplicate ran") };
    let second = pay(there, round).replay().run(never);
    let second = tokio::spawn(async move {
        let result: Result<u32, Error> = second.await;
        (result.unwrap(), Instant::now())
    });
    let key = format!("idem:orders.pay:{}", Fingerprint::of(&(round,)).unwrap());
    // On a busy machine the duplicate may poll without a subscription, and this round is slow.
    let _ = timeout(Duration::from_secs(20), is_listened_to(servers, &key)).await;

    let ended = Instant::now();
    end.send(()).unwrap();
    let (result, answered) = second.await.unwrap();
    assert_eq!((result, first.await.unwrap().unwrap()), (round, round));
    answered - ended
}
