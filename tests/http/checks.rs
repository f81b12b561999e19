//! The order of the checks before a handler runs.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::{any, post as on_post};
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::header::AUTHORIZATION;
use http::{HeaderName, Method, StatusCode};
use idempotence::http::{IdempotencyLayer, RouteOptions};
use tokio::sync::Semaphore;

use support::http_client::{
    Orders, Reply, Service, idempotency, keyed, layer, poll, post, scoped, within,
};

async fn shop(layer: IdempotencyLayer) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move |body: String| async move { format!("{} {}", placed.place(), body.len()) };
    let app = Router::new().route("/", any(place)).layer(layer);
    (Service::start(app).await, orders)
}

#[tokio::test]
async fn the_key_of_a_method_that_changes_nothing_is_ignored() {
    let methods = [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST];
    let layer = scoped(&idempotency())
        .methods(methods)
        .require_key()
        .build();
    let (service, orders) = shop(layer).await;
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        for _ in 0..2 {
            let request = keyed("/", "\"malformed").method(method.clone());
            assert_eq!(service.send(request, "").await.status, StatusCode::OK);
        }
    }
    assert_eq!(orders.count(), 6);
}

#[tokio::test]
async fn only_post_and_patch_are_guarded_by_default() {
    for (method, runs) in [
        (Method::POST, 1),
        (Method::PATCH, 1),
        (Method::PUT, 2),
        (Method::DELETE, 2),
    ] {
        let (service, orders) = shop(layer()).await;
        for _ in 0..2 {
            service
                .send(keyed("/", "a").method(method.clone()), "")
                .await;
        }
        assert_eq!(orders.count(), runs, "{method}");
    }
}

#[tokio::test]
async fn other_methods_may_be_guarded() {
    let (service, orders) = shop(scoped(&idempotency()).methods([Method::PUT]).build()).await;
    for (method, runs) in [(Method::PUT, 1), (Method::POST, 3)] {
        for _ in 0..2 {
            service
                .send(keyed("/", "a").method(method.clone()), "")
                .await;
        }
        assert_eq!(orders.count(), runs, "{method}");
    }
}

#[tokio::test]
async fn a_route_may_require_a_key() {
    let layer = scoped(&idempotency()).require_key().build();
    let (service, orders) = shop(layer).await;
    for essence in ["application/json", "application/grpc"] {
        let request = post("/").header("content-type", essence);
        let refused = service.send(request, "").await;
        let code = "idempotency_key_missing".to_owned();
        assert_eq!(refused.refusal(), (400, code), "{essence}");
    }
    assert_eq!(orders.count(), 0);
}

/// The layer also guards methods of gRPC.
#[tokio::test]
async fn a_content_type_does_not_get_past_the_options_of_a_route() {
    let layer = scoped(&idempotency()).grpc_unary(["/pay.Pay/Pay"]);
    let layer = layer.for_route("/", RouteOptions::require_key).build();
    let (service, orders) = shop(layer).await;
    let grpc = |request: http::request::Builder| request.header("content-type", "application/grpc");
    service.send(grpc(post("/")), "").await;
    assert_eq!(orders.count(), 0);
    let first = service.send(grpc(keyed("/", "a")), "").await;
    let again = service.send(grpc(keyed("/", "a")), "").await;
    assert_eq!((first.is_replay(), again.is_replay()), (false, true));
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_refused_before_the_scope() {
    let (service, orders) = shop(layer()).await;
    let request = || http::Request::builder().method(Method::POST).uri("/");
    let malformed = request().header("idempotency-key", "a b");
    let refused = service.send(malformed, "").await;
    let code = "idempotency_key_malformed".to_owned();
    assert_eq!(refused.refusal(), (400, code));
    let twice = request()
        .header("idempotency-key", "a")
        .header("idempotency-key", "a");
    let refused = service.send(twice, "").await;
    let code = "idempotency_key_repeated".to_owned();
    assert_eq!(refused.refusal(), (400, code));
    assert_eq!(orders.count(), 0);
}

#[tokio::test]
async fn a_request_without_a_scope_is_refused_before_its_body_is_read() {
    let (service, orders) = shop(layer()).await;
    let request = || keyed("/", "a").method(Method::POST);
    let mut unread = request().body(endless()).unwrap();
    unread.headers_mut().remove(AUTHORIZATION);
    let (response, _) = service.begin(unread).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let mut empty = request().body(Body::empty()).unwrap();
    empty
        .headers_mut()
        .insert(AUTHORIZATION, " ".parse().unwrap());
    let (response, _) = service.begin(empty).await;
    let refused = Reply::read(response).await;
    assert_eq!(refused.refusal(), (400, "scope_missing".to_owned()));
    assert_eq!(orders.count(), 0);
}

#[tokio::test]
async fn a_missing_header_of_another_name_is_a_bad_request() {
    let tenant = HeaderName::from_static("x-tenant");
    let layer = IdempotencyLayer::builder(&idempotency()).scope_by_header(tenant);
    let (service, orders) = shop(layer.build()).await;
    let refused = service.send(keyed("/", "a"), "").await;
    assert_eq!(refused.refusal(), (400, "scope_missing".to_owned()));
    for tenant in ["one", "two", "one"] {
        service
            .send(keyed("/", "a").header("x-tenant", tenant), "")
            .await;
    }
    assert_eq!(orders.count(), 2);
}

#[tokio::test]
async fn two_callers_with_one_key_make_two_requests() {
    let (service, orders) = shop(layer()).await;
    for user in ["alice", "bob", "alice"] {
        let mut request = keyed("/", "a").body(Body::empty()).unwrap();
        request
            .headers_mut()
            .insert(AUTHORIZATION, user.parse().unwrap());
        let (response, _) = service.begin(request).await;
        assert_eq!(response.status(), StatusCode::OK);
    }
    assert_eq!(orders.count(), 2);
}

#[derive(Clone)]
struct User {
    id: u64,
}

#[tokio::test]
async fn an_extension_or_a_closure_may_name_the_caller() {
    let builder = || IdempotencyLayer::builder(&idempotency());
    let by_extension = builder().scope_by_extension(|user: &User| user.id).build();
    let by_closure = builder()
        .scope_by(|head| head.extensions.get::<User>().map(|user| user.id))
        .build();
    for layer in [by_extension, by_closure] {
        let orders = Orders::default();
        let placed = orders.clone();
        let place = move || async move { placed.place().to_string() };
        let login = async |mut request: Request, next: Next| {
            let id = request
                .headers()
                .get("x-user")
                .map(|id| id.to_str().unwrap().parse().unwrap());
            if let Some(id) = id {
                request.extensions_mut().insert(User { id });
            }
            next.run(request).await
        };
        let app = Router::new().route("/", on_post(place));
        let service = Service::start(app.layer(layer).layer(from_fn(login))).await;
        for user in ["1", "2", "1"] {
            service
                .send(keyed("/", "a").header("x-user", user), "")
                .await;
        }
        assert_eq!(orders.count(), 2);
        let refused = service.send(keyed("/", "a"), "").await;
        assert_eq!(refused.refusal(), (400, "scope_missing".to_owned()));
    }
}

#[tokio::test]
async fn a_global_scope_shares_keys() {
    let (service, orders) = shop(
        IdempotencyLayer::builder(&idempotency())
            .global_scope()
            .build(),
    )
    .await;
    for user in ["alice", "bob"] {
        let request = keyed("/", "a").header("x-user", user);
        service.send(request, "").await;
    }
    assert_eq!(orders.count(), 1);
}

/// A body that never ends.
fn endless() -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from("{"))]);
    Body::from_stream(first.chain(stream::pending()))
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_takes_no_key() {
    let (service, orders) = shop(scoped(&idempotency()).request_limit(10).build()).await;
    let large = "x".repeat(11);
    let with_length = service.send(keyed("/", "a"), &large).await;
    let chunks = ["xxxxxx", "xxxxx"].map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
    let chunked = keyed("/", "a").body(Body::from_stream(stream::iter(chunks)));
    let (response, _) = service.begin(chunked.unwrap()).await;
    for refused in [with_length, Reply::read(response).await] {
        assert_eq!(refused.refusal(), (413, "request_too_large".to_owned()));
    }
    let reply = service.send(keyed("/", "a"), &"x".repeat(10)).await;
    assert_eq!((reply.text(), reply.is_replay()), ("1 10", false));
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_half_sent_upload_takes_no_key() {
    let (orders, read) = (Orders::default(), Arc::new(Semaphore::new(0)));
    let (placed, chunks) = (orders.clone(), Arc::clone(&read));
    let place = move || async move { placed.place().to_string() };
    // Adds a permit for each chunk that the layer reads.
    let watch = move |request: Request, next: Next| {
        let chunks = Arc::clone(&chunks);
        let request = request.map(|body| {
            let body = body.into_data_stream();
            Body::from_stream(body.inspect(move |_| chunks.add_permits(1)))
        });
        next.run(request)
    };
    let app = Router::new().route("/", on_post(place)).layer(layer());
    let service = Service::start(app.layer(from_fn(watch))).await;
    let half = keyed("/", "a").body(endless()).unwrap();
    let (response, connection) = service.connect(half).await;
    let upload = tokio::spawn(response);
    within(read.acquire()).await.unwrap().forget();
    assert_eq!(orders.count(), 0);
    let reply = service.send(keyed("/", "a"), "{}").await;
    assert_eq!((reply.status, reply.is_replay()), (StatusCode::OK, false));
    assert!(!upload.is_finished());
    connection.abort();
    assert!(within(upload).await.unwrap().is_err());
    assert_eq!(orders.count(), 1);
}

/// A shop whose handler waits for a permit.
async fn slow_shop(layer: IdempotencyLayer) -> (Arc<Service>, Orders, Arc<Semaphore>) {
    let (orders, permits) = (Orders::default(), Arc::new(Semaphore::new(0)));
    let (placed, permit) = (orders.clone(), Arc::clone(&permits));
    let place = move || async move {
        let order = placed.place();
        permit.acquire().await.unwrap().forget();
        order.to_string()
    };
    let app = Router::new().route("/", on_post(place)).layer(layer);
    (Arc::new(Service::start(app).await), orders, permits)
}

#[tokio::test]
async fn another_payload_is_refused_even_while_the_first_request_runs() {
    let wait = Duration::from_mins(1);
    let (service, orders, permits) = slow_shop(scoped(&idempotency()).wait(wait).build()).await;
    let first = {
        let service = Arc::clone(&service);
        tokio::spawn(async move { service.send(keyed("/", "a"), "1").await })
    };
    within(async {
        while orders.count() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let other = within(service.send(keyed("/", "a"), "2")).await;
    assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
    permits.add_permits(1);
    assert_eq!(within(first).await.unwrap().text(), "1");
    let other = service.send(keyed("/", "a"), "2").await;
    assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_request_is_told_to_come_back_while_an_equal_request_runs() {
    let (service, orders, permits) = slow_shop(layer()).await;
    let first = {
        let service = Arc::clone(&service);
        tokio::spawn(async move { service.send(keyed("/", "a"), "").await })
    };
    let is_running = |reply: &Reply| reply.status == StatusCode::CONFLICT;
    let request = || keyed("/", "a").header("x-try", "2");
    within(async {
        while orders.count() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let refused = poll(&service, request, "", is_running).await;
    assert_eq!(refused.refusal(), (409, "in_progress".to_owned()));
    let problem = refused.problem();
    assert_eq!(problem["retryable"], true);
    assert_eq!(problem["client_action"], "wait");
    assert!(problem["retry_after_ms"].as_u64().unwrap() > 0);
    let seconds: u64 = refused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(seconds >= 1);
    permits.add_permits(1);
    within(first).await.unwrap();
    assert!(service.send(keyed("/", "a"), "").await.is_replay());
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn the_key_the_query_and_the_content_type_belong_to_the_payload() {
    let (service, orders) = shop(layer()).await;
    let json =
        |path: &str| keyed(path, "a").header("content-type", "application/json; charset=utf-8");
    service.send(json("/?dry=1"), "{}").await;
    let again = keyed("/?dry=1", "a").header("content-type", "application/json");
    assert!(service.send(again, "{}").await.is_replay());
    let other_type = keyed("/?dry=1", "a").header("content-type", "text/plain");
    for request in [json("/"), json("/?dry=2"), other_type] {
        let refused = service.send(request, "{}").await;
        assert_eq!(refused.refusal(), (422, "payload_mismatch".to_owned()));
    }
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn routes_may_have_options_of_their_own() {
    let layer = scoped(&idempotency())
        .for_route("/payments", |payments| {
            payments.require_key().request_limit(1)
        })
        .build();
    let app = Router::new()
        .route("/payments", on_post(async || "paid"))
        .route(
            "/notes",
            on_post(async |Extension(()): Extension<()>| "noted"),
        )
        .layer(Extension(()))
        .layer(layer);
    let service = Service::start(app).await;
    let refused = service.send(post("/payments"), "").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let refused = service.send(keyed("/payments", "a"), "12").await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    for request in [post("/notes"), keyed("/notes", "a")] {
        assert_eq!(service.send(request, "12").await.text(), "noted");
    }
}
