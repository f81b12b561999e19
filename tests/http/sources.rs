//! Where the clients of vendors put their keys, with the bytes that they send.

use axum::Router;
use axum::routing::post as on_post;
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::request::{self, Parts};
use idempotence::http::{IdempotencyLayer, KeySource};
use support::http_client::{Orders, Service, idempotency, post, scoped};
use support::log_capture::LogCapture;

async fn serve(layer: IdempotencyLayer) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { placed.place().to_string() };
    let app = Router::new()
        .route("/", on_post(place.clone()))
        .route("/{*path}", on_post(place));
    (Service::start(app.route_layer(layer)).await, orders)
}

async fn shop(source: KeySource) -> (Service, Orders) {
    serve(scoped(&idempotency()).key_from(source).build()).await
}

/// The id of the access key that has signed a request of AWS. The rest of `Authorization` differs at each try.
fn access_key(head: &Parts) -> Option<String> {
    let text = head.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (_, credential) = text.split_once("Credential=")?;
    Some(credential.split_once('/')?.0.to_owned())
}

/// The operation of AWS that a request names. All of them have the path `/`.
fn operation(head: &Parts) -> Option<String> {
    Some(head.headers.get("x-amz-target")?.to_str().ok()?.to_owned())
}

/// The scope on the page `docs/guide/vendors.md`.
fn access_key_and_operation(head: &Parts) -> Option<(String, String)> {
    Some((access_key(head)?, operation(head)?))
}

/// `RunTask` of `boto3` 1.35.
fn run_task(signature: &str) -> request::Builder {
    of_aws("RunTask", signature)
}

/// An operation of `boto3` 1.35.
fn of_aws(operation: &str, signature: &str) -> request::Builder {
    let signed = format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261126/eu-west-1/ecs/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={signature}"
    );
    request::Request::post("/")
        .header("host", "ecs.eu-west-1.amazonaws.com")
        .header(
            "X-Amz-Target",
            format!("AmazonEC2ContainerServiceV20141113.{operation}"),
        )
        .header(CONTENT_TYPE, "application/x-amz-json-1.1")
        .header(USER_AGENT, "Boto3/1.35.90 md/Botocore#1.35.90")
        .header("X-Amz-Date", "20261126T210000Z")
        .header(AUTHORIZATION, signed)
}

#[tokio::test]
async fn a_signed_request_of_boto3_runs_once() {
    let layer = IdempotencyLayer::builder(&idempotency())
        .scope_by(access_key_and_operation)
        .key_from(KeySource::json_field("clientToken"));
    let (service, orders) = serve(layer.build()).await;
    let body = "{\"taskDefinition\": \"charge:1\", \"clientToken\": \"c3f9a0ad\"}";
    let first = service.send(run_task("a1"), body).await;
    let second = service.send(run_task("b2"), body).await;
    assert_eq!((first.text(), second.text()), ("1", "1"));
    assert!(second.is_replay());
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn an_operation_of_aws_in_the_scope_gets_no_response_of_another_operation() {
    let token = || KeySource::json_field("clientToken");
    let builder = || IdempotencyLayer::builder(&idempotency()).key_from(token());
    for (layer, runs) in [
        (builder().scope_by(access_key_and_operation).build(), 2),
        // Without the operation the second one gets the response of the first one.
        (builder().scope_by(access_key).build(), 1),
    ] {
        let (service, orders) = serve(layer).await;
        let body = "{\"service\": \"shop\", \"clientToken\": \"c3f9a0ad\"}";
        for operation in ["StartService", "StopService"] {
            let reply = service.send(of_aws(operation, "a1"), body).await;
            assert_eq!(reply.status, 200, "{operation}");
        }
        assert_eq!(orders.count(), runs);
    }
}

#[tokio::test]
async fn json_of_each_type_has_a_key_unless_the_source_asks_for_a_json_type() {
    let types = [
        // The SDKs of AWS.
        Some("application/x-amz-json-1.0"),
        // `navigator.sendBeacon` with a text.
        Some("text/plain;charset=UTF-8"),
        // `curl --data`.
        Some("application/x-www-form-urlencoded"),
        None,
    ];
    for (source, runs) in [
        (KeySource::json_field("request_id"), 1),
        (KeySource::json_field("request_id").only_json_types(), 2),
    ] {
        let (service, orders) = shop(source).await;
        for content_type in types {
            let before = orders.count();
            let key = content_type.unwrap_or("none");
            let body = format!(r#"{{"request_id":"{key}","amount":7}}"#);
            for _ in 0..2 {
                let mut request = post("/");
                if let Some(content_type) = content_type {
                    request = request.header(CONTENT_TYPE, content_type);
                }
                assert_eq!(service.send(request, &body).await.status, 200);
            }
            assert_eq!(orders.count() - before, runs, "{content_type:?}");
        }
    }
}

#[tokio::test]
async fn the_log_says_once_for_each_route_why_requests_have_no_key() {
    let log = LogCapture::start();
    let source = KeySource::json_field("clientToken").only_json_types();
    let layer = scoped(&idempotency()).key_from(source.clone());
    let (service, _) = serve(layer.build()).await;
    for (path, content_type, body) in [
        ("/", "application/x-amz-json-1.1", "{\"clientToken\":\"a\"}"),
        ("/", "application/json", "{}"),
        ("/orders", "application/json", "{}"),
        ("/orders", "application/json", "{\"clientToken\":\"a\"}"),
    ] {
        let request = post(path).header(CONTENT_TYPE, content_type);
        assert_eq!(service.send(request, body).await.status, 200);
    }
    let warning = |route, why| {
        format!(
            "a request to `{route}` has no key, so nothing guards it: the member clientToken of the JSON body {why}; \
             `require_key` refuses such requests"
        )
    };
    let other_type = "cannot be found, because the content type of the request is not JSON";
    let expected = [warning("/", other_type), warning("/{*path}", "is missing")];
    assert_eq!(log.warnings(), expected);

    // A key that is required is refused, and the default header is often optional.
    let required = scoped(&idempotency()).key_from(source).require_key();
    for layer in [required, scoped(&idempotency())] {
        serve(layer.build()).await.0.send(post("/"), "{}").await;
    }
    assert_eq!(log.warnings(), expected);
}

/// Sends a request twice, and another time with another key.
async fn assert_keyed(
    source: KeySource,
    request: impl Fn(&str) -> (request::Builder, String),
) -> Orders {
    let (service, orders) = shop(source).await;
    for (key, number) in [("a", "1"), ("a", "1"), ("b", "2")] {
        let (request, body) = request(key);
        assert_eq!(service.send(request, &body).await.text(), number, "{key}");
    }
    orders
}

#[tokio::test]
async fn a_key_of_google_is_in_the_query_or_in_the_body() {
    let source = || KeySource::query("requestId").or(KeySource::json_field("requestId"));
    // `google-cloud-compute` for Python.
    assert_keyed(source(), |key| {
        let path = format!("/compute/v1/projects/p/zones/z/instances?requestId={key}");
        (
            post(&path).header(CONTENT_TYPE, "application/json"),
            "{}".to_owned(),
        )
    })
    .await;
    assert_keyed(source(), |key| {
        let body = format!(r#"{{"requestId":"{key}"}}"#);
        (
            post("/v1/projects").header(CONTENT_TYPE, "application/json"),
            body,
        )
    })
    .await;
    let (service, orders) = shop(source()).await;
    let twice = service.send(post("/x?requestId=a&requestId=b"), "").await;
    assert_eq!(
        twice.refusal(),
        (400, "idempotency_key_repeated".to_owned())
    );
    let empty = service.send(post("/x?requestId="), "").await;
    assert_eq!(
        empty.refusal(),
        (400, "idempotency_key_malformed".to_owned())
    );
    assert_eq!(orders.count(), 0);
}

#[tokio::test]
async fn the_first_place_that_has_a_key_counts() {
    let header = |name| KeySource::header(http::HeaderName::from_static(name));
    let source = header("x-new")
        .or(header("x-old"))
        .or(KeySource::json_field("id"));
    let (service, orders) = shop(source).await;
    let json = || post("/").header(CONTENT_TYPE, "application/json");
    let body = "{\"id\":\"c\"}";
    for (request, number) in [
        (json().header("x-new", "a").header("x-old", "b"), "1"),
        (json().header("x-new", "a"), "1"),
        (json().header("x-old", "a"), "1"),
        (json().header("x-old", "b"), "2"),
        (json(), "3"),
        (json(), "3"),
    ] {
        assert_eq!(service.send(request, body).await.text(), number);
    }
    assert_eq!(orders.count(), 3);
}

#[tokio::test]
async fn a_whole_number_is_a_key() {
    let (service, orders) = shop(KeySource::json_field("order_no")).await;
    let send = async |value: &str| {
        let request = post("/").header(CONTENT_TYPE, "application/json");
        service
            .send(request, &format!("{{\"order_no\":{value}}}"))
            .await
    };
    assert_eq!(send("20261126001").await.text(), "1");
    assert!(send("20261126001").await.is_replay());
    // The same key, in another body.
    assert_eq!(send("\"20261126001\"").await.status, 422);
    for other in ["1.5", "1e3", "true", "[1]"] {
        assert_eq!(send(other).await.status, 400, "{other}");
    }
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_hidden_field_of_a_form_is_a_key() {
    // Firefox 145: `<form method="post"><input type="hidden" name="idempotency_key" …>`.
    let orders = assert_keyed(KeySource::form_field("idempotency_key"), |key| {
        let request = post("/orders")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(
                "accept",
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            );
        (
            request,
            format!("product=tea+%26+milk&idempotency_key={key}"),
        )
    });
    assert_eq!(orders.await.count(), 2);
}
