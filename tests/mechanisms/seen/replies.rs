//! Replies that are lost between the server and the caller.

use std::time::Duration;

use futures_util::future::join_all;
use idempotence_test_servers::{Direction, ProxyFault, RedisProxy};
use idempotent_redis::RedisStore;
use idempotent_runtime::{Error, FirstTime, Idempotency};

use crate::seen::servers::{MAX_WAIT, keys, private};
use crate::seen::{added, is_first, patient, set_of};

const HOUR: Duration = Duration::from_hours(1);

/// A removal is sent by hash, and then by source if the server does not have the script.
const REPLIES: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_caller_whose_reply_was_lost_is_the_first_in_its_second_attempt() {
    let faults = ProxyFault::all(Duration::from_secs(1)).into_iter();
    let cases = faults.flat_map(|fault| (0..REPLIES).map(move |reply| (fault, reply)));
    join_all(cases.map(|(fault, reply)| async move {
        // On a machine that stands still the deadline ends a call before its second attempt, so then the case is repeated.
        for seconds in [2, 4, 8, 16, 32] {
            if is_first_again(fault, reply, Duration::from_secs(seconds)).await {
                return;
            }
        }
        panic!("{fault:?} of reply {reply}: no second attempt within 32 s");
    }))
    .await;
}

/// Checks one lost reply. Returns whether the calls ended before the deadline, where they must.
async fn is_first_again(fault: ProxyFault, reply: usize, deadline: Duration) -> bool {
    let what = format!("{fault:?} of reply {reply}");
    let (server, clean) = private().await;
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let store = RedisStore::connect(&proxy.url()).await.unwrap();
    let idempotency = Idempotency::builder(store).deadline(deadline);
    let idempotency = idempotency.build().unwrap();
    let seen = set_of(&idempotency, HOUR);
    let clean = set_of(&patient(clean), HOUR);

    proxy.plan(Direction::Reply, 0, fault);
    let first = match seen.first_time(&42).await {
        Ok(FirstTime::Yes(first)) => first,
        Ok(FirstTime::No) => panic!("{what}: the caller found its own member"),
        Err(error) => {
            if !may_be_unanswered(fault, &error) {
                return false;
            }
            idempotency.drain(MAX_WAIT).await.unwrap();
            match seen.first_time(&42).await {
                Ok(FirstTime::Yes(first)) => first,
                Ok(FirstTime::No) => panic!("{what}: the member must be new"),
                Err(_) => return false,
            }
        }
    };
    assert!(proxy.traffic().fault_applied, "{what}");
    assert!(!is_first(&clean, 42).await, "{what}");

    proxy.plan(Direction::Reply, reply, fault);
    match first.take_back().await {
        Ok(was_there) => assert!(was_there, "{what}"),
        Err(error) if may_be_unanswered(fault, &error) => {}
        Err(_) => return false,
    }
    idempotency.drain(MAX_WAIT).await.unwrap();
    assert!(is_first(&clean, 42).await, "{what}");
    true
}

/// A silent connection is detected only after the deadline of a caller.
fn may_be_unanswered(fault: ProxyFault, error: &Error) -> bool {
    assert!(error.is_unavailable(), "{error:?}");
    fault == ProxyFault::Silence
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
    let members = async || keys(&server).await.len();
    // On a slow machine the call may have ended before its member is seen, and then the reply comes later.
    for (member, seconds) in [(1, 5), (2, 20), (3, 50)] {
        let before = members().await;
        let delay = ProxyFault::Delay(Duration::from_secs(seconds));
        proxy.plan(Direction::Reply, 0, delay);
        let first = tokio::spawn({
            let seen = seen.clone();
            async move { seen.first_time(&member).await.map(drop) }
        });
        while members().await == before && !first.is_finished() {}
        first.abort();
        let Err(ended) = first.await else {
            continue;
        };
        assert!(ended.is_cancelled());
        idempotency.drain(MAX_WAIT).await.unwrap();
        assert_eq!(members().await, before);
        return assert!(is_first(&clean, member).await);
    }
    panic!("the call ended before its member was seen, three times");
}
