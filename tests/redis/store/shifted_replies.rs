//! A proxy that loses or repeats one reply makes every later reply of its connection the answer to another command.

use std::time::Duration;

use futures_util::future::join_all;
use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
use idempotent_runtime::store::Store as _;
use idempotent_runtime::{Error, Idempotency, RedisStore};
use tokio::time::{Instant, sleep};

const ORDERS: std::ops::Range<u32> = 0..8;

async fn handle(url: &str, prefix: &str) -> Idempotency {
    let builder = Idempotency::builder(RedisStore::connect(url).await.unwrap());
    let builder = builder.prefix(prefix).deadline(Duration::from_millis(200));
    builder.build().unwrap()
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
    let mut refused = 0;
    for (round, fault) in [ProxyFault::Lose, ProxyFault::Double]
        .repeat(4)
        .into_iter()
        .enumerate()
    {
        let prefix = format!("shifted{round}");
        let direct = handle(&server.url(), &prefix).await;
        for paid in join_all(ORDERS.map(|order| pay(&direct, order))).await {
            paid.unwrap();
        }
        let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
        let handle = handle(&proxy.url(), &prefix).await;
        proxy.plan(Direction::Reply, round, fault);
        for _ in 0..6 {
            let answers = join_all(ORDERS.map(|order| pay(&handle, order))).await;
            for (order, answer) in ORDERS.zip(answers) {
                match answer {
                    Ok(result) => assert_eq!(result, order, "{fault:?} of reply {round}"),
                    Err(Error::ForeignRecord(_)) => refused += 1,
                    Err(error) => assert!(error.is_unavailable(), "{error:?}"),
                }
            }
            for order in ORDERS {
                if let Ok(result) = pay(&handle, order).await {
                    assert_eq!(result, order, "{fault:?} of reply {round}");
                }
            }
        }
        assert!(proxy.traffic().fault_applied);
    }
    assert!(refused > 0, "no reply was shifted");
}

/// The call got the answer to another request, so the store may have accepted its claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_got_the_record_of_another_key_leaves_no_claim() {
    let server = RedisServer::start().unwrap();
    let direct = handle(&server.url(), "idem").await;
    pay(&direct, 0).await.unwrap();
    let mut refused = None;
    for order in 1..100 {
        let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
        let handle = handle(&proxy.url(), "idem").await;
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
    let handle = handle(&server.url(), "idem").await;
    let key = |order: u32| {
        let fingerprint = idempotent_runtime::fingerprint::Fingerprint::of(&(order,)).unwrap();
        format!("idem:orders.pay:{fingerprint}")
    };
    assert_eq!(pay(&handle, 1).await.unwrap(), 1);
    let record = store.get(&key(1)).await.unwrap().unwrap().value;
    let text = String::from_utf8(record.to_vec()).unwrap();
    let digits = text.split_once(" by=").unwrap().1.get(..10).unwrap();
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
