//! The row of a call in its caller's `TransactWriteItems`.

use std::time::Duration;

use idempotence::dynamodb::aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use idempotence::dynamodb::{DynamoDbTransaction, NotCommitted};
use idempotence::{DynamoDbStore, Error, Idempotency, Store as _, idempotent};
use idempotence_test_servers::MotoServer;

use crate::proxy::{Fault, Proxy};
use crate::{setup, table};

/// Puts the number of cents under the number of the order, if the order has no payment.
fn payment(order: &str, cents: u32) -> TransactWriteItem {
    let put = Put::builder()
        .table_name("payments")
        .item("id", AttributeValue::S(order.to_owned()))
        .item("cents", AttributeValue::N(cents.to_string()))
        .condition_expression("attribute_not_exists(id)");
    TransactWriteItem::builder()
        .put(put.build().unwrap())
        .build()
}

#[idempotent(key = "request", payload = "order, cents", ttl = "1h", replay = true, tx = tx, using = handle)]
async fn pay(
    tx: &mut DynamoDbTransaction,
    handle: &Idempotency,
    request: &str,
    order: &str,
    cents: u32,
) -> Result<u32, Error> {
    tx.push(payment(order, cents));
    Ok(cents)
}

/// The rows, a handle, and a proxy before the server of both tables.
async fn shop(name: &str) -> (DynamoDbStore, Idempotency, Proxy) {
    let server = MotoServer::shared().unwrap();
    let proxy = Proxy::before(&server.endpoint());
    let client = setup::client(&proxy.endpoint());
    let store = table(&client, "rows").await;
    table(&client, "payments").await;
    let handle = Idempotency::builder(store.clone()).prefix(name);
    let handle = handle.deadline(Duration::from_mins(1)).build().unwrap();
    proxy.since_last();
    (store, handle, proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_has_the_row_of_its_call_and_the_items_of_its_body() {
    let (store, handle, proxy) = shop("row").await;
    let mut tx = store.transaction();
    assert_eq!(pay(&mut tx, &handle, "first", "row/1", 5).await.unwrap(), 5);
    assert_eq!(tx.items().len(), 2);
    tx.commit().await.unwrap();
    assert_eq!(proxy.since_last(), ["GetItem", "TransactWriteItems"]);

    // A duplicate is answered with the result, and adds nothing.
    let mut tx = store.transaction();
    assert_eq!(pay(&mut tx, &handle, "first", "row/1", 5).await.unwrap(), 5);
    assert_eq!(
        (tx.items().len(), proxy.since_last()),
        (0, vec!["GetItem".to_owned()])
    );
    // Another amount with the same key is a mismatch.
    let error = pay(&mut tx, &handle, "first", "row/1", 6)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::PayloadMismatch(_)), "{error:?}");

    // A transaction that is not committed has no row.
    let mut tx = store.transaction();
    pay(&mut tx, &handle, "second", "row/2", 7).await.unwrap();
    drop(tx);
    let mut tx = store.transaction();
    pay(&mut tx, &handle, "second", "row/2", 7).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_equal_calls_at_once_one_is_committed() {
    let (store, handle, _proxy) = shop("race").await;
    let (mut first, mut second) = (store.transaction(), store.transaction());
    pay(&mut first, &handle, "first", "race/1", 5)
        .await
        .unwrap();
    pay(&mut second, &handle, "first", "race/1", 5)
        .await
        .unwrap();
    first.commit().await.unwrap();
    let error = second.commit().await.unwrap_err();
    assert!(matches!(error, NotCommitted::Taken), "{error:?}");

    // An own request has the same answer.
    let client = setup::client(&MotoServer::shared().unwrap().endpoint());
    let own = client
        .transact_write_items()
        .set_transact_items(Some(second.items()));
    let error = second.outcome(&own.send().await.unwrap_err()).unwrap_err();
    assert!(matches!(error, NotCommitted::Taken), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_item_of_the_body_leaves_no_row() {
    let (store, handle, proxy) = shop("refused").await;
    let mut tx = store.transaction();
    pay(&mut tx, &handle, "first", "refused/1", 5)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    for _ in 0..2 {
        let mut tx = store.transaction();
        pay(&mut tx, &handle, "second", "refused/1", 5)
            .await
            .unwrap();
        match tx.commit().await.unwrap_err() {
            NotCommitted::Refused(reasons) => {
                let codes: Vec<_> = reasons.iter().map(|reason| reason.code()).collect();
                assert_eq!(codes, [Some("ConditionalCheckFailed")]);
            }
            error => panic!("{error:?}"),
        }
    }

    let mut tx = store.transaction();
    pay(&mut tx, &handle, "third", "refused/2", 5)
        .await
        .unwrap();
    proxy.next([Fault::Refuse(400, "ThrottlingException")]);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, NotCommitted::Conflict), "{error:?}");
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_reply_was_lost_is_recognised() {
    let (store, handle, proxy) = shop("lost").await;
    let mut tx = store.transaction();
    pay(&mut tx, &handle, "first", "lost/1", 5).await.unwrap();
    proxy.next([Fault::LoseReply]);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, NotCommitted::Failed(_)), "{error:?}");
    tx.commit().await.unwrap();
    let row = store.list("lost", None, 100).await.unwrap().unwrap();
    assert_eq!(row.records.len(), 1, "{row:?}");
}
