//! Which bodies are the same payload.

use std::sync::Arc;

use axum::Router;
use axum::routing::post as on_post;
use idempotence::http::{IdempotencyLayer, Payload};
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::{Idempotency, MemoryStore, Store as _};
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use support::http_client::{Orders, Reply, Service, idempotency, keyed, scoped};

async fn shop(payload: Payload) -> (Service, Orders) {
    let layer: IdempotencyLayer = scoped(&idempotency()).payload(payload).build();
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { placed.place().to_string() };
    let app = Router::new().route("/", on_post(place)).layer(layer);
    (Service::start(app).await, orders)
}

async fn send(service: &Service, content_type: &str, body: &str) -> Reply {
    let request = keyed("/", "a").header("content-type", content_type);
    service.send(request, body).await
}

const JSON: &str = "application/json";

/// Sends the first body, and then the others: those of `same` are replays, and those of `other` are refused.
async fn assert_payloads(payload: Payload, first: &str, same: &[&str], other: &[&str]) {
    let (service, orders) = shop(payload).await;
    assert_eq!(send(&service, JSON, first).await.text(), "1");
    for body in same {
        let reply = send(&service, JSON, body).await;
        assert!(reply.is_replay(), "{body}: {reply:?}");
    }
    for body in other {
        let reply = send(&service, JSON, body).await;
        assert_eq!(
            reply.refusal(),
            (422, "payload_mismatch".to_owned()),
            "{body}"
        );
    }
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn json_in_another_order_is_replayed_and_null_is_another_payload() {
    assert_payloads(
        Payload::json(),
        r#"{"amount":1.0,"to":{"id":7,"note":"é"}}"#,
        &[
            r#"{ "to": {"note":"\u00e9","id":7e0}, "amount":1 }"#,
            r#"{"amount":10e-1,"to":{"id":7.00,"note":"é"}}"#,
        ],
        &[
            r#"{"amount":1,"to":{"id":7,"note":"é"},"x":null}"#,
            r#"{"amount":1,"to":{"id":7,"note":null}}"#,
            r#"{"amount":1,"to":{"id":7}}"#,
            r#"{"amount":"1","to":{"id":7,"note":"é"}}"#,
            r#"{"amount":1.0000000000000000001,"to":{"id":7,"note":"é"}}"#,
            "not JSON",
        ],
    )
    .await;
}

#[tokio::test]
async fn only_the_chosen_members_belong_to_the_payload() {
    assert_payloads(
        Payload::fields(["amount", "to.id"]),
        r#"{"amount":1,"to":{"id":7},"sent_at":1}"#,
        &[r#"{"sent_at":2,"to":{"id":7,"name":"B"},"amount":1}"#],
        &[
            r#"{"amount":2,"to":{"id":7}}"#,
            r#"{"amount":1,"to":{}}"#,
            r#"{"amount":1}"#,
        ],
    )
    .await;
    assert_payloads(
        Payload::exclude(["sent_at", "to.seen"]),
        r#"{"amount":1,"to":{"id":7,"seen":1},"sent_at":1}"#,
        &[
            r#"{"amount":1,"to":{"id":7}}"#,
            r#"{"sent_at":2,"to":{"seen":2,"id":7},"amount":1}"#,
        ],
        &[r#"{"amount":1,"to":{"id":8,"seen":1},"sent_at":1}"#],
    )
    .await;
}

#[tokio::test]
async fn any_body_may_be_the_same_payload() {
    assert_payloads(Payload::none(), "1", &["2", "", "{}"], &[]).await;
}

#[tokio::test]
async fn an_ambiguous_body_is_refused_and_takes_no_key() {
    let (service, orders) = shop(Payload::json()).await;
    let refused = send(&service, JSON, r#"{"amount":1,"amount":2}"#).await;
    assert_eq!(refused.refusal(), (400, "payload_malformed".to_owned()));
    let problem = refused.problem();
    assert_eq!(problem["client_action"], "fix");
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("two members with one name")
    );
    assert_eq!(orders.count(), 0);
    assert_eq!(send(&service, JSON, r#"{"amount":1}"#).await.text(), "1");
}

/// A form with two fields and a file, as a browser sends it.
fn form(boundary: &str, file: &str) -> (String, String) {
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"to\"\r\n\r\n7\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"slip\"; filename=\"a.txt\"\r\n\
         Content-Type: text/plain\r\n\r\n{file}\r\n--{boundary}--\r\n"
    );
    (content_type, body)
}

#[tokio::test]
async fn a_form_with_a_new_boundary_is_replayed() {
    let (service, orders) = shop(Payload::multipart()).await;
    let (content_type, body) = form("----first", "paid");
    assert_eq!(send(&service, &content_type, &body).await.text(), "1");
    let (content_type, body) = form("----second", "paid");
    assert!(send(&service, &content_type, &body).await.is_replay());
    let (content_type, body) = form("----third", "unpaid");
    let refused = send(&service, &content_type, &body).await;
    assert_eq!(refused.refusal(), (422, "payload_mismatch".to_owned()));
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn the_method_and_the_path_belong_to_the_payload_of_a_named_endpoint() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { placed.place().to_string() };
    let layer = scoped(&idempotency()).route("orders.place").build();
    let app = Router::new().fallback(place).layer(layer);
    let service = Service::start(app).await;
    assert_eq!(service.send(keyed("/orders/1", "a"), "").await.text(), "1");
    let patch = keyed("/orders/1", "a").method(http::Method::PATCH);
    for request in [patch, keyed("/orders/2", "a"), keyed("/orders/1?a", "a")] {
        let refused = service.send(request, "").await;
        assert_eq!(refused.refusal(), (422, "payload_mismatch".to_owned()));
    }
    let again = service.send(keyed("/orders/1", "a"), "").await;
    assert!(again.is_replay());
    assert_eq!(orders.count(), 1);
}

/// A part of a fingerprint that serializes itself as bytes.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

#[tokio::test]
async fn the_payload_in_a_record_is_a_digest_of_the_key_and_the_request() {
    let store = Arc::new(MemoryStore::new());
    let idempotency = Idempotency::new(Arc::clone(&store));
    let layer = IdempotencyLayer::builder(&idempotency).global_scope();
    let app = Router::new()
        .route("/orders", on_post(async || "placed"))
        .layer(layer.payload(Payload::raw()).build());
    let service = Service::start(app).await;
    let request = keyed("/orders?a=1", "a").header("content-type", "Application/JSON; v=1");
    service.send(request, "{}").await;

    let key = Fingerprint::of(&("global", "a")).unwrap();
    let entry = store.get(&format!("idem:POST./orders:{key}")).await;
    let record = entry.unwrap().expect("a record").value;
    // Frozen: processes that share the store during a deploy must write the same.
    let digest = Sha256::digest(b"POST /orders?a=1\napplication/json\nraw\n{}");
    let parts = (Bytes(&[key.as_bytes(), &digest].concat()),);
    let expected = format!(" {} ", base64(Fingerprint::of(&parts).unwrap().as_bytes()));
    let record = String::from_utf8_lossy(&record);
    assert!(record.contains(&expected), "{record}: {expected}");
}

/// Base64 of 16 bytes, without padding.
fn base64(bytes: &[u8]) -> String {
    let bits: Vec<_> = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let bits = bits.concat() + "0000";
    let digits: Vec<_> = ('A'..='Z').chain('a'..='z').chain('0'..='9').collect();
    let six = |from: usize| usize::from_str_radix(&bits[from..from + 6], 2);
    let digits = (0..128).step_by(6).map(|from| match six(from).unwrap() {
        62 => '+',
        63 => '/',
        six => digits[six],
    });
    digits.collect()
}

#[tokio::test]
async fn the_content_encoding_of_a_request_is_not_compared() {
    let (service, orders) = shop(Payload::raw()).await;
    for coding in [None, Some("gzip"), Some("identity")] {
        let request = coding.into_iter().fold(keyed("/", "a"), |request, coding| {
            request.header("content-encoding", coding)
        });
        assert_eq!(service.send(request, "\u{1f}").await.text(), "1");
    }
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn forms_are_compared_field_by_field_and_each_other_body_byte_for_byte() {
    let form = "application/x-www-form-urlencoded;charset=UTF-8";
    for (content_type, first, second, status) in [
        (form, "a=1&b=x+y&b=2", "b=x%20y&a=%31&b=2", 200),
        (form, "a=1&b=2", "b=2&a=2", 422),
        (form, "b=1&b=2", "b=2&b=1", 422),
        (form, "a=1", "a=1&a=1", 422),
        (form, "a=%FF&b=1", "b=1&a=%FF", 422),
        ("text/plain", "a=1&b=2", "b=2&a=1", 422),
    ] {
        let (service, _) = shop(Payload::form()).await;
        assert_eq!(send(&service, content_type, first).await.status, 200);
        let reply = send(&service, content_type, second).await;
        assert_eq!(reply.status, status, "{first} {second}");
    }
}
