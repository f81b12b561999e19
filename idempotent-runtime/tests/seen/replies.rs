//! Replies that are lost between the server and the caller.

use std::time::Duration;

use idempotence_test_servers::{Direction, ProxyFault, RedisProxy};
use idempotent_runtime::{Error, FirstTime, Idempotency, RedisStore};

use crate::servers::{PATIENCE, buckets, private};
use crate::{added, is_first, set_of};

const HOUR: Duration = Duration::from_hours(1);

/// By hash, and by source since the server does not know the script.
const REPLIES: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_first_and_did_not_hear_it_is_the_first_when_it_asks_again() {
    for fault in ProxyFault::all(Duration::from_secs(1)) {
        for reply in 0..REPLIES {
            let what = format!("{fault:?} of reply {reply}");
            let (server, clean) = private().await;
            let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
            let store = RedisStore::connect(&proxy.url()).await.unwrap();
            let builder = Idempotency::builder(store).deadline(Duration::from_secs(2));
            let idempotency = builder.build().unwrap();
            let seen = set_of(&idempotency, HOUR);
            let clean = set_of(&Idempotency::new(clean), HOUR);

            proxy.plan(Direction::Reply, reply, fault);
            let first = match seen.first_time(&42).await {
                Ok(FirstTime::Yes(first)) => first,
                Ok(FirstTime::No) => panic!("{what}: it was its own"),
                Err(error) => {
                    may_be_unanswered(fault, &error);
                    idempotency.drain(PATIENCE).await.unwrap();
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
            idempotency.drain(PATIENCE).await.unwrap();
            assert!(is_first(&clean, 42).await, "{what}");
        }
    }
}

/// A silent connection is found out later than a caller waits.
fn may_be_unanswered(fault: ProxyFault, error: &Error) {
    assert_eq!(fault, ProxyFault::Silence);
    assert!(error.is_unavailable(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_dropped_before_the_reply_has_its_member_taken_out() {
    let (server, clean) = private().await;
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let store = RedisStore::connect(&proxy.url()).await.unwrap();
    let idempotency = Idempotency::new(store);
    let seen = set_of(&idempotency, HOUR);
    let clean = set_of(&Idempotency::new(clean), HOUR);
    added(&seen, 0).await;
    proxy.plan(
        Direction::Reply,
        0,
        ProxyFault::Delay(Duration::from_secs(2)),
    );
    let first = tokio::spawn(async move { seen.first_time(&42).await.map(drop) });
    let members = async || {
        let all = buckets(&server).await;
        all.iter().map(|bucket| bucket.members).sum::<usize>()
    };
    while members().await < 2 {
        assert!(!first.is_finished(), "it was answered");
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    idempotency.drain(PATIENCE).await.unwrap();
    assert_eq!(members().await, 1);
    assert!(is_first(&clean, 42).await);
}
