//! Replies that are lost between the server and the caller.

use std::time::Duration;

use idempotence_test_servers::{Direction, ProxyFault, RedisProxy};
use idempotent_runtime::{Error, FirstTime, Idempotency, RedisStore};

use crate::seen::servers::{MAX_WAIT, keys, private};
use crate::seen::{added, is_first, patient, set_of};

const HOUR: Duration = Duration::from_hours(1);

/// A removal is sent by hash, and then by source if the server does not have the script.
const REPLIES: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_caller_whose_reply_was_lost_is_the_first_in_its_second_attempt() {
    for fault in ProxyFault::all(Duration::from_secs(1)) {
        for reply in 0..REPLIES {
            let what = format!("{fault:?} of reply {reply}");
            let (server, clean) = private().await;
            let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
            let store = RedisStore::connect(&proxy.url()).await.unwrap();
            let builder = Idempotency::builder(store).deadline(Duration::from_secs(2));
            let idempotency = builder.build().unwrap();
            let seen = set_of(&idempotency, HOUR);
            let clean = set_of(&patient(clean), HOUR);

            proxy.plan(Direction::Reply, 0, fault);
            let first = match seen.first_time(&42).await {
                Ok(FirstTime::Yes(first)) => first,
                Ok(FirstTime::No) => panic!("{what}: the caller found its own member"),
                Err(error) => {
                    may_be_unanswered(fault, &error);
                    idempotency.drain(MAX_WAIT).await.unwrap();
                    added(&seen, 42).await
                }
            };
            assert!(proxy.traffic().fault_applied, "{what}");
            assert!(!is_first(&clean, 42).await, "{what}");

            proxy.plan(Direction::Reply, reply, fault);
            match first.take_back().await {
                Ok(was_there) => assert!(was_there, "{what}"),
                Err(error) => may_be_unanswered(fault, &error),
            }
            idempotency.drain(MAX_WAIT).await.unwrap();
            assert!(is_first(&clean, 42).await, "{what}");
        }
    }
}

/// A silent connection is detected only after the deadline of a caller.
fn may_be_unanswered(fault: ProxyFault, error: &Error) {
    assert_eq!(fault, ProxyFault::Silence);
    assert!(error.is_unavailable(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_member_of_a_caller_dropped_before_the_reply_is_removed() {
    let (server, clean) = private().await;
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let store = RedisStore::connect(&proxy.url()).await.unwrap();
    let idempotency = patient(store);
    let seen = set_of(&idempotency, HOUR);
    let clean = set_of(&patient(clean), HOUR);
    added(&seen, 0).await;
    proxy.plan(
        Direction::Reply,
        0,
        ProxyFault::Delay(Duration::from_secs(5)),
    );
    let first = tokio::spawn(async move { seen.first_time(&42).await.map(drop) });
    let members = async || keys(&server).await.len();
    while members().await < 2 {
        assert!(!first.is_finished(), "the call must still be running");
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    idempotency.drain(MAX_WAIT).await.unwrap();
    assert_eq!(members().await, 1);
    assert!(is_first(&clean, 42).await);
}
