//! Lost messages, refusals, and how many requests an operation costs.

use std::error::Error as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotence::store::{Bytes, Claim, Swap};
use idempotence::{DynamoDbStore, Error, Idempotency, Store as _, StoreErrorKind};
use idempotence_test_servers::MotoServer;

use crate::proxy::{Fault, Proxy};
use crate::{setup, table};

#[path = "../../../test-support/requests_of_calls.rs"]
mod requests_of_calls;

const MINUTE: Duration = Duration::from_mins(1);

/// A store behind a proxy, which knows the time already.
async fn behind_proxy(name: &str) -> (DynamoDbStore, Proxy) {
    let server = MotoServer::shared().unwrap();
    let proxy = Proxy::before(&server.endpoint());
    let store = table(&setup::client(&proxy.endpoint()), name).await;
    proxy.since_last();
    (store, proxy)
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_costs_one_request() {
    let (store, proxy) = behind_proxy("requests").await;
    let (first, second) = (bytes("first"), bytes("second"));

    let claim = store.claim("a", &first, MINUTE).await.unwrap();
    assert_eq!(
        (claim, proxy.since_last()),
        (Claim::Claimed, vec!["UpdateItem".into()])
    );
    let claim = store.claim("a", &second, MINUTE).await.unwrap();
    assert_eq!(
        (claim, proxy.since_last()),
        (Claim::Taken(first.clone()), vec!["UpdateItem".into()])
    );
    let swap = store.replace("a", &first, &second, MINUTE).await.unwrap();
    assert_eq!(
        (swap, proxy.since_last()),
        (Swap::Done, vec!["UpdateItem".into()])
    );
    let swap = store
        .replace("a", &first, &bytes("third"), MINUTE)
        .await
        .unwrap();
    assert_eq!(
        (swap, proxy.since_last()),
        (Swap::Other(second.clone()), vec!["UpdateItem".into()])
    );
    let swap = store.exchange("a", &second, &first).await.unwrap();
    assert_eq!(
        (swap, proxy.since_last()),
        (Swap::Done, vec!["UpdateItem".into()])
    );
    store.get("a").await.unwrap();
    assert_eq!(proxy.since_last(), ["GetItem"]);
    let swap = store.remove("a", &first).await.unwrap();
    assert_eq!(
        (swap, proxy.since_last()),
        (Swap::Done, vec!["DeleteItem".into()])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_benches_has_the_requests_of_a_call() {
    const METHODS: [&str; 3] = ["UpdateItem", "DeleteItem", "GetItem"];

    let (store, proxy) = behind_proxy("table").await;
    let since_last = || {
        let requests = proxy.since_last();
        let count = |method: &str| requests.iter().filter(|one| *one == method).count();
        let counts = METHODS.map(count);
        assert_eq!(counts.iter().sum::<usize>(), requests.len(), "{requests:?}");
        counts.map(|count| u64::try_from(count).unwrap())
    };
    requests_of_calls::compare(store, "DynamoDB", METHODS, since_last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_reply_was_lost_is_recognised() {
    let (store, proxy) = behind_proxy("lost").await;
    let (first, second) = (bytes("first"), bytes("second"));
    let lost = |error: idempotence::StoreError| {
        assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error:?}");
    };

    proxy.next([Fault::LoseReply]);
    lost(store.claim("a", &first, MINUTE).await.unwrap_err());
    assert_eq!(
        store.claim("a", &first, MINUTE).await.unwrap(),
        Claim::Claimed
    );
    proxy.next([Fault::LoseReply]);
    lost(
        store
            .replace("a", &first, &second, MINUTE)
            .await
            .unwrap_err(),
    );
    assert_eq!(
        store.replace("a", &first, &second, MINUTE).await.unwrap(),
        Swap::Done
    );
    proxy.next([Fault::LoseReply]);
    lost(store.remove("a", &second).await.unwrap_err());
    assert_eq!(store.remove("a", &second).await.unwrap(), Swap::Absent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_sends_a_failed_request_again_until_its_deadline() {
    let (store, proxy) = behind_proxy("again").await;
    let handle = Idempotency::builder(store)
        .deadline(MINUTE)
        .build()
        .unwrap();
    let faults = [
        Fault::Refuse(400, "ProvisionedThroughputExceededException"),
        Fault::Refuse(400, "ThrottlingException"),
        Fault::Refuse(500, "InternalServerError"),
        Fault::Refuse(503, "ServiceUnavailable"),
        Fault::LoseRequest,
        Fault::LoseReply,
    ];
    proxy.next(faults);
    let bodies = AtomicU32::new(0);
    let call = async || {
        let call = handle.call("again").key("key").ttl(MINUTE).replay();
        call.run(async { Ok::<_, Error>(bodies.fetch_add(1, Ordering::Relaxed)) })
            .await
    };
    assert_eq!(call().await.unwrap(), 0);
    assert_eq!(proxy.since_last().len(), faults.len() + 2);
    assert_eq!(call().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_comes_late_changes_nothing() {
    let (store, proxy) = behind_proxy("late").await;
    let value = bytes("value");
    let claimed = store.claim("a", &value, MINUTE).await.unwrap();
    assert_eq!(claimed, Claim::Claimed);
    proxy.delay("UpdateItem");
    let late = store.replace("a", &value, &value, MINUTE).await;
    assert_eq!(late.unwrap_err().kind(), StoreErrorKind::Unknown);
    let renewed = store.replace("a", &value, &value, 60 * MINUTE).await;
    assert_eq!(renewed.unwrap(), Swap::Done);
    proxy.deliver();
    let remaining = store.get("a").await.unwrap().unwrap().ttl.unwrap();
    assert!(remaining > 30 * MINUTE, "{remaining:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_date_of_another_server_does_not_count() {
    let (store, proxy) = behind_proxy("dates").await;
    let (first, second) = (bytes("first"), bytes("second"));
    let claimed = store.claim("a", &first, MINUTE).await.unwrap();
    assert_eq!(claimed, Claim::Claimed);
    proxy.next([Fault::Refuse(502, "BadGateway")]);
    store.get("a").await.unwrap_err();
    let claimed = store.claim("a", &second, MINUTE).await.unwrap();
    assert_eq!(claimed, Claim::Taken(first));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_distinguishes_answers_without_a_time_from_lost_races() {
    let value = bytes("value");
    let texts = |error: idempotence::StoreError| {
        assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error:?}");
        let source = error.source().map(ToString::to_string);
        (error.to_string(), source.unwrap_or_default())
    };

    let proxy = Proxy::before("127.0.0.1:1");
    proxy.answer("GetItem", 200, "{}");
    let store = DynamoDbStore::new(&setup::client(&proxy.endpoint()), "undated");
    let (error, source) = texts(store.claim("a", &value, MINUTE).await.unwrap_err());
    assert_eq!(error, "the DynamoDB table undated does not tell the time");
    assert!(
        source.contains("no answer has `Date` and `x-amzn-requestid`"),
        "{source}"
    );

    // Each time another renewal of this record was quicker.
    let (store, proxy) = behind_proxy("races").await;
    let quicker =
        r#"{"__type":"ConditionalCheckFailedException","Item":{"stored_record":{"B":"dmFsdWU="}}}"#;
    proxy.answer("UpdateItem", 400, quicker);
    let (error, source) = texts(
        store
            .replace("a", &value, &value, MINUTE)
            .await
            .unwrap_err(),
    );
    assert_eq!(
        error,
        "the DynamoDB table races may let the record expire too early"
    );
    assert!(
        source.contains("another request renewed the record"),
        "{source}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_says_whether_the_operation_was_carried_out() {
    let (store, proxy) = behind_proxy("refusals").await;
    for (status, code, kind, reason) in [
        (
            400,
            "ProvisionedThroughputExceededException",
            StoreErrorKind::NotApplied,
            "has too many requests",
        ),
        (
            400,
            "TransactionConflictException",
            StoreErrorKind::NotApplied,
            "has a transaction with the record",
        ),
        (
            500,
            "InternalServerError",
            StoreErrorKind::Unknown,
            "has a failure",
        ),
        (
            400,
            "ResourceNotFoundException",
            StoreErrorKind::Misconfigured,
            "does not exist",
        ),
        (
            400,
            "AccessDeniedException",
            StoreErrorKind::Misconfigured,
            "does not allow these credentials the request",
        ),
        (
            400,
            "ExpiredTokenException",
            StoreErrorKind::Misconfigured,
            "refused the credentials",
        ),
    ] {
        proxy.next([Fault::Refuse(status, code)]);
        let error = store.claim("a", &bytes("value"), MINUTE).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert_eq!(
            error.to_string(),
            format!("the DynamoDB table refusals {reason}")
        );
    }

    proxy.since_last();
    let large = Bytes::from(vec![0; 400 << 10]);
    let error = store.claim("a", &large, MINUTE).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error:?}");
    assert!(
        error
            .to_string()
            .ends_with("takes no record of more than 400 KB"),
        "{error}"
    );
    assert_eq!(proxy.since_last(), [""; 0]);

    let missing = DynamoDbStore::new(&setup::client(&proxy.endpoint()), "missing");
    let error = missing.get("a").await.unwrap_err();
    assert!(
        error.to_string().ends_with("table missing does not exist"),
        "{error}"
    );
    let unreached = DynamoDbStore::new(&setup::client("http://127.0.0.1:1"), "requests");
    let error = unreached
        .claim("a", &bytes("value"), MINUTE)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NotApplied, "{error:?}");
    assert!(error.to_string().ends_with("cannot be reached"), "{error}");
}
