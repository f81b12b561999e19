//! Every refusal of the layer: its status, the members of its problem, and its headers, in both languages.

use std::future::pending;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::routing::post as on_post;
use axum::{Extension, Router};
use futures_util::stream;
use http::header::{ACCEPT_LANGUAGE, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Request, request};
use idempotence::http::{Decision, HasScope, IdempotencyLayer, LayerBuilder, Payload, Profile};
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Idempotency, MemoryStore, StoreErrorKind};
use tower::ServiceExt as _;

use support::http_client::{Reply, idempotency, scoped};

/// The key and the caller, which no refusal may repeat.
const SECRETS: [&str; 2] = ["secret-key", "secret-user"];

const PAGE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/guide/http-answers.md"
));

const DOCS: &str = "https://shop.example/docs/retries";

/// A refusal: its code, its status, and what the client does.
struct Refusal {
    code: &'static str,
    status: u16,
    client_action: &'static str,
    reply: Reply,
}

/// A router whose handler never ends if the request has the header `x-endless`, and holds its key if it has `x-hold`. The layer names each refusal in the header
/// `x-code`.
fn app(layer: LayerBuilder<impl HasScope>) -> Router {
    let layer = layer.challenge(HeaderValue::from_static("Bearer"));
    let layer = layer.docs_url(DOCS).on_reject(|rejection, mut response| {
        let code = HeaderValue::from_static(rejection.code());
        response.headers_mut().insert("x-code", code);
        response
    });
    let handler = |headers: HeaderMap| async move {
        if headers.contains_key("x-endless") {
            pending::<()>().await;
        }
        let decision = if headers.contains_key("x-hold") {
            Decision::Hold
        } else {
            Decision::Store
        };
        (Extension(decision), "placed")
    };
    let routes = Router::new().route("/", on_post(handler));
    routes.fallback(handler).layer(layer.build())
}

fn request(language: &str) -> request::Builder {
    Request::post("/")
        .header(ACCEPT_LANGUAGE, language)
        .header(AUTHORIZATION, SECRETS[1])
}

fn keyed(language: &str) -> request::Builder {
    request(language).header("idempotency-key", SECRETS[0])
}

async fn send(app: &Router, request: request::Builder, body: impl Into<Body>) -> Reply {
    let request = request.body(body.into()).unwrap();
    Reply::read(app.clone().oneshot(request).await.unwrap()).await
}

/// Refusals of the key, the scope and the body.
async fn of_requests(language: &str) -> Vec<Refusal> {
    let fix = |code, status, reply| Refusal {
        code,
        status,
        client_action: "fix",
        reply,
    };
    let plain = || scoped(&idempotency());
    let tenant = HeaderName::from_static("x-tenant");
    let by_tenant = IdempotencyLayer::builder(&idempotency()).scope_by_header(tenant);
    let unscoped = Request::post("/")
        .header(ACCEPT_LANGUAGE, language)
        .header("idempotency-key", SECRETS[0]);
    let twice = keyed(language).header("idempotency-key", SECRETS[0]);
    let malformed = request(language).header("idempotency-key", "secret-key, secret-key");
    let json = keyed(language).header("content-type", "application/json");
    let elsewhere = keyed(language).uri("/unknown");
    let broken = stream::iter([
        Ok(Bytes::from("{")),
        Err(std::io::Error::other("reset by the client")),
    ]);
    let missing = send(&app(plain().require_key()), request(language), "").await;
    let malformed = send(&app(plain()), malformed, "").await;
    let repeated = send(&app(plain()), twice, "").await;
    let no_user = send(&app(plain()), unscoped, "").await;
    let no_tenant = send(&app(by_tenant), keyed(language), "").await;
    let large = send(&app(plain().request_limit(1)), keyed(language), "12").await;
    let broken = send(&app(plain()), keyed(language), Body::from_stream(broken)).await;
    let ambiguous = app(plain().payload(Payload::json()));
    let ambiguous = send(&ambiguous, json, r#"{"a":1,"a":2}"#).await;
    let mut refusals = vec![
        fix("idempotency_key_missing", 400, missing),
        fix("idempotency_key_malformed", 400, malformed),
        fix("idempotency_key_repeated", 400, repeated),
        fix("scope_missing", 401, no_user),
        fix("scope_missing", 400, no_tenant),
        fix("request_too_large", 413, large),
        // Nothing ran, so the same request may be sent again.
        Refusal {
            client_action: "wait",
            ..fix("request_unreadable", 400, broken)
        },
        fix("payload_malformed", 400, ambiguous),
    ];
    for (code, reply) in [
        ("route_unknown", send(&app(plain()), elsewhere, "").await),
        (
            "invalid_policy",
            send(&app(plain().ttl(Duration::ZERO)), keyed(language), "").await,
        ),
    ] {
        refusals.push(Refusal {
            code,
            status: 500,
            client_action: "fix",
            reply,
        });
    }
    refusals
}

/// Refusals of calls.
async fn of_calls(language: &str) -> Vec<Refusal> {
    let first = || keyed(language).header("x-endless", "1");
    let refusal = |code, status, client_action, reply| Refusal {
        code,
        status,
        client_action,
        reply,
    };
    let plain = app(scoped(&idempotency()));
    send(&plain, keyed(language), "1").await;
    let mismatch = send(&plain, keyed(language), "2").await;

    let running = app(scoped(&idempotency()));
    let endless = tokio::spawn(
        running
            .clone()
            .oneshot(first().body(Body::empty()).unwrap()),
    );
    tokio::task::yield_now().await;
    let in_progress = send(&running, keyed(language), "").await;
    endless.abort();

    let held = app(scoped(&idempotency()));
    send(&held, keyed(language).header("x-hold", "1"), "").await;
    let unknown = send(&held, keyed(language), "").await;

    let gone = app(scoped(&idempotency()).response_limit(0));
    send(&gone, keyed(language), "").await;
    let unavailable = send(&gone, keyed(language), "").await;

    let store = FaultyStore::new(MemoryStore::new());
    let lost = app(scoped(&Idempotency::new(store.clone())));
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let lost = send(&lost, first(), "").await;
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let down = app(scoped(&Idempotency::new(store)));
    let down = send(&down, keyed(language), "").await;
    vec![
        refusal("payload_mismatch", 422, "fix", mismatch),
        refusal("in_progress", 409, "wait", in_progress),
        refusal("outcome_unknown", 409, "refresh", unknown),
        refusal("result_unavailable", 409, "refresh", unavailable),
        refusal("lease_lost", 500, "refresh", lost),
        refusal("store_unavailable", 503, "wait", down),
    ]
}

async fn refusals(language: &str) -> Vec<Refusal> {
    let mut refusals = of_requests(language).await;
    refusals.extend(of_calls(language).await);
    refusals
}

/// Asserts what is equal in all refusals. Returns the title and the detail.
fn assert_problem(refusal: &Refusal, language: &str) -> [String; 2] {
    let Refusal { code, reply, .. } = refusal;
    assert_eq!(reply.refusal(), (refusal.status, (*code).to_owned()));
    let problem = reply.problem();
    assert_eq!(problem["type"], format!("urn:idempotence:{code}"));
    assert_eq!(problem["status"], refusal.status, "{code}");
    assert_eq!(problem["client_action"], refusal.client_action, "{code}");
    let is_retryable = refusal.client_action == "wait";
    assert_eq!(problem["retryable"], is_retryable, "{code}");
    assert_eq!(reply.headers["content-language"], language, "{code}");
    assert_eq!(reply.headers["x-code"], *code);
    let link = format!("<{DOCS}>; rel=\"describedby\"");
    assert_eq!(reply.headers["link"], link, "{code}");
    assert!(!reply.is_replay(), "{code}");
    let has_challenge = reply.headers.contains_key("www-authenticate");
    assert_eq!(has_challenge, refusal.status == 401, "{code}");
    let seconds = reply.headers.get("retry-after").map(|seconds| {
        let seconds: u64 = seconds.to_str().unwrap().parse().unwrap();
        seconds
    });
    assert_eq!(seconds.is_some(), is_retryable, "{code}");
    if let Some(seconds) = seconds {
        let millis = problem["retry_after_ms"].as_u64().expect(code);
        assert_eq!(seconds, millis.div_ceil(1000).max(1), "{code}");
    } else {
        assert_eq!(problem.get("retry_after_ms"), None, "{code}");
    }
    for secret in SECRETS {
        assert!(!reply.text().contains(secret), "{code}: {}", reply.text());
        let is_shown = |(_, value): &(String, String)| value.contains(secret);
        assert!(!reply.lines().iter().any(is_shown), "{code}");
    }
    ["title", "detail"].map(|member| {
        let text = problem[member].as_str().expect(code);
        assert!(text.chars().count() > 3, "{code}: {text}");
        text.to_owned()
    })
}

/// Asserts that the table of codes has this refusal.
fn assert_documented(refusal: &Refusal) {
    let rows = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("| code | status |"))
        .take_while(|line| line.starts_with('|'));
    let has = |cell: &str, value: &str| cell.split(", ").any(|one| one.trim_matches('`') == value);
    let mut cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    let row = cells.find(|row| has(row[0].trim_start_matches("| "), refusal.code));
    let row = row.unwrap_or_else(|| panic!("{} is not documented", refusal.code));
    assert!(has(row[1], &refusal.status.to_string()), "{row:?}");
    assert!(has(row[2], refusal.client_action), "{row:?}");
}

#[tokio::test(start_paused = true)]
async fn every_refusal_is_a_problem_in_the_language_of_the_request() {
    let english = refusals("en").await;
    let chinese = refusals("zh-CN").await;
    assert_eq!(english.len(), 16);
    for refusal in &english {
        assert_documented(refusal);
    }
    for (english, chinese) in english.iter().zip(&chinese) {
        let texts = assert_problem(english, "en");
        assert!(texts.iter().all(|text| text.is_ascii()), "{texts:?}");
        let texts = assert_problem(chinese, "zh-Hans");
        let is_chinese = |text: &String| !text.is_ascii();
        assert!(texts.iter().all(is_chinese), "{}: {texts:?}", chinese.code);
    }
}

/// The JSON on the page that follows `before`.
fn shown(before: &str) -> serde_json::Value {
    let (_, page) = PAGE.split_once(before).unwrap();
    let (json, _) = page.split_once("```").unwrap();
    serde_json::from_str(json).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_page_shows_refusals_as_the_layer_sends_them() {
    for (profile, before) in [
        (Profile::Ietf, "retry-after: 1\n\n"),
        (Profile::Stripe, "```json\n"),
    ] {
        let layer = scoped(&idempotency()).profile(profile).build();
        let app = Router::new()
            .route("/", on_post(pending::<()>))
            .layer(layer);
        let first = keyed("en").body(Body::empty()).unwrap();
        let first = tokio::spawn(app.clone().oneshot(first));
        tokio::task::yield_now().await;
        let refused = send(&app, keyed("en"), "").await;
        assert_eq!(refused.status, 409);
        assert_eq!(refused.headers["retry-after"], "1");
        let body: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!(body, shown(before));
        first.abort();
    }
}
