//! Routes of actix as names of endpoints.

use actix_web::{HttpResponse, web};
use idempotence::http::{IdempotencyLayer, RouteOptions};

use crate::shop::{BOTH, Server, Shop, serve};
use support::http_client::{Orders, idempotency, keyed, layer, post, scoped};

#[tokio::test]
async fn nested_routes_with_equal_tails_have_their_own_keys_and_names() {
    for server in BOTH {
        let handle = idempotency();
        let shop = Shop::start(server, &scoped(&handle).build()).await;
        for path in ["/a/orders/7", "/b/orders/7"] {
            for is_replay in [false, true] {
                let reply = shop.service.send(keyed(path, "a"), "").await;
                assert_eq!(reply.is_replay(), is_replay, "{server:?} {path}");
            }
        }
        // Another order by the same key is another payload of the same endpoint.
        let other = shop.service.send(keyed("/a/orders/8", "a"), "").await;
        assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
        let key = ("header", "authorization", ["alice".as_bytes()], "a");
        for route in ["POST /a/orders/{id}", "POST /b/orders/{id}"] {
            let found = handle.peek(route, &key).await.unwrap();
            assert!(found.is_some(), "{server:?} {route}");
        }
    }
}

#[tokio::test]
async fn a_route_has_its_options_and_a_misspelled_route_is_reported() {
    for server in BOTH {
        let layer = scoped(&idempotency())
            .for_route("/a/orders/{id}", RouteOptions::require_key)
            .for_route("/b/orders/{id}", RouteOptions::unguarded)
            .for_route("/orders/{id}", RouteOptions::require_key)
            .build();
        let shop = Shop::start(server, &layer).await;
        let missing = shop.service.send(post("/a/orders/7"), "").await;
        let code = "idempotency_key_missing".to_owned();
        assert_eq!(missing.refusal(), (400, code), "{server:?}");
        for _ in 0..2 {
            let unguarded = shop.service.send(keyed("/b/orders/7", "a"), "").await;
            assert!(!unguarded.is_replay());
        }
        assert_eq!(layer.unmatched_routes(), ["/orders/{id}"], "{server:?}");
    }
}

async fn place(orders: web::Data<Orders>) -> HttpResponse {
    HttpResponse::Ok().body(orders.place().to_string())
}

/// Where a layer of actix may be.
#[tokio::test]
async fn an_app_a_scope_and_a_resource_may_be_wrapped() {
    let orders = Orders::default();
    let data = web::Data::new(orders.clone());
    let (resource, scope) = (layer(), layer());
    let service = serve(move |routes| {
        let resource = web::resource("/single").wrap(resource.clone());
        let nested = web::scope("/shop/{shop}").wrap(scope.clone());
        routes
            .app_data(data.clone())
            .service(resource.route(web::post().to(place)))
            .service(nested.route("/orders", web::post().to(place)))
            .route("/unguarded", web::post().to(place));
    })
    .await;
    for (path, is_guarded) in [
        ("/single", true),
        ("/shop/7/orders", true),
        ("/unguarded", false),
    ] {
        let first = service.send(keyed(path, "a"), "").await;
        let again = service.send(keyed(path, "a"), "").await;
        assert_eq!(
            (first.is_replay(), again.is_replay()),
            (false, is_guarded),
            "{path}"
        );
    }
    assert_eq!(orders.count(), 4);
    // The parameter of the scope belongs to the payload.
    let other = service.send(keyed("/shop/8/orders", "a"), "").await;
    assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
    // Around a resource the layer does not see other paths.
    assert_eq!(service.send(keyed("/unknown", "a"), "").await.status, 404);
}

#[tokio::test]
async fn a_pattern_with_an_expression_is_a_route() {
    let data = web::Data::new(Orders::default());
    let handle = idempotency();
    let layer = scoped(&handle).build();
    let service = serve(move |routes| {
        let digits = web::resource(r"/orders/{id:\d+}/{tail:.*}").wrap(layer.clone());
        routes
            .app_data(data.clone())
            .service(digits.route(web::post().to(place)));
    })
    .await;
    for is_replay in [false, true] {
        let reply = service.send(keyed("/orders/7/a/b", "a"), "").await;
        assert_eq!(reply.is_replay(), is_replay, "{}", reply.text());
    }
    let key = ("header", "authorization", ["alice".as_bytes()], "a");
    let route = r"POST /orders/{id:\d+}/{tail:.*}";
    assert!(handle.peek(route, &key).await.unwrap().is_some());
}

#[tokio::test]
async fn a_layer_may_have_a_name_instead_of_a_route() {
    for server in BOTH {
        let layer = IdempotencyLayer::builder(&idempotency()).global_scope();
        let shop = Shop::start(server, &layer.route("fallback").build()).await;
        let unknown = shop.service.send(keyed("/unknown", "a"), "").await;
        assert_eq!(unknown.status, 404, "{server:?}");
    }
}

/// An inner layer with the same handle passes what an outer layer has claimed.
#[tokio::test]
async fn a_request_that_an_outer_layer_guards_is_not_guarded_again() {
    let data = web::Data::new(Orders::default());
    let handle = idempotency();
    let (outer, inner) = (scoped(&handle).build(), scoped(&handle).build());
    let service = serve(move |routes| {
        let resource = web::resource("/orders")
            .wrap(inner.clone())
            .wrap(outer.clone());
        routes
            .app_data(data.clone())
            .service(resource.route(web::post().to(place)));
    })
    .await;
    for is_replay in [false, true] {
        let reply = service.send(keyed("/orders", "a"), "").await;
        assert_eq!((reply.text(), reply.is_replay()), ("1", is_replay));
    }
}

#[tokio::test]
async fn two_servers_of_one_handle_share_a_key() {
    let handle = idempotency();
    let layer = scoped(&handle).build();
    let first = Shop::start(Server::Actix, &layer).await;
    let second = Shop::start(Server::Actix, &layer).await;
    first.service.send(keyed("/orders", "a"), "").await;
    let replay = second.service.send(keyed("/orders", "a"), "").await;
    assert_eq!((replay.is_replay(), second.runs()), (true, 0));
}
