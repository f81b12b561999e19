//! A proxy that loses or repeats one reply makes every later reply of its connection the answer to another command.

use std::time::Duration;

use futures_util::future::join_all;
use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_runtime::store::Store as _;
use idempotent_runtime::{Error, Idempotency};
use tokio::time::{Instant, sleep};

use crate::store::servers::MAX_WAIT;

const ORDERS: std::ops::Range<u32> = 0..8;

async fn handle(url: &str, prefix: &str, deadline: Duration) -> Idempotency {
    let builder = Idempotency::builder(RedisStore::connect(url).await.unwrap());
    let builder = builder.prefix(prefix).deadline(deadline);
    builder.build().unwrap()
}

/// A handle that soon gives up a reply that was lost. Only calls through a proxy need it. On a busy machine a later attempt waits longer.
async fn impatient(url: &str, prefix: &str, attempt: u32) -> Idempotency {
    handle(url, prefix, Duration::from_millis(200) * (1 + attempt)).await
}

/// Pays an order. Its result is its number.
async fn pay(handle: &Idempotency, order: u32) -> Result<u32, Error> {
    let call = handle.call("orders.pay").key(&order);
    let call = call.ttl(Duration::from_hours(1)).replay();
    call.run(async { Ok(order) }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_gets_the_result_of_another_key_after_shifted_replies() {
    let server = RedisServer::start().unwrap();
    // Each round has its own proxy and its own keys. On a busy machine every reply may be too late to be read, so then all
    // rounds are repeated.
    for attempt in 0..8 {
        let faults = [ProxyFault::Lose, ProxyFault::Double].repeat(4);
        let rounds = faults.into_iter().enumerate();
        let rounds = rounds.map(|(reply, fault)| pay_while_shifted(&server, attempt, reply, fault));
        let refused: u32 = join_all(rounds).await.into_iter().sum();
        if refused > 0 {
            return;
        }
    }
    panic!("no reply was shifted");
}

/// Returns the number of calls that were refused because they got the record of another key.
async fn pay_while_shifted(
    server: &RedisServer,
    attempt: u32,
    reply: usize,
    fault: ProxyFault,
) -> u32 {
    let prefix = format!("shifted{attempt}-{reply}");
    let direct = handle(&server.url(), &prefix, MAX_WAIT).await;
    for paid in join_all(ORDERS.map(|order| pay(&direct, order))).await {
        paid.unwrap();
    }
    let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
    let handle = impatient(&proxy.url(), &prefix, attempt).await;
    proxy.plan(Direction::Reply, reply, fault);
    let mut refused = 0;
    for _ in 0..6 {
        let answers = join_all(ORDERS.map(|order| pay(&handle, order))).await;
        for (order, answer) in ORDERS.zip(answers) {
            match answer {
                Ok(result) => assert_eq!(result, order, "{fault:?} of reply {reply}"),
                Err(Error::ForeignRecord(_)) => refused += 1,
                Err(error) => assert!(error.is_unavailable(), "{error:?}"),
            }
        }
        for order in ORDERS {
            if let Ok(result) = pay(&handle, order).await {
                assert_eq!(result, order, "{fault:?} of reply {reply}");
            }
        }
    }
    // Only shifted replies have the records of other keys.
    assert!(refused == 0 || proxy.traffic().fault_applied);
    refused
}

/// The call got the answer to another request, so the store may have accepted its claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_got_the_record_of_another_key_leaves_no_claim() {
    let server = RedisServer::start().unwrap();
    let direct = handle(&server.url(), "idem", MAX_WAIT).await;
    pay(&direct, 0).await.unwrap();
    let mut refused = None;
    for order in 1..100 {
        let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
        let handle = impatient(&proxy.url(), "idem", order / 20).await;
        proxy.plan(Direction::Reply, 0, ProxyFault::Double);
        // The record of the paid order is the reply that arrives twice.
        let (_, paid) = tokio::join!(pay(&handle, 0), pay(&handle, order));
        if let Err(Error::ForeignRecord(_)) = paid {
            let end = handle.drain(Duration::from_secs(20)).await;
            refused = Some((order, end, proxy));
            break;
        }
    }
    let (order, end, _proxy) = refused.expect("no reply was shifted");
    // The removal has the answer to the claim, and may still be on its way through the proxy. The claim would live for 33 s.
    let until = Instant::now() + Duration::from_secs(15);
    while let Some(left) = direct.peek("orders.pay", &(order,)).await.unwrap() {
        assert!(Instant::now() < until, "{end:?}: {left:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_record_without_the_digits_of_its_key_is_read_and_one_of_another_key_is_not() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let handle = handle(&server.url(), "idem", MAX_WAIT).await;
    let key = |order: u32| {
        let fingerprint = idempotent_runtime::fingerprint::Fingerprint::of(&(order,)).unwrap();
        format!("idem:orders.pay:{fingerprint}")
    };
    assert_eq!(pay(&handle, 1).await.unwrap(), 1);
    let record = store.get(&key(1)).await.unwrap().unwrap().value;
    let text = String::from_utf8(record.to_vec()).unwrap();
    let digits = text.split(' ').nth(5).unwrap().get(..10).unwrap();
    assert!(digits.ends_with(".."), "{text}");
    let holder = handle.peek("orders.pay", &(1,)).await.unwrap().unwrap();
    assert!(!holder.holder().contains(".."), "{holder:?}");

    let hour = Duration::from_hours(1);
    let earlier = text.replace(digits, "").into();
    let _ = store.claim(&key(2), &earlier, hour).await.unwrap();
    assert_eq!(
        pay(&handle, 2).await.unwrap(),
        1,
        "an earlier version wrote it"
    );
    let _ = store.claim(&key(3), &record, hour).await.unwrap();
    let refused = pay(&handle, 3).await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused:?}");
    assert!(
        refused.to_string().contains("the record of another key"),
        "{refused}"
    );
    let peeked = handle.peek("orders.pay", &(3,)).await.unwrap_err();
    assert!(matches!(peeked, Error::ForeignRecord(_)), "{peeked:?}");
}
