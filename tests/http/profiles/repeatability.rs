//! OASIS Repeatable Requests 1.0, as Azure uses it.

use std::time::{Duration, SystemTime};

use idempotence::http::{KeySource, KeySyntax, Profile, RouteOptions};
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Idempotency, MemoryStore, StoreErrorKind};

use super::{Shop, refusal};
use support::http_client::{Reply, idempotency, post, scoped, within};

const RESULT: &str = "repeatability-result";
const HOUR: Duration = Duration::from_hours(1);

async fn shop() -> Shop {
    Shop::start(Profile::Repeatability).await
}

/// A date in the form of HTTP.
fn date(time: SystemTime) -> String {
    httpdate::fmt_http_date(time)
}

fn with_id(path: &str, id: &str) -> http::request::Builder {
    post(path).header("repeatability-request-id", id)
}

/// A request that is first sent now.
fn order(id: &str) -> http::request::Builder {
    let now = date(SystemTime::now());
    with_id("/orders", id).header("repeatability-first-sent", now)
}

fn result(reply: &Reply) -> (u16, &str) {
    let result = reply
        .headers
        .get(RESULT)
        .map(|result| result.to_str().unwrap());
    (reply.status.as_u16(), result.unwrap_or_default())
}

/// The code of a refusal, as `azure-core` reads it: `{"error": {"code", "message"}}`.
fn code_of(reply: &Reply) -> String {
    let (_, body) = refusal(reply);
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    body["error"]["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_request_and_its_repetitions_are_accepted_with_one_response() {
    let shop = shop().await;
    let mut replies = Vec::new();
    for _ in 0..2 {
        let mut reply = shop.send(order("a"), "{}").await;
        assert_eq!(result(&reply), (200, "accepted"));
        reply.headers.remove("date");
        replies.push((reply.lines(), reply.body));
    }
    assert_eq!(replies[0], replies[1]);
    assert_eq!(shop.orders.count(), 1);
}

#[tokio::test]
async fn a_request_needs_an_id_and_its_first_time() {
    let shop = shop().await;
    let now = date(SystemTime::now());
    let (first_sent, id) = ("repeatability-first-sent", "repeatability-request-id");
    for (request, code) in [
        (with_id("/orders", "a"), "first_sent_missing"),
        (
            with_id("/orders", "a").header(first_sent, "yesterday"),
            "first_sent_malformed",
        ),
        (
            with_id("/orders", "a").header(first_sent, "2019-03-26T16:06:51Z"),
            "first_sent_malformed",
        ),
        (order("a").header(first_sent, &now), "first_sent_malformed"),
        (
            post("/orders").header(first_sent, &now),
            "idempotency_key_missing",
        ),
        (order("a").header(id, "b"), "idempotency_key_repeated"),
        (order(""), "idempotency_key_malformed"),
    ] {
        let reply = shop.send(request, "{}").await;
        assert_eq!(result(&reply), (400, "rejected"), "{code}");
        assert_eq!(code_of(&reply), code);
    }
    assert_eq!(shop.orders.count(), 0);
}

#[tokio::test]
async fn a_request_that_was_first_sent_outside_of_the_window_is_412() {
    let shop = Shop::of(
        scoped(&idempotency())
            .profile(Profile::Repeatability)
            .ttl(HOUR),
    )
    .await;
    let now = SystemTime::now();
    let minute = Duration::from_mins(1);
    for (first_sent, is_inside) in [
        (now - minute * 54, true),
        (now - minute * 56, false),
        (now - HOUR * 24, false),
        (now + minute * 4, true),
        (now + minute * 6, false),
    ] {
        let id = format!("{first_sent:?}").replace(|c: char| !c.is_ascii_digit(), "");
        let request = with_id("/orders", &id).header("repeatability-first-sent", date(first_sent));
        let reply = shop.send(request, "{}").await;
        if is_inside {
            assert_eq!(result(&reply), (200, "accepted"), "{first_sent:?}");
        } else {
            assert_eq!(result(&reply), (412, "rejected"), "{first_sent:?}");
            assert_eq!(code_of(&reply), "first_sent_outside_window");
        }
    }
    assert_eq!(shop.orders.count(), 2);
}

#[tokio::test]
async fn a_repetition_outside_of_the_window_gets_412_although_its_response_is_stored() {
    let shop = shop().await;
    let id = || with_id("/orders", "a");
    let now = SystemTime::now();
    let recent = id().header("repeatability-first-sent", date(now));
    assert_eq!(result(&shop.send(recent, "{}").await), (200, "accepted"));
    let old = id().header("repeatability-first-sent", date(now - HOUR * 25));
    assert_eq!(result(&shop.send(old, "{}").await), (412, "rejected"));
}

#[tokio::test]
async fn an_id_with_another_payload_is_400() {
    let shop = shop().await;
    shop.send(order("a"), "1").await;
    let reply = shop.send(order("a"), "2").await;
    assert_eq!(result(&reply), (400, "rejected"));
    assert_eq!(code_of(&reply), "payload_mismatch");
}

#[tokio::test]
async fn a_repetition_of_a_running_request_is_accepted_with_409() {
    let shop = shop().await;
    let running = shop.begin(order("a"), "1").await;
    let reply = shop.send(order("a"), "1").await;
    assert_eq!(result(&reply), (409, "accepted"));
    assert_eq!(code_of(&reply), "in_progress");
    assert!(reply.headers.contains_key("retry-after"));
    let first = shop.end(running).await;
    assert_eq!(result(&first), (200, "accepted"));
}

#[tokio::test]
async fn answers_below_500_are_stored_and_failures_of_the_server_run_again() {
    let shop = shop().await;
    let stored = [200, 202, 204, 400, 404, 409, 422];
    let released = [500, 503, 504];
    for status in stored.into_iter().chain(released) {
        let is_stored = stored.contains(&status);
        shop.assert_repeated(order(&status.to_string()), status, is_stored)
            .await;
    }
}

#[tokio::test]
async fn all_methods_that_change_something_are_guarded() {
    let shop = shop().await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        shop.assert_repeated(order(method).method(method), 200, true)
            .await;
    }
    let reply = shop.send(order("a").method("GET"), "").await;
    assert_eq!(result(&reply), (200, ""));
}

#[tokio::test]
async fn an_operation_that_is_not_guarded_is_501() {
    let layer = scoped(&idempotency()).profile(Profile::Repeatability);
    let layer = layer
        .methods([http::Method::POST])
        .for_route("/uploads", RouteOptions::unguarded);
    let shop = Shop::of(layer).await;
    let now = date(SystemTime::now());
    let upload = with_id("/uploads", "a").header("repeatability-first-sent", now);
    for request in [upload, order("a").method("PUT")] {
        let reply = shop.send(request, "{}").await;
        assert_eq!(result(&reply), (501, "rejected"));
        assert_eq!(code_of(&reply), "repeatability_unsupported");
    }
    assert_eq!(shop.orders.count(), 0);
    for plain in [post("/uploads"), post("/orders").method("PUT")] {
        assert_eq!(result(&shop.send(plain, "{}").await), (200, ""));
    }
}

/// Only the body would tell whether a request has an id.
#[tokio::test]
async fn an_operation_that_is_not_guarded_passes_if_ids_are_in_bodies() {
    let layer = scoped(&idempotency()).profile(Profile::Repeatability);
    let layer = layer.key_from(KeySource::json_field("id"));
    let shop = Shop::of(layer.for_route("/uploads", RouteOptions::unguarded)).await;
    let upload = post("/uploads").header("content-type", "application/json");
    assert_eq!(result(&shop.send(upload, "{}").await), (200, ""));
}

#[tokio::test]
async fn an_id_belongs_to_its_client() {
    let shop = shop().await;
    for client in ["app 1", "app 2"] {
        let request = order("a").header("repeatability-client-id", client);
        shop.assert_repeated(request, 200, true).await;
    }
    shop.assert_repeated(order("a"), 200, true).await;
    assert_eq!(shop.orders.count(), 3);
}

#[tokio::test]
async fn a_service_may_accept_only_uuids() {
    let layer = scoped(&idempotency()).profile(Profile::Repeatability);
    let shop = Shop::of(layer.key_syntax(KeySyntax::Uuid)).await;
    let reply = shop.send(order("a"), "{}").await;
    assert_eq!(result(&reply), (400, "rejected"));
    let uuid = "2c1d0fd4-9e8f-4f1e-8b5c-27de72fdd2ab";
    let reply = shop.send(order(uuid), "{}").await;
    assert_eq!(result(&reply), (200, "accepted"));
}

#[tokio::test]
async fn a_request_is_rejected_while_the_store_is_unavailable() {
    let shop = Shop::without_store(Profile::Repeatability).await;
    let reply = shop.send(order("a"), "{}").await;
    assert_eq!(result(&reply), (503, "rejected"));
    assert_eq!(shop.orders.count(), 0);
}

#[tokio::test]
async fn a_request_whose_outcome_is_not_known_was_accepted() {
    let shop = shop().await;
    let first = shop.send(order("a").header("x-hold", "yes"), "{}").await;
    assert_eq!(result(&first), (200, "accepted"));
    let reply = shop.send(order("a"), "{}").await;
    assert_eq!(result(&reply), (409, "accepted"));
    assert_eq!(code_of(&reply), "outcome_unknown");
}

#[tokio::test]
async fn a_request_that_lost_its_lease_was_accepted() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let layer = scoped(&Idempotency::new(store)).profile(Profile::Repeatability);
    let shop = Shop::of(layer.lease(Duration::from_millis(300))).await;
    let lost = within(shop.begin(order("a"), "{}").await).await.unwrap();
    assert_eq!(result(&lost), (500, "accepted"));
    assert_eq!(code_of(&lost), "lease_lost");
}
