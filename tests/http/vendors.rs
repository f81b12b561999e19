//! The conventions of vendors, row by row as in `docs/guide/vendors.md`, with the requests of their SDKs.

use std::future::{Ready, ready};

use axum::Router;
use axum::response::Response;
use axum::routing::post as on_post;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use http::request;
use idempotence::http::{
    HasScope, IdempotencyLayer, KeySource, LayerBuilder, Payload, Profile, Rejection,
};
use serde_json::Value;

use support::http_client::{Orders, Service, idempotency, keyed, post, scoped};

const PAGE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/guide/vendors.md"
));

/// A row of the page.
struct Vendor {
    name: &'static str,
    options: &'static str,
    layer: IdempotencyLayer,
    request: request::Builder,
    body: &'static str,
}

/// A row whose options are the text of the page.
macro_rules! vendor {
    ($name:literal, |$layer:ident| $options:expr, $request:expr, $body:literal) => {{
        let $layer = scoped(&idempotency());
        Vendor {
            name: $name,
            options: stringify!($options),
            layer: built($options),
            request: $request,
            body: $body,
        }
    }};
}

fn built(layer: LayerBuilder<impl HasScope>) -> IdempotencyLayer {
    layer.build()
}

fn json(request: request::Builder) -> request::Builder {
    request.header(CONTENT_TYPE, "application/json")
}

fn form(request: request::Builder) -> request::Builder {
    request.header(CONTENT_TYPE, "application/x-www-form-urlencoded")
}

const UUID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

fn vendors() -> Vec<Vendor> {
    let first_sent = httpdate::fmt_http_date(std::time::SystemTime::now());
    let mut vendors = vec![
        vendor!(
            "Stripe",
            |layer| layer.profile(Profile::Stripe),
            form(keyed("/v1/charges", UUID)),
            "amount=7&currency=eur"
        ),
        vendor!(
            "Agentic Commerce Protocol",
            |layer| layer.profile(Profile::Acp),
            json(keyed("/checkout_sessions", UUID)),
            r#"{"items":[{"id":"tea","quantity":1}]}"#
        ),
        vendor!(
            "Azure",
            |layer| layer.profile(Profile::Repeatability),
            json(post("/sms"))
                .header("Repeatability-Request-ID", UUID)
                .header("Repeatability-First-Sent", first_sent),
            r#"{"from":"+1","message":"hi"}"#
        ),
    ];
    vendors.extend(of_headers());
    vendors.extend(of_bodies());
    vendors
}

fn of_headers() -> Vec<Vendor> {
    let default = |name, request| Vendor {
        name,
        options: "–",
        layer: scoped(&idempotency()).build(),
        request: json(request),
        body: r#"{"amount":{"value":7,"currency":"EUR"}}"#,
    };
    vec![
        default("Adyen", keyed("/v71/payments", UUID)),
        default("Mollie", keyed("/v2/payments", UUID)),
        default(
            "OpenAI",
            keyed("/v1/responses", &format!("stainless-node-retry-{UUID}")),
        ),
        vendor!(
            "PayPal",
            |layer| layer.key_from(KeySource::header(HeaderName::from_static(
                "paypal-request-id"
            ))),
            json(post("/v2/checkout/orders")).header("PayPal-Request-Id", UUID),
            r#"{"intent":"CAPTURE"}"#
        ),
        vendor!(
            "Checkout.com",
            |layer| layer.key_from(KeySource::header(HeaderName::from_static(
                "cko-idempotency-key"
            ))),
            json(post("/payments")).header("Cko-Idempotency-Key", UUID),
            r#"{"amount":7}"#
        ),
        vendor!(
            "Mercado Pago",
            |layer| layer.key_from(KeySource::header(HeaderName::from_static(
                "x-idempotency-key"
            ))),
            json(post("/v1/payments")).header("X-Idempotency-Key", UUID),
            r#"{"transaction_amount":7}"#
        ),
        vendor!(
            "Chargebee",
            |layer| layer.key_from(KeySource::header(HeaderName::from_static(
                "chargebee-idempotency-key"
            ))),
            form(post("/api/v2/customers")).header("chargebee-idempotency-key", UUID),
            "first_name=Ada"
        ),
    ]
}

fn of_bodies() -> Vec<Vendor> {
    vec![
        vendor!(
            "Square",
            |layer| layer.key_from(KeySource::json_field("idempotency_key")),
            json(post("/v2/payments")),
            r#"{"source_id":"cnon:ok","idempotency_key":"8e03978e-40d5"}"#
        ),
        vendor!(
            "AWS",
            |layer| layer.key_from(KeySource::json_field("clientToken")),
            post("/").header(CONTENT_TYPE, "application/x-amz-json-1.1"),
            r#"{"clientToken": "8e03978e-40d5"}"#
        ),
        vendor!(
            "Google",
            |layer| layer
                .key_from(KeySource::query("requestId").or(KeySource::json_field("requestId"))),
            json(post("/compute/v1/instances?requestId=8e03978e-40d5")),
            r#"{"name":"vm"}"#
        ),
        vendor!(
            "GoCardless",
            |layer| layer.stream().on_reject(conflict),
            json(keyed("/payments", UUID)),
            r#"{"payments":{"amount":7}}"#
        ),
        vendor!(
            "a form of HTML",
            |layer| layer
                .key_from(KeySource::form_field("idempotency_key"))
                .payload(Payload::form()),
            form(post("/orders")).header(ACCEPT, "text/html,application/xhtml+xml"),
            "product=tea&idempotency_key=8e03978e"
        ),
    ]
}

/// As on the page.
fn conflict(_: &Rejection, mut response: http::Response<Bytes>) -> http::Response<Bytes> {
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    let id = response.headers()[LOCATION].to_str().unwrap();
    let id = id.rsplit('/').next().unwrap();
    let body = format!(
        r#"{{"error":{{"type":"invalid_state","code":409,"errors":[{{"reason":"idempotent_creation_conflict","links":{{"conflicting_resource_id":"{id}"}}}}]}}}}"#
    );
    response.map(|_| body.into())
}

/// The vendors and the options of the page.
fn rows() -> Vec<(String, String)> {
    let lines = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("| vendor |"));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let row = |row: &str| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let options = cells[2].split('`').nth(1).unwrap_or(cells[2]);
        (cells[0].to_owned(), without_space(options))
    };
    rows.map(row).collect()
}

fn without_space(text: &str) -> String {
    text.split_whitespace()
        .collect::<String>()
        .replace(",)", ")")
}

async fn serve(layer: IdempotencyLayer) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || -> Ready<Response> {
        let mut response = Response::new("placed".into());
        let location = format!("/payments/PM{}", placed.place()).parse().unwrap();
        response.headers_mut().insert(LOCATION, location);
        ready(response)
    };
    let app = Router::new()
        .route("/", on_post(place.clone()))
        .route("/{*path}", on_post(place));
    (Service::start(app.route_layer(layer)).await, orders)
}

#[tokio::test]
async fn each_row_of_the_page_makes_a_repeated_request_run_once() {
    let mut shown = rows();
    for vendor in vendors() {
        let row = (vendor.name.to_owned(), without_space(vendor.options));
        let at = shown.iter().position(|shown| *shown == row);
        let at = at.unwrap_or_else(|| panic!("the page has not {row:?}: {shown:?}"));
        shown.remove(at);
        let (service, orders) = serve(vendor.layer).await;
        let head = vendor.request.body(()).unwrap().into_parts().0;
        let request = || {
            let mut request = request::Request::builder().method("POST").uri(&head.uri);
            *request.headers_mut().unwrap() = head.headers.clone();
            request
        };
        let first = service.send(request(), vendor.body).await;
        let second = service.send(request(), vendor.body).await;
        assert_eq!(first.status, 200, "{}", vendor.name);
        assert_eq!(orders.count(), 1, "{}", vendor.name);
        if vendor.name == "GoCardless" {
            // The SDK loads the resource with this id.
            let body: Value = serde_json::from_slice(&second.body).unwrap();
            let id = body.pointer("/error/errors/0/links/conflicting_resource_id");
            assert_eq!((second.status.as_u16(), id.unwrap()), (409, &"PM1".into()));
        } else {
            assert_eq!((second.status, second.body), (first.status, first.body));
        }
    }
    assert_eq!(shown, []);
}

#[tokio::test]
async fn operations_of_aws_with_one_token_are_two_requests() {
    let operation = |head: &request::Parts| {
        let target = head.headers.get("x-amz-target")?;
        target.to_str().ok().map(str::to_owned)
    };
    let layer = IdempotencyLayer::builder(&idempotency()).scope_by(operation);
    let layer = layer.key_from(KeySource::json_field("clientToken"));
    let (service, orders) = serve(layer.build()).await;
    for (target, runs) in [("RunTask", 1), ("RunTask", 1), ("CreateService", 2)] {
        let request = post("/").header(CONTENT_TYPE, "application/x-amz-json-1.1");
        let request = request.header("X-Amz-Target", target);
        service
            .send(request, r#"{"clientToken": "8e03978e-40d5"}"#)
            .await;
        assert_eq!(orders.count(), runs, "{target}");
    }
}
