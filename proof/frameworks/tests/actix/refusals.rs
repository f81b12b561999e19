//! Requests whose handler does not run. Both servers answer with the same bytes.

use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::request::Builder;
use idempotence::http::{HasScope, IdempotencyLayer, LayerBuilder, RouteOptions};
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Idempotency, MemoryStore, OnStoreError, StoreErrorKind};

use crate::shop::{BOTH, Server, Shop};
use support::http_client::{Reply, idempotency, keyed, post, scoped};

const DOCS: &str = "https://shop.example/docs/retries";

fn documented(layer: LayerBuilder<impl HasScope>) -> IdempotencyLayer {
    let layer = layer
        .docs_url(DOCS)
        .challenge(HeaderValue::from_static("Bearer"));
    layer.build()
}

/// A request and its body.
type Sent = (fn() -> Builder, &'static str);

/// Sends requests with these bodies. The last of them is refused.
struct Case {
    code: &'static str,
    status: u16,
    layer: fn() -> IdempotencyLayer,
    requests: Vec<Sent>,
    runs: usize,
}

fn a_key() -> Builder {
    keyed("/orders", "a")
}

fn cases() -> Vec<Case> {
    let plain: fn() -> IdempotencyLayer = || documented(scoped(&idempotency()));
    let required: fn() -> IdempotencyLayer = || documented(scoped(&idempotency()).require_key());
    let case = |code, status, request: fn() -> Builder| Case {
        code,
        status,
        layer: plain,
        requests: vec![(request, "{}")],
        runs: 0,
    };
    vec![
        Case {
            layer: required,
            ..case("idempotency_key_missing", 400, || post("/orders"))
        },
        case("idempotency_key_malformed", 400, || keyed("/orders", "a b")),
        case("idempotency_key_malformed", 400, || {
            keyed("/orders", "\u{e9}")
        }),
        case("idempotency_key_repeated", 400, || {
            a_key().header("idempotency-key", "b")
        }),
        case("idempotency_key_malformed", 400, || {
            keyed("/orders", "").header("accept-language", "zh-CN")
        }),
        case("scope_missing", 401, || {
            let mut request = a_key();
            request.headers_mut().unwrap().remove(AUTHORIZATION);
            request
        }),
        Case {
            requests: vec![(a_key, "{}"), (a_key, "{ }")],
            runs: 1,
            ..case("payload_mismatch", 422, a_key)
        },
        Case {
            layer: || documented(scoped(&idempotency()).request_limit(3)),
            requests: vec![(a_key, "1234")],
            ..case("request_too_large", 413, a_key)
        },
        Case {
            layer: || {
                let store = FaultyStore::new(MemoryStore::new());
                store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
                documented(scoped(&Idempotency::new(store)))
            },
            ..case("store_unavailable", 503, a_key)
        },
        // No resource has this path, so there is no route.
        case("route_unknown", 500, || keyed("/unknown", "a")),
        Case {
            layer: || documented(scoped(&idempotency()).ttl(Duration::ZERO)),
            ..case("invalid_policy", 500, a_key)
        },
        Case {
            requests: vec![
                (|| keyed("/orders", "a").header("x-decision", "hold"), "{}"),
                (a_key, "{}"),
            ],
            runs: 1,
            ..case("outcome_unknown", 409, a_key)
        },
        Case {
            layer: || documented(scoped(&idempotency()).for_route("/orders", RouteOptions::stream)),
            requests: vec![(a_key, "{}"), (a_key, "{}")],
            runs: 1,
            ..case("result_unavailable", 409, a_key)
        },
    ]
}

async fn refusal(server: Server, case: &Case) -> Reply {
    let shop = Shop::start(server, &(case.layer)()).await;
    let mut last = None;
    for (request, body) in &case.requests {
        last = Some(shop.service.send(request(), body).await);
    }
    let last = last.expect("a request");
    let expected = (case.status, case.code.to_owned());
    assert_eq!(last.refusal(), expected, "{server:?}");
    assert_eq!(shop.runs(), case.runs, "{server:?} {}", case.code);
    last
}

#[tokio::test]
async fn both_servers_refuse_with_the_same_bytes() {
    for case in cases() {
        let axum = refusal(Server::Axum, &case).await;
        let actix = refusal(Server::Actix, &case).await;
        assert_eq!(axum.body, actix.body, "{}", case.code);
        for name in [
            "content-type",
            "content-language",
            "content-length",
            "retry-after",
            "www-authenticate",
            "link",
            "location",
        ] {
            let value = axum.headers.get(name);
            assert_eq!(value, actix.headers.get(name), "{} {name}", case.code);
        }
        assert!(actix.headers["link"].to_str().unwrap().contains(DOCS));
    }
}

#[tokio::test]
async fn a_request_that_runs_is_in_progress_and_another_payload_is_told_first() {
    for server in BOTH {
        let shop = Shop::start(server, &scoped(&idempotency()).build()).await;
        let first = shop.service.send(keyed("/gate", "a"), "{}");
        let others = async {
            while shop.runs() == 0 {
                tokio::task::yield_now().await;
            }
            let equal = shop.service.send(keyed("/gate", "a"), "{}").await;
            let other = shop.service.send(keyed("/gate", "a"), "").await;
            shop.state.gate.add_permits(1);
            (equal, other)
        };
        let (first, (equal, other)) = tokio::join!(first, others);
        assert_eq!(equal.refusal(), (409, "in_progress".to_owned()));
        assert!(equal.headers.contains_key("retry-after"));
        assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
        assert_eq!((first.status.as_u16(), shop.runs()), (201, 1), "{server:?}");
    }
}

#[tokio::test]
async fn without_its_store_a_handler_may_run_unguarded() {
    for server in BOTH {
        let store = FaultyStore::new(MemoryStore::new());
        store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
        let layer = scoped(&Idempotency::new(store)).on_store_error(OnStoreError::Run);
        let shop = Shop::start(server, &layer.build()).await;
        for _ in 0..2 {
            let reply = shop.service.send(a_key(), "{}").await;
            assert_eq!((reply.status.as_u16(), reply.is_replay()), (201, false));
        }
        assert_eq!(shop.runs(), 2, "{server:?}");
    }
}
