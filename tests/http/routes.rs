//! Routers of axum: where the layer may be, and which requests share keys.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request};
use axum::routing::post as on_post;
use http::{HeaderName, StatusCode};
use idempotence::http::{IdempotencyContext, IdempotencyLayer, KeySource, RouteOptions};
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::store::{Finding, Level};
use idempotent_runtime::{Error, Idempotency, MemoryStore, OnStoreError, StoreErrorKind};

use support::http_client::{Orders, Service, idempotency, keyed, layer, post, scoped};
use support::log_capture::LogCapture;

/// A router with `/orders` and `/orders/{id}/pay`.
fn routes(orders: &Orders) -> Router {
    let (placed, paid) = (orders.clone(), orders.clone());
    let place = move || async move { placed.place().to_string() };
    let pay = move |Path(_): Path<u64>| async move { paid.place().to_string() };
    Router::new()
        .route("/orders", on_post(place))
        .route("/orders/{id}/pay", on_post(pay))
}

/// Asserts that each of these paths has its own keys.
async fn assert_separate(service: &Service, orders: &Orders, paths: &[&str]) {
    for path in paths {
        let first = service.send(keyed(path, "a"), "").await;
        assert_eq!(
            (first.status, first.is_replay()),
            (StatusCode::OK, false),
            "{path}"
        );
        let second = service.send(keyed(path, "a"), "").await;
        assert!(second.is_replay(), "{path}");
        assert_eq!(second.body, first.body);
    }
    assert_eq!(orders.count(), paths.len());
}

const NESTED: [&str; 4] = [
    "/a/orders",
    "/b/orders",
    "/a/orders/1/pay",
    "/b/orders/1/pay",
];

#[tokio::test]
async fn nested_routers_with_equal_tails_do_not_share_keys() {
    let orders = Orders::default();
    let layer = layer();
    // One handle and one layer, in each of the nested routers and around them.
    let inside = || routes(&orders).layer(layer.clone());
    let app = Router::new().nest("/a", inside()).nest("/b", inside());
    assert_separate(&Service::start(app).await, &orders, &NESTED).await;
    let orders = Orders::default();
    let app = Router::new()
        .nest("/a", routes(&orders))
        .nest("/b", routes(&orders));
    let outside = app.layer(support::http_client::layer());
    assert_separate(&Service::start(outside).await, &orders, &NESTED).await;
}

#[tokio::test]
async fn nested_services_with_equal_tails_do_not_share_keys() {
    let orders = Orders::default();
    let layer = layer();
    let inside = || routes(&orders).layer(layer.clone());
    let app = Router::new()
        .nest_service("/a", inside())
        .nest_service("/b", inside());
    assert_separate(&Service::start(app).await, &orders, &NESTED).await;
}

#[tokio::test]
async fn merged_routers_and_single_routes_are_guarded() {
    let orders = Orders::default();
    let (first, second) = (orders.clone(), orders.clone());
    let single = on_post(move || async move { first.place().to_string() }).layer(layer());
    let other = Router::new()
        .route(
            "/other",
            on_post(move || async move { second.place().to_string() }),
        )
        .route_layer(layer());
    let app = routes(&orders)
        .layer(layer())
        .route("/single", single)
        .merge(other);
    let paths = ["/orders", "/single", "/other"];
    assert_separate(&Service::start(app).await, &orders, &paths).await;
}

#[tokio::test]
async fn another_parameter_of_a_route_with_the_same_key_is_another_payload() {
    let orders = Orders::default();
    let service = Service::start(routes(&orders).layer(layer())).await;
    service.send(keyed("/orders/1/pay", "a"), "").await;
    let refused = service.send(keyed("/orders/2/pay", "a"), "").await;
    assert_eq!(refused.refusal(), (422, "payload_mismatch".to_owned()));
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_parameter_that_a_nested_router_does_not_see_belongs_to_the_payload() {
    for is_inside in [false, true] {
        let orders = Orders::default();
        let app = if is_inside {
            Router::new().nest("/shops/{shop}", routes(&orders).layer(layer()))
        } else {
            let nested = Router::new().nest("/shops/{shop}", routes(&orders));
            nested.layer(layer())
        };
        let service = Service::start(app).await;
        let first = service.send(keyed("/shops/1/orders", "a"), "").await;
        assert_eq!((first.text(), first.is_replay()), ("1", false));
        let other = service.send(keyed("/shops/2/orders", "a"), "").await;
        assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
        let again = service.send(keyed("/shops/1/orders", "a"), "").await;
        assert_eq!((again.text(), again.is_replay()), ("1", true));
        assert_eq!(orders.count(), 1);
    }
}

#[tokio::test]
async fn a_request_that_an_outer_layer_guards_is_not_guarded_again() {
    let orders = Orders::default();
    let idempotency = idempotency();
    let app = routes(&orders).layer(scoped(&idempotency).build());
    let app = app.layer(scoped(&idempotency).build());
    assert_separate(&Service::start(app).await, &orders, &["/orders"]).await;
}

#[tokio::test]
async fn an_inner_layer_of_another_handle_or_key_also_guards_a_request() {
    let (orders, inner) = (Orders::default(), idempotency());
    for (outside, key) in [(idempotency(), "a"), (inner.clone(), "b")] {
        let name = HeaderName::from_static("x-try");
        let outer = scoped(&outside).key_from(KeySource::header(name));
        let app = routes(&orders).layer(scoped(&inner).build());
        let service = Service::start(app.layer(outer.build())).await;
        for attempt in ["1", "2"] {
            let request = keyed("/orders", key).header("x-try", attempt);
            service.send(request, "").await;
        }
    }
    // To the outer layer each try is another request.
    assert_eq!(orders.count(), 2);
}

#[tokio::test]
async fn an_inner_layer_guards_a_request_that_an_outer_layer_runs_unguarded() {
    let orders = Orders::default();
    let store = FaultyStore::new(MemoryStore::new());
    let outside = Idempotency::builder(store.clone());
    let outside = outside
        .deadline(Duration::from_millis(200))
        .build()
        .unwrap();
    let app = routes(&orders).layer(scoped(&idempotency()).build());
    let outer = scoped(&outside).on_store_error(OnStoreError::Run);
    let service = Service::start(app.layer(outer.build())).await;
    store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    let first = service.send(keyed("/orders", "a"), "").await;
    let second = service.send(keyed("/orders", "a"), "").await;
    assert_eq!((first.is_replay(), second.is_replay()), (false, true));
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_request_with_a_key_needs_a_known_route() {
    let orders = Orders::default();
    let fallback = || {
        let placed = orders.clone();
        let place = move || async move { placed.place().to_string() };
        Router::new().fallback(place)
    };
    let service = Service::start(fallback().layer(layer())).await;
    let refused = service.send(keyed("/unknown", "a"), "").await;
    assert_eq!(refused.refusal(), (500, "route_unknown".to_owned()));
    let title = "The server does not know the route of the request";
    assert_eq!(refused.problem()["title"], title);
    assert_eq!(service.send(post("/unknown"), "").await.text(), "1");
    let named: IdempotencyLayer = scoped(&idempotency()).route("/{path}").build();
    let service = Service::start(fallback().layer(named)).await;
    assert_eq!(service.send(keyed("/unknown", "a"), "").await.text(), "2");
    assert!(service.send(keyed("/unknown", "a"), "").await.is_replay());
}

#[tokio::test]
async fn a_handler_learns_its_endpoint_and_its_key() {
    let show = |request: Request| async move {
        let context = request.extensions().get::<IdempotencyContext>();
        let shown =
            |context: &IdempotencyContext| format!("{} {}", context.endpoint(), context.key());
        context.map_or_else(|| "unguarded".to_owned(), shown)
    };
    let app = Router::new().route("/orders/{id}/pay", on_post(show));
    let service = Service::start(app.layer(layer())).await;
    let shown = service.send(keyed("/orders/7/pay", "secret"), "").await;
    let (endpoint, key) = shown.text().rsplit_once(' ').unwrap();
    assert_eq!(endpoint, "POST /orders/{id}/pay");
    assert_eq!(key.len(), 32);
    assert!(key.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let unguarded = service.send(post("/orders/7/pay"), "").await;
    assert_eq!(unguarded.text(), "unguarded");
}

/// A shop under `/shop`, whose payments need a key by the route that `for_route` gets.
async fn nested_shop(idempotency: &Idempotency, route: &str) -> (Service, IdempotencyLayer) {
    let layer = scoped(idempotency)
        .for_route(route, RouteOptions::require_key)
        .build();
    let app = Router::new().nest("/shop", routes(&Orders::default()));
    (Service::start(app.layer(layer.clone())).await, layer)
}

#[tokio::test]
async fn a_route_of_for_route_without_a_request_is_found() {
    for (route, similar) in [
        // Without the prefix of `nest`, misspelled, and of another program.
        ("/orders/{id}/pay", true),
        ("/shop/orders/{id}/pya", true),
        ("/refunds", false),
    ] {
        let idempotency = idempotency();
        let (service, layer) = nested_shop(&idempotency, route).await;
        let findings = async || {
            let diagnosis = idempotency.doctor().await;
            let findings = diagnosis.findings().iter();
            let findings = findings.filter(|finding| finding.found().contains("for_route"));
            let found = |finding: &Finding| (finding.level(), finding.found().to_owned());
            findings.map(found).collect::<Vec<_>>()
        };
        assert_eq!(
            (layer.unmatched_routes().len(), findings().await.len()),
            (0, 0)
        );
        // The route loses its option.
        let unguarded = service.send(post("/shop/orders/1/pay"), "").await;
        assert_eq!(unguarded.status, StatusCode::OK);
        assert_eq!(layer.unmatched_routes(), [route]);
        let found = findings().await;
        assert_eq!(found.len(), 1);
        let (level, found) = &found[0];
        assert!(
            found.contains(&format!("`for_route(\"{route}\", …)`")),
            "{found}"
        );
        let names_similar = found.contains("`/shop/orders/{id}/pay`");
        let expected = if similar { Level::Problem } else { Level::Note };
        assert_eq!((*level, names_similar), (expected, similar), "{found}");
    }
}

#[tokio::test]
async fn a_route_of_for_route_with_a_request_is_no_finding() {
    let idempotency = idempotency();
    let (service, layer) = nested_shop(&idempotency, "/shop/orders/{id}/pay").await;
    service.send(post("/shop/orders"), "").await;
    assert_eq!(layer.unmatched_routes(), ["/shop/orders/{id}/pay"]);
    let refused = service.send(post("/shop/orders/1/pay"), "").await;
    let code = "idempotency_key_missing".to_owned();
    assert_eq!(refused.refusal(), (400, code));
    assert_eq!(layer.unmatched_routes(), [""; 0]);
    let diagnosis = idempotency.doctor().await.to_string();
    assert!(!diagnosis.contains("for_route"), "{diagnosis}");
}

#[tokio::test]
async fn a_similar_route_without_its_options_is_one_warning() {
    let log = LogCapture::start();
    let (service, _) = nested_shop(&idempotency(), "/orders/{id}/pay").await;
    for _ in 0..2 {
        service.send(post("/shop/orders/1/pay"), "").await;
    }
    let expected = "`for_route(\"/orders/{id}/pay\", …)` has had no guarded request yet, but a request has the route \
                    `/shop/orders/{id}/pay`, which has no options of its own; \
                    write the whole route as the router matches it, with the prefixes of `Router::nest`";
    assert_eq!(log.warnings(), [expected]);
}

#[test]
fn a_route_that_no_request_can_have_is_refused_at_the_start() {
    for route in ["POST /orders", "orders/{id}", "/orders /pay", "orders"] {
        let built = std::panic::catch_unwind(|| {
            let layer = scoped(&idempotency()).for_route(route, RouteOptions::require_key);
            layer.build()
        });
        assert!(built.is_err(), "{route}");
    }
    let named = scoped(&idempotency()).for_route("orders", RouteOptions::require_key);
    drop(named.route("orders").build());
}

#[tokio::test]
async fn a_handler_that_runs_again_sends_the_same_key_to_another_service() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move |request: Request| async move {
        let context = request.extensions().get::<IdempotencyContext>();
        let key = context.map(|context| {
            assert!(context.is_guarded());
            assert!(context.lease_remaining().is_some());
            context.downstream_key("bank.charge")
        });
        let status = match placed.place() {
            1 => StatusCode::SERVICE_UNAVAILABLE, // frees the key
            _ => StatusCode::OK,
        };
        (status, key.unwrap_or_default())
    };
    let app = Router::new().route("/orders", on_post(place));
    let service = Service::start(app.layer(layer())).await;
    let failed = service.send(keyed("/orders", "a"), "").await;
    assert_eq!(failed.status, StatusCode::SERVICE_UNAVAILABLE);
    let again = service.send(keyed("/orders", "a"), "").await;
    assert!(!again.is_replay());
    assert_eq!(again.text(), failed.text());
    assert_eq!(again.text().len(), 36);
    let other = service.send(keyed("/orders", "b"), "").await;
    assert_ne!(other.text(), again.text());
    assert_eq!(orders.count(), 3);
}

#[derive(Debug)]
struct NoCarrier;

impl From<Error> for NoCarrier {
    fn from(_: Error) -> Self {
        Self
    }
}

#[tokio::test]
async fn a_handler_that_runs_again_does_not_repeat_its_steps() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move |request: Request| async move {
        let context = request.extensions().get::<IdempotencyContext>().unwrap();
        let charged = context.step("charge", async || Ok::<_, NoCarrier>(placed.place()));
        let charged = charged.await.unwrap();
        let shipped = context.step("ship", async || match placed.place() {
            2 => Err(NoCarrier),
            parcel => Ok(parcel),
        });
        match shipped.await {
            Ok(parcel) => (StatusCode::OK, format!("charge {charged}, parcel {parcel}")),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, String::new()), // frees the key
        }
    };
    let app = Router::new().route("/orders", on_post(place));
    let service = Service::start(app.layer(layer())).await;
    let failed = service.send(keyed("/orders", "a"), "").await;
    assert_eq!(failed.status, StatusCode::SERVICE_UNAVAILABLE);
    let again = service.send(keyed("/orders", "a"), "").await;
    assert_eq!(again.text(), "charge 1, parcel 3");
    assert_eq!(orders.count(), 3);
}
