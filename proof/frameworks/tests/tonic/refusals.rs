//! The statuses of refusals: their codes, their metadata, their `RetryInfo`.

use std::time::Duration;

use idempotence::http::RouteOptions;
use idempotence::testkit::{Fault, FaultyStore};
use idempotence::{Error, Idempotency, MemoryStore, StoreErrorKind};
use tonic::codegen::http::HeaderValue;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::bank::{Bank, guarding, idempotency, keyed, plain, within};
use crate::rpc::PAY;

fn meta<'a>(status: &'a Status, name: &str) -> Option<&'a str> {
    let value = status.metadata().get(name)?;
    Some(value.to_str().unwrap())
}

/// The code of gRPC, the code of this crate, and what the client should do.
fn refusal(status: &Status) -> (Code, &str, &str) {
    let code = meta(status, "idempotence-code").expect("a code");
    let action = meta(status, "idempotence-action").expect("an action");
    (status.code(), code, action)
}

/// The wait in the metadata and in `RetryInfo`, which must agree.
fn wait(status: &Status) -> Option<Duration> {
    let info = status.get_details_retry_info();
    let delay = info.and_then(|info| info.retry_delay);
    let millis = meta(status, "retry-after-ms").map(|millis| millis.parse().unwrap());
    assert_eq!(delay, millis.map(Duration::from_millis));
    if delay.is_some() {
        let details = status.check_error_details().unwrap();
        assert!(details.retry_info().is_some());
    }
    delay
}

#[tokio::test]
async fn a_key_of_another_payment_is_failed_precondition() {
    let bank = Bank::start().await;
    bank.pay(keyed("a", "7")).await.unwrap();
    let status = bank.pay(keyed("a", "8")).await.unwrap_err();
    let expected = (Code::FailedPrecondition, "payload_mismatch", "fix");
    assert_eq!((refusal(&status), wait(&status)), (expected, None));
    assert_eq!(bank.runs(), 1);
}

#[tokio::test]
async fn a_key_of_a_running_call_is_aborted_with_retry_info() {
    let bank = Bank::start().await;
    let check = async {
        bank.has_run(1).await;
        let status = bank.pay(keyed("a", "wait")).await.unwrap_err();
        bank.end();
        status
    };
    let (first, status) = tokio::join!(bank.pay(keyed("a", "wait")), check);
    assert!(first.is_ok());
    assert_eq!(refusal(&status), (Code::Aborted, "in_progress", "wait"));
    assert!(wait(&status).is_some_and(|wait| !wait.is_zero()));
}

#[tokio::test]
async fn a_store_that_is_unavailable_is_unavailable_with_retry_info() {
    let bank = unavailable().await;
    let status = bank.pay(keyed("a", "7")).await.unwrap_err();
    assert_eq!(
        refusal(&status),
        (Code::Unavailable, "store_unavailable", "wait")
    );
    assert!(wait(&status).is_some_and(|wait| !wait.is_zero()));
    assert_eq!(bank.runs(), 0);
}

async fn unavailable() -> Bank {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let idempotency = Idempotency::new(store);
    let layer = guarding(&idempotency);
    Bank::of(idempotency, layer).await
}

#[tokio::test]
async fn a_key_that_is_missing_or_malformed_is_invalid_argument() {
    let idempotency = idempotency();
    let layer = guarding(&idempotency).for_route(PAY, RouteOptions::require_key);
    let bank = Bank::of(idempotency, layer).await;
    let mut twice = keyed("a", "7");
    twice
        .metadata_mut()
        .append("idempotency-key", "b".parse().unwrap());
    for (request, code) in [
        (plain("7"), "idempotency_key_missing"),
        (keyed("a b", "7"), "idempotency_key_malformed"),
        (twice, "idempotency_key_repeated"),
    ] {
        let status = bank.pay(request).await.unwrap_err();
        assert_eq!(refusal(&status), (Code::InvalidArgument, code, "fix"));
        assert!(status.message().contains("Idempotency-Key"), "{status:?}");
        assert_eq!(wait(&status), None);
    }
    assert_eq!(bank.runs(), 0);
}

#[tokio::test]
async fn a_call_without_its_scope_is_invalid_or_unauthenticated() {
    for (challenge, code) in [
        (None, Code::InvalidArgument),
        (
            Some(HeaderValue::from_static("Bearer")),
            Code::Unauthenticated,
        ),
    ] {
        let idempotency = idempotency();
        let mut layer = guarding(&idempotency);
        if let Some(challenge) = challenge {
            layer = layer.challenge(challenge);
        }
        let bank = Bank::of(idempotency, layer).await;
        let mut request = keyed("a", "7");
        request.metadata_mut().remove("authorization");
        let status = bank.pay(request).await.unwrap_err();
        assert_eq!(refusal(&status), (code, "scope_missing", "fix"));
    }
}

#[tokio::test]
async fn a_message_over_the_limit_is_resource_exhausted() {
    let idempotency = idempotency();
    let layer = guarding(&idempotency).request_limit(10);
    let bank = Bank::of(idempotency, layer).await;
    let status = bank.pay(keyed("a", "7")).await.unwrap_err();
    let expected = (Code::ResourceExhausted, "request_too_large", "fix");
    assert_eq!(refusal(&status), expected);
    assert_eq!(bank.runs(), 0);
}

#[tokio::test]
async fn a_message_is_in_the_language_of_the_call() {
    let bank = Bank::start().await;
    bank.pay(keyed("a", "7")).await.unwrap();
    let mut chinese = keyed("a", "8");
    let language = "zh-CN".parse().unwrap();
    chinese.metadata_mut().insert("accept-language", language);
    let status = bank.pay(chinese).await.unwrap_err();
    assert_eq!(status.message(), "内容与首次提交的不一致，请重新发起");
}

#[tokio::test]
async fn a_closure_for_http_does_not_change_a_status() {
    let idempotency = idempotency();
    let layer = guarding(&idempotency).on_reject(|_, response| response.map(|_| "x".into()));
    let bank = Bank::of(idempotency, layer).await;
    bank.pay(keyed("a", "7")).await.unwrap();
    let status = bank.pay(keyed("a", "8")).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
}

/// What a client sees of a status, without the wait, which depends on the moment.
fn seen(status: &Status) -> (Code, String, Vec<(String, String)>, bool) {
    let names = [
        "idempotence-code",
        "idempotence-action",
        "idempotence-silent",
    ];
    let facts = names.map(|name| (name.to_owned(), meta(status, name).unwrap().to_owned()));
    (
        status.code(),
        status.message().to_owned(),
        facts.to_vec(),
        wait(status).is_some(),
    )
}

/// The status of a call that the attribute refuses.
async fn refused(idempotency: &Idempotency, payload: u64) -> Status {
    let call = idempotency.call("payments.pay").key(&());
    let call = call.ttl(Duration::from_mins(1)).payload(&payload).replay();
    let refused = call.run(async { Ok::<u64, Error>(7) }).await;
    Status::from(refused.unwrap_err())
}

#[tokio::test]
async fn the_layer_and_the_attribute_refuse_with_the_same_status() {
    let bank = Bank::start().await;
    bank.pay(keyed("a", "7")).await.unwrap();
    let by_layer = bank.pay(keyed("a", "8")).await.unwrap_err();
    let attribute = idempotency();
    let call = attribute.call("payments.pay").key(&());
    let call = call.ttl(Duration::from_mins(1)).payload(&1_u64).replay();
    call.run(async { Ok::<u64, Error>(7) }).await.unwrap();
    assert_eq!(seen(&by_layer), seen(&refused(&attribute, 2).await));

    let bank = unavailable().await;
    let by_layer = bank.pay(keyed("a", "7")).await.unwrap_err();
    let by_attribute = refused(&bank.idempotency, 1).await;
    assert_eq!(seen(&by_layer), seen(&by_attribute));

    let bank = Bank::start().await;
    let (first, (by_layer, by_attribute)) = tokio::join!(bank.pay(keyed("a", "wait")), async {
        bank.has_run(1).await;
        let by_layer = bank.pay(keyed("a", "wait")).await.unwrap_err();
        let call = attribute.call("payments.wait").key(&());
        let call = call.ttl(Duration::from_mins(1));
        let running = call.run(async {
            let call = attribute.call("payments.wait").key(&());
            let call = call.ttl(Duration::from_mins(1));
            let refused = call.run(async { Ok::<u64, Error>(7) }).await;
            Ok::<_, Error>(Status::from(refused.unwrap_err()))
        });
        let by_attribute = within(running).await.unwrap();
        bank.end();
        (by_layer, by_attribute)
    });
    assert!(first.is_ok());
    assert_eq!(seen(&by_layer), seen(&by_attribute));
}
