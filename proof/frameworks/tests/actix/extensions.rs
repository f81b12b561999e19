//! What a handler and the layers around it tell each other.

use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Service as _, ServiceResponse};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, web};
use futures_util::{FutureExt as _, StreamExt as _};
use idempotence::http::{
    Decision, IdempotencyContext, IdempotencyLayer, IdempotencyOutcome, KeySource,
};
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Error, Idempotency, MemoryStore, StoreErrorKind};

use crate::shop::{BOTH, Shop, User, serve};
use support::http_client::{Orders, Service, idempotency, keyed, scoped};

#[tokio::test]
async fn the_caller_may_be_an_extension_of_the_request() {
    for server in BOTH {
        let handle = idempotency();
        let layer = IdempotencyLayer::builder(&handle)
            .scope_by_extension(|user: &User| user.0.clone())
            .build();
        let shop = Shop::start(server, &layer).await;
        let by = |user: &'static str| keyed("/orders", "a").header("x-user", user);
        for (user, is_replay) in [("ada", false), ("bob", false), ("ada", true), ("bob", true)] {
            let reply = shop.service.send(by(user), "").await;
            assert_eq!(reply.is_replay(), is_replay, "{server:?} {user}");
        }
        let nobody = shop.service.send(keyed("/orders", "a"), "").await;
        assert_eq!(nobody.refusal(), (400, "scope_missing".to_owned()));
        let key = ("extension", "ada", "a");
        let found = handle.peek("POST /orders", &key).await.unwrap();
        assert!(found.is_some(), "{server:?}");
    }
}

async fn place(
    orders: web::Data<Orders>,
    context: Option<web::ReqData<IdempotencyContext>>,
) -> String {
    let context = context.map(|context| context.endpoint().to_string());
    format!("{} {}", orders.place(), context.unwrap_or_default())
}

fn show<B>(response: &mut ServiceResponse<B>) {
    let extensions = response.response().extensions();
    let outcome = extensions.get::<IdempotencyOutcome>();
    let mut shown = outcome.map_or("none".to_owned(), |outcome| format!("{outcome:?}"));
    if let Some(error) = extensions.get::<Arc<Error>>() {
        shown = format!("{shown} {}", error.code());
    }
    drop(extensions);
    let shown = shown.split(" {").next().unwrap().parse().unwrap();
    let name = actix_web::http::header::HeaderName::from_static("x-outcome");
    response.headers_mut().insert(name, shown);
}

/// A server whose outer middleware shows the outcome in a header.
async fn shown(layer: IdempotencyLayer) -> Service {
    let data = web::Data::new(Orders::default());
    serve(move |routes| {
        let resource = web::resource("/orders").wrap(layer.clone());
        let resource = resource.wrap_fn(|request, service| {
            service.call(request).map(|response| {
                response.map(|mut response| {
                    show(&mut response);
                    response
                })
            })
        });
        routes
            .app_data(data.clone())
            .service(resource.route(web::post().to(place)));
    })
    .await
}

#[tokio::test]
async fn a_handler_knows_its_call_and_an_outer_middleware_the_outcome() {
    let service = shown(scoped(&idempotency()).build()).await;
    for (key, body, text, outcome) in [
        (None, "", Some("1 "), "none"),
        (Some("a"), "", Some("2 POST /orders"), "Stored"),
        (Some("a"), "", Some("2 POST /orders"), "Replayed"),
        (Some("a"), "other", None, "Refused payload_mismatch"),
    ] {
        let request = key.map_or_else(
            || support::http_client::post("/orders"),
            |key| keyed("/orders", key),
        );
        let reply = service.send(request, body).await;
        assert_eq!(reply.headers["x-outcome"], outcome);
        if let Some(text) = text {
            assert_eq!(reply.text(), text);
        }
    }
}

/// The refusal of an inner layer is true only at its moment, so an outer layer must not store it.
#[tokio::test]
async fn the_refusal_of_an_inner_layer_is_not_stored_by_an_outer_layer() {
    let inner = scoped(&idempotency())
        .key_from(KeySource::header("x-inner".parse().unwrap()))
        .build();
    let outer = scoped(&idempotency()).build();
    let service = serve(move |routes| {
        let resource = web::resource("/orders").wrap(inner.clone());
        let resource = resource.wrap(outer.clone()).to(async || {
            let mut response = HttpResponse::Ok().finish();
            response.extensions_mut().insert(Decision::Hold);
            response
        });
        routes.service(resource);
    })
    .await;
    let send = |key| service.send(keyed("/orders", key).header("x-inner", "i"), "");
    assert_eq!(send("a").await.status, 200);
    for _ in 0..2 {
        let refused = send("b").await;
        assert_eq!(refused.refusal(), (409, "outcome_unknown".to_owned()));
        assert!(!refused.is_replay());
    }
}

async fn endless() -> HttpResponse {
    std::future::pending().await
}

/// A response whose body does not end.
async fn stream() -> HttpResponse {
    let chunk = futures_util::stream::once(async { Ok::<_, Error>("tea".into()) });
    HttpResponse::Created().streaming(chunk.chain(futures_util::stream::pending()))
}

#[tokio::test]
async fn a_handler_that_loses_its_lease_is_stopped_and_the_answer_is_500() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let lease = Duration::from_millis(300);
    let layer = scoped(&Idempotency::new(store)).lease(lease).build();
    let service = serve(move |routes| {
        let resource = |path| web::resource(path).wrap(layer.clone());
        routes.service(resource("/orders").route(web::post().to(endless)));
        routes.service(resource("/streams").route(web::post().to(stream)));
    })
    .await;
    for path in ["/orders", "/streams"] {
        let lost = support::http_client::within(service.send(keyed(path, "a"), "")).await;
        assert_eq!(lost.refusal(), (500, "lease_lost".to_owned()), "{path}");
    }
}

/// What the handler has beside its head and its body stays in its response.
#[tokio::test]
async fn a_response_keeps_its_own_extensions() {
    struct Mine;
    async fn mine(_: HttpRequest) -> HttpResponse {
        let mut response = HttpResponse::Ok().finish();
        response.extensions_mut().insert(Mine);
        response
    }
    let layer = scoped(&idempotency()).build();
    let service = serve(move |routes| {
        let resource = web::resource("/orders").wrap(layer.clone());
        let resource = resource.wrap_fn(|request, service| {
            request.extensions_mut().insert(Mine);
            service.call(request).map(|response| {
                let mut response = response?;
                let kept = response.response().extensions().get::<Mine>().is_some()
                    && response.request().extensions().get::<Mine>().is_some();
                let name = actix_web::http::header::HeaderName::from_static("x-mine");
                response.headers_mut().insert(name, u16::from(kept).into());
                Ok(response)
            })
        });
        routes.service(resource.route(web::post().to(mine)));
    })
    .await;
    for is_first in [true, false] {
        let reply = service.send(keyed("/orders", "a"), "").await;
        assert_eq!(reply.headers["x-mine"], if is_first { "1" } else { "0" });
        assert_eq!(reply.is_replay(), !is_first);
    }
}
