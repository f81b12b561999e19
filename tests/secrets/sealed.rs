//! With seal keys the store has no result that can be read, and gives no result that was forged or moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use idempotence::http::IdempotencyLayer;
use idempotence::testkit::FaultyStore;
use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::{Bytes, Store, Swap};
use idempotent_runtime::{Error, Idempotency, MemoryStore, SealKey, SealKeys};
use idempotent_sql::sql::sqlx::sqlite::{SqliteConnection, SqlitePoolOptions};
use idempotent_sql::{SqliteStore, sql};
use serde::{Deserialize, Serialize};
use tower::ServiceExt as _;

use crate::{FAILURE, RESULT};
use support::spy::Spy;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Declined {
    Refused(String),
    Body(String),
}

impl From<Error> for Declined {
    fn from(error: Error) -> Self {
        Self::Refused(error.code().to_owned())
    }
}

type Paid = Result<String, Declined>;

const DAY: Duration = Duration::from_hours(24);

fn key(byte: u8) -> SealKey {
    SealKey::new([byte; 32])
}

fn handle(store: impl Store, keys: impl Into<SealKeys>) -> Idempotency {
    let builder = Idempotency::builder(store).seal(keys);
    builder.deadline(Duration::from_mins(2)).build().unwrap()
}

/// Pays an order; `Err` if the body did not run and there is no result.
async fn pay(handle: &Idempotency, order: &str, outcome: Paid) -> Paid {
    let call = handle.call("orders.pay").key(order).ttl(DAY).replay();
    let call = call.replay_err(|error| matches!(error, Declined::Body(_)));
    call.run(async { outcome }).await
}

#[expect(clippy::unnecessary_wraps, reason = "an outcome, as `declined`")]
fn paid() -> Paid {
    Ok(RESULT.to_owned())
}

fn declined() -> Paid {
    Err(Declined::Body(FAILURE.to_owned()))
}

fn foreign() -> Paid {
    Err(Declined::Refused("foreign_record".to_owned()))
}

fn ran_again() -> Paid {
    panic!("the body ran although its key has a record")
}

/// Calls whose body must not run.
async fn pay_again(handle: &Idempotency, order: &str) -> Paid {
    let call = handle.call("orders.pay").key(order).ttl(DAY).replay();
    let call = call.replay_err(|error| matches!(error, Declined::Body(_)));
    call.run(async { ran_again() }).await
}

/// The key of a call, and its record.
async fn record(store: &dyn Store, order: &str) -> (String, Bytes) {
    let fingerprint = Fingerprint::of(&(order,)).unwrap();
    let key = format!("idem:orders.pay:{fingerprint}");
    let entry = store.get(&key).await.unwrap().unwrap();
    (key, entry.value)
}

async fn put(store: &dyn Store, key: &str, value: impl Into<Bytes>) {
    let value = value.into();
    let old = store.get(key).await.unwrap().unwrap().value;
    let swap = store.replace(key, &old, &value, DAY).await.unwrap();
    assert_eq!(swap, Swap::Done);
}

async fn a_reader_of_the_store_sees_no_result(store: impl Store + Clone) {
    let handle = handle(store.clone(), key(1));
    for (order, outcome) in [("1", paid as fn() -> Paid), ("2", declined)] {
        assert_eq!(pay(&handle, order, outcome()).await, outcome());
        assert_eq!(pay_again(&handle, order).await, outcome());
        let (_, record) = record(&store, order).await;
        let shown = String::from_utf8_lossy(&record);
        assert!(shown.contains(" sealed:"), "{shown}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn a_reader_of_the_memory_sees_no_result() {
    a_reader_of_the_store_sees_no_result(MemoryStore::new()).await;
}

#[tokio::test]
async fn a_reader_of_redis_sees_no_result() {
    let server = RedisServer::start().unwrap();
    let url = server.url();
    let store = RedisStore::connect(&url).await.unwrap();
    a_reader_of_the_store_sees_no_result(store).await;
}

#[tokio::test]
async fn a_reader_of_the_store_sees_no_response_and_no_header() {
    let store = Spy::new(FaultyStore::new(MemoryStore::new()));
    let handle = handle(store.clone(), key(1));
    let layer = IdempotencyLayer::builder(&handle).global_scope().build();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let place = move || async move {
        counted.fetch_add(1, Ordering::Relaxed);
        (StatusCode::CREATED, [("x-order", "canary-header")], RESULT)
    };
    let app = Router::new().route("/orders", post(place)).layer(layer);
    for _ in 0..2 {
        let request = Request::post("/orders").header("idempotency-key", "\"7\"");
        let reply = app
            .clone()
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        assert_eq!(reply.status(), StatusCode::CREATED);
        assert_eq!(reply.headers()["x-order"], "canary-header");
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, RESULT);
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let values = store.take().1.concat();
    assert!(
        values.contains(" sealed:ok:") && !values.contains("canary"),
        "{values}"
    );
    assert!(!values.contains("x-order"), "{values}");
}

#[tokio::test]
async fn a_row_in_a_transaction_has_a_sealed_result() {
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .connect("sqlite::memory:")
        .await
        .unwrap();
    sql::migrate(&pool).await.unwrap();
    let handle = handle(SqliteStore::new(pool.clone()), key(1));
    for _ in 0..2 {
        let mut tx = pool.begin().await.unwrap();
        let call = handle.call("orders.pay").key("1").ttl(DAY).replay();
        let body = async |_: &mut SqliteConnection| Ok::<_, Error>(RESULT.to_owned());
        assert_eq!(call.run_in(&mut tx, body).await.unwrap(), RESULT);
        tx.commit().await.unwrap();
    }
    let fingerprint = Fingerprint::of(&("1",)).unwrap();
    let key = format!("idem:#tx:orders.pay:{fingerprint}");
    let entry = SqliteStore::new(pool).get(&key).await.unwrap().unwrap();
    let shown = String::from_utf8_lossy(&entry.value);
    assert!(
        shown.contains(" sealed:ok:") && !shown.contains("canary"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_moved_or_changed_or_unsealed_record_is_foreign_and_no_body_runs() {
    let store = MemoryStore::new();
    let handle = handle(store.clone(), key(1));
    assert_eq!(pay(&handle, "1", paid()).await, paid());
    let (first, sealed) = record(&store, "1").await;
    assert_eq!(pay(&handle, "2", declined()).await, declined());
    let (second, _) = record(&store, "2").await;

    put(&store, &second, sealed.clone()).await;
    assert_eq!(
        pay_again(&handle, "2").await,
        foreign(),
        "a record of another key"
    );

    put(&store, &first, sealed.slice(..sealed.len() - 1)).await;
    assert_eq!(
        pay_again(&handle, "1").await,
        foreign(),
        "a truncated record"
    );
    let mut flipped = sealed.to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    put(&store, &first, flipped).await;
    assert_eq!(pay_again(&handle, "1").await, foreign(), "a changed bit");

    // A writer of the store replaces the sealed result by its own.
    let line = sealed.iter().position(|byte| *byte == b'\n').unwrap();
    let line = str::from_utf8(&sealed[..line]).unwrap();
    let head = line.split_once("sealed:").unwrap().0;
    let schema = schema_of_a_text().await;
    put(&store, &first, format!("{head}{schema}\n\"forged\"")).await;
    assert_eq!(
        pay_again(&handle, "1").await,
        foreign(),
        "an unsealed result"
    );

    put(&store, &first, sealed).await;
    assert_eq!(
        pay_again(&handle, "1").await,
        paid(),
        "the record as it was"
    );
}

/// The codec of an unsealed record with a text.
async fn schema_of_a_text() -> String {
    let store = MemoryStore::new();
    let handle = Idempotency::new(store.clone());
    assert_eq!(pay(&handle, "1", paid()).await, paid());
    let (_, record) = record(&store, "1").await;
    let record = str::from_utf8(&record).unwrap();
    let line = record.split_once('\n').unwrap().0;
    line.rsplit_once(' ').unwrap().1.to_owned()
}

#[tokio::test]
async fn an_unknown_seal_key_is_foreign_and_rotated_keys_are_not() {
    let store = MemoryStore::new();
    let (old, new) = (key(1), key(2));
    let before = handle(store.clone(), old.clone());
    assert_eq!(pay(&before, "1", paid()).await, paid());

    let reads = handle(store.clone(), [old.clone(), new.clone()]);
    let writes = handle(store.clone(), [new.clone(), old]);
    let after = handle(store.clone(), new);
    assert_eq!(pay(&writes, "2", paid()).await, paid());
    for handle in [&reads, &writes] {
        assert_eq!(pay_again(handle, "1").await, paid());
        assert_eq!(pay_again(handle, "2").await, paid());
    }
    assert_eq!(pay_again(&before, "2").await, foreign());
    assert_eq!(pay_again(&after, "1").await, foreign());
    assert_eq!(pay_again(&after, "2").await, paid());
}

#[tokio::test]
async fn unsealed_results_are_replayed_during_a_change_over_only() {
    let store = MemoryStore::new();
    let before = Idempotency::new(store.clone());
    assert_eq!(pay(&before, "1", paid()).await, paid());
    let keys = SealKeys::from(key(1));
    let change_over = handle(store.clone(), keys.clone().allow_unsealed());
    let after = handle(store.clone(), keys);
    assert_eq!(pay_again(&change_over, "1").await, paid());
    assert_eq!(pay_again(&after, "1").await, foreign());

    // A program without keys cannot read a sealed result, and its body does not run.
    assert_eq!(pay(&change_over, "2", paid()).await, paid());
    let refused = pay_again(&before, "2").await;
    assert_eq!(
        refused,
        Err(Declined::Refused("result_unavailable".to_owned()))
    );
}

#[tokio::test]
async fn equal_calls_of_one_process_get_the_sealed_result() {
    let handle = handle(Spy::new(FaultyStore::new(MemoryStore::new())), key(1));
    let runs = AtomicUsize::new(0);
    let call = || async {
        let call = handle.call("orders.pay").key("1").ttl(DAY).replay();
        let call = call.wait(Duration::from_secs(5));
        let run = call.run(async {
            runs.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, Error>(RESULT.to_owned())
        });
        run.await.unwrap()
    };
    let all = futures_util::future::join_all((0..20).map(|_| call())).await;
    assert!(all.iter().all(|result| result == RESULT), "{all:?}");
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn no_output_shows_a_seal_key() {
    let digits = "5e".repeat(32);
    let keys = SealKeys::from_hex(&digits).unwrap();
    let builder = Idempotency::builder(MemoryStore::new()).seal(keys.clone());
    let shown = format!("{keys:?} {builder:?}");
    let shown = format!("{shown} {:?}", builder.build().unwrap());
    assert!(shown.contains("SealKey(\""), "{shown}");
    for form in ["5e5e5e", "94, 94"] {
        assert!(!shown.to_lowercase().contains(form), "{shown}");
    }
}

#[tokio::test]
async fn the_results_of_steps_are_sealed_and_a_moved_one_is_refused() {
    let store = Arc::new(MemoryStore::new());
    let handle = handle(Arc::clone(&store), key(1));
    let book = async |order: &str| {
        let call = handle.call("trips.book").key(order).ttl(DAY);
        call.run_with(async |cx| {
            let flight = cx.step("flight", async || Ok::<_, Declined>(RESULT.to_owned()));
            let flight = flight.await?;
            Err::<(), _>(Declined::Body(flight))
        })
        .await
    };
    let steps_of = |order: &str| {
        let fingerprint = Fingerprint::of(&(order,)).unwrap();
        format!("idem:#steps:{{idem:trips.book:{fingerprint}}}")
    };
    for _ in 0..2 {
        assert_eq!(book("a").await, Err(Declined::Body(RESULT.to_owned())));
    }
    let stored = store.get(&steps_of("a")).await.unwrap().unwrap().value;
    let text = String::from_utf8_lossy(&stored).into_owned();
    assert!(
        text.contains(" sealed:ok:") && !text.contains(RESULT),
        "{text}"
    );
    // Under another key the result does not open.
    store.claim(&steps_of("b"), &stored, DAY).await.unwrap();
    assert_eq!(book("b").await, foreign().map(drop));
}
