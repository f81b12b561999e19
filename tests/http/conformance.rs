//! The test cases of two other libraries, ported as cases. `docs/http-conformance.md` lists every case, also those that this
//! layer answers in another way.
//!
//! * idempot-js (BSD 3-Clause): `tests/spec/idempotency.feature`, scenarios for the IETF draft `idempotency-key-header-07`.
//! * hono-idempotency (MIT): `tests/middleware.test.ts`.
//!
//! A file of cases has for each case its name, the options of the layer, and its requests: method and path, headers, body,
//! expected status, and what answers (`run`: the handler; `replay`: a stored response; else the code of a refusal). `runs` is
//! how often the handler runs.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, post as on_post};
use http::header::{AUTHORIZATION, HeaderName};
use http::{Method, Request, StatusCode};
use idempotence::http::{IdempotencyLayer, KeySource, Payload};
use tokio::sync::Semaphore;

use support::http_client::{
    Orders, Reply, Service, idempotency, keyed, layer, poll, scoped, within,
};

const IDEMPOT_JS: &str = include_str!("conformance/idempot_js.txt");
const HONO: &str = include_str!("conformance/hono_idempotency.txt");

#[derive(Clone)]
struct Case {
    name: &'static str,
    options: &'static str,
    requests: Vec<&'static str>,
    runs: usize,
}

fn cases(file: &'static str) -> Vec<Case> {
    let cases = file.split("# ").skip(1).map(|case| {
        let mut lines = case.lines().filter(|line| !line.is_empty());
        let name = lines.next().expect("a name");
        let (mut options, mut requests, mut runs) = ("", Vec::new(), None);
        for line in lines {
            if let Some(with) = line.strip_prefix("with ") {
                options = with;
            } else if let Some(count) = line.strip_prefix("runs ") {
                runs = Some(count.parse().expect(name));
            } else {
                requests.push(line);
            }
        }
        assert!(!requests.is_empty(), "{name}");
        Case {
            name,
            options,
            requests,
            runs: runs.expect(name),
        }
    });
    cases.collect()
}

/// The layer with these options, and the header that marks its replays.
fn layer_with(options: &str) -> (IdempotencyLayer, &str) {
    let builder = scoped(&idempotency());
    let header = |name: &str| KeySource::header(name.parse().unwrap());
    let (option, value) = options.split_once(' ').unwrap_or((options, ""));
    let builder = match option {
        "" => builder,
        "require_key" => builder.require_key(),
        "header" => builder.key_from(header(value)),
        "required_header" => builder.key_from(header(value)).require_key(),
        "methods" => builder.methods(
            value
                .split_whitespace()
                .map(|name| name.parse::<Method>().unwrap()),
        ),
        "payload" => builder.payload(Payload::none()),
        "request_limit" => builder.request_limit(value.parse().unwrap()),
        "replay_header" => {
            let marker: HeaderName = value.parse().unwrap();
            return (builder.replay_header(marker).build(), value);
        }
        other => panic!("unknown option {other}"),
    };
    (builder.build(), "idempotency-replayed")
}

async fn service(layer: IdempotencyLayer) -> (Service, Orders) {
    let orders = Orders::default();
    let (placed, counted) = (orders.clone(), orders.clone());
    let place = move || async move { format!("success {}", placed.place()) };
    let answer = move |Path(status): Path<u16>| async move {
        let status = StatusCode::from_u16(status).unwrap();
        (status, format!("success {}", counted.place()))
    };
    let app = Router::new()
        .route("/api", any(place.clone()))
        .route("/other", any(place))
        .route("/status/{status}", any(answer))
        .layer(layer);
    (Service::start(app).await, orders)
}

async fn send(service: &Service, line: &str, headers: &str, body: &str) -> Reply {
    let (method, path) = line.split_once(' ').expect(line);
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", "shop");
    if !headers.contains("authorization:") {
        request = request.header(AUTHORIZATION, "alice");
    }
    for header in headers.split("; ").filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once(':').expect(header);
        let value = match value.trim() {
            "{256 characters}" => "a".repeat(256),
            "{258 bytes of é}" => "é".repeat(129),
            value => value.to_owned(),
        };
        request = request.header(name, value.as_bytes());
    }
    service.send(request, body).await
}

async fn check(case: &Case) {
    let (layer, marker) = layer_with(case.options);
    let (service, orders) = service(layer).await;
    for request in &case.requests {
        let [line, headers, body, expected] = request
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
            .try_into()
            .expect(case.name);
        let (status, answer) = expected.split_once(' ').expect(case.name);
        let status: u16 = status.parse().expect(case.name);
        let reply = send(&service, line, headers, body).await;
        let shown = format!("{}: {request}: {reply:?}", case.name);
        assert_eq!(reply.status, status, "{shown}");
        match answer {
            "run" | "replay" => {
                assert!(reply.text().starts_with("success"), "{shown}");
                let is_replay = reply
                    .headers
                    .get(marker)
                    .is_some_and(|value| value == "true");
                assert_eq!(is_replay, answer == "replay", "{shown}");
            }
            code => {
                assert_eq!(reply.refusal(), (status, code.to_owned()), "{shown}");
                let problem = reply.problem();
                for member in ["type", "title", "detail"] {
                    assert!(problem[member].is_string(), "{member} {shown}");
                }
                assert_eq!(problem["status"], status, "{shown}");
                assert_eq!(problem["retryable"], false, "{shown}");
            }
        }
    }
    assert_eq!(orders.count(), case.runs, "{}", case.name);
}

#[tokio::test]
async fn the_scenarios_of_idempot_js_are_answered_as_the_page_says() {
    for case in cases(IDEMPOT_JS) {
        check(&case).await;
    }
}

#[tokio::test]
async fn the_cases_of_hono_idempotency_are_answered_as_the_page_says() {
    for case in cases(HONO) {
        check(&case).await;
    }
}

#[test]
fn the_page_lists_every_case() {
    let page = include_str!("../../docs/http-conformance.md");
    let cases = [cases(IDEMPOT_JS), cases(HONO)].concat();
    assert_eq!(cases.len(), 46);
    for Case { name, .. } in cases {
        let row = format!("| {name} |");
        assert!(page.lines().any(|line| line.starts_with(&row)), "{name}");
    }
}

/// idempot-js: "Request during processing returns 409". hono-idempotency: E7 and E10.
#[tokio::test]
async fn a_concurrent_request_gets_409_and_when_to_come_back() {
    let (orders, permits) = (Orders::default(), Arc::new(Semaphore::new(0)));
    let (placed, permit) = (orders.clone(), Arc::clone(&permits));
    let slow = move || async move {
        placed.place();
        permit.acquire().await.unwrap().forget();
    };
    let app = Router::new().route("/slow", on_post(slow)).layer(layer());
    let service = Arc::new(Service::start(app).await);
    let first = {
        let service = Arc::clone(&service);
        tokio::spawn(async move { service.send(keyed("/slow", "key-e7"), "").await })
    };
    within(async {
        while orders.count() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let second = poll(&service, || keyed("/slow", "key-e7"), "", |_| true).await;
    assert_eq!(second.refusal(), (409, "in_progress".to_owned()));
    assert!(second.headers.contains_key("retry-after"));
    assert_eq!(second.problem()["retryable"], true);
    permits.add_permits(1);
    assert_eq!(within(first).await.unwrap().status, StatusCode::OK);
    assert_eq!(orders.count(), 1);
}

/// hono-idempotency: "does not replay Set-Cookie header from cached response", "preserves Content-Type header on replayed
/// response" and "excludes content-length and transfer-encoding from stored headers".
#[tokio::test]
async fn a_replay_has_the_content_type_but_no_cookie() {
    async fn with_cookie() -> Response {
        let headers = [
            ("content-type", "text/x-order"),
            ("set-cookie", "session=abc123; Path=/; HttpOnly"),
        ];
        (headers, "ok").into_response()
    }
    let app = Router::new()
        .route("/", on_post(with_cookie))
        .layer(layer());
    let service = Service::start(app).await;
    let first = service.send(keyed("/", "key-set-cookie"), "").await;
    assert!(first.headers.contains_key("set-cookie"));
    let second = service.send(keyed("/", "key-set-cookie"), "").await;
    assert!(second.is_replay() && !second.headers.contains_key("set-cookie"));
    assert_eq!(second.headers["content-type"], "text/x-order");
    assert_eq!(second.headers["content-length"], "2");
    assert!(!second.headers.contains_key("transfer-encoding"));
}

/// hono-idempotency: "E4 alternative: error response is not cached, same key retries succeed".
#[tokio::test]
async fn a_retry_after_a_503_runs_the_handler() {
    let orders = Orders::default();
    let placed = orders.clone();
    let flaky = move || async move {
        match placed.place() {
            1 => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        }
    };
    let app = Router::new().route("/flaky", on_post(flaky)).layer(layer());
    let service = Service::start(app).await;
    let mut replies = Vec::new();
    for _ in 0..3 {
        let reply = service.send(keyed("/flaky", "key-e4-retry"), "").await;
        replies.push((reply.status.as_u16(), reply.is_replay()));
    }
    assert_eq!(replies, [(503, false), (200, false), (200, true)]);
    assert_eq!(orders.count(), 2);
}
