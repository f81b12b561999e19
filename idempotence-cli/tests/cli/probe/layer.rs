//! The shop behind the layer of this workspace.

use std::net::SocketAddr;

use actix_web::{App, HttpResponse, HttpServer, web};
use axum::Router;
use axum::body::Bytes;
use axum::http::header::AUTHORIZATION;
use axum::routing::post;
use idempotence::http::{IdempotencyLayer, Payload, Profile};
use idempotence::{Idempotency, MemoryStore};

use super::shop::{Shop, serve};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Convention {
    Ietf,
    Stripe,
    Acp,
    Repeatability,
}

impl Convention {
    /// Each convention with its argument.
    pub(crate) const ALL: [(&str, Self); 4] = [
        ("ietf", Self::Ietf),
        ("stripe", Self::Stripe),
        ("acp", Self::Acp),
        ("repeatability", Self::Repeatability),
    ];

    fn layer(self) -> IdempotencyLayer {
        let idempotency = Idempotency::new(MemoryStore::new());
        let builder = IdempotencyLayer::builder(&idempotency).scope_by_header(AUTHORIZATION);
        match self {
            Self::Ietf => builder.require_key().build(),
            Self::Stripe => builder.profile(Profile::Stripe).build(),
            Self::Acp => builder
                .profile(Profile::Acp)
                .payload(Payload::json())
                .build(),
            Self::Repeatability => builder.profile(Profile::Repeatability).build(),
        }
    }
}

pub(crate) fn axum(convention: Convention) -> SocketAddr {
    let shop = Shop::default();
    serve(routes(&shop).route_layer(convention.layer()), &shop)
}

/// The shop without the layer.
pub(crate) fn unguarded() -> SocketAddr {
    let shop = Shop::default();
    serve(routes(&shop), &shop)
}

fn routes(shop: &Shop) -> Router {
    let shop = shop.clone();
    let order = post(async move |body: Bytes| shop.order(&body).await);
    Router::new()
        .route("/orders", order.clone())
        .route("/carts", order)
}

pub(crate) fn actix() -> SocketAddr {
    let (shop, layer) = (Shop::default(), Convention::Ietf.layer());
    let make = move || {
        App::new()
            .app_data(web::Data::new(shop.clone()))
            .route(
                "/count",
                web::get().to(async |shop: web::Data<Shop>| shop.count()),
            )
            .service(
                web::scope("")
                    .wrap(layer.clone())
                    .route("/orders", web::post().to(order))
                    .route("/carts", web::post().to(order)),
            )
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async {
            let server = HttpServer::new(make).workers(1).disable_signals();
            server.listen(listener).unwrap().run().await.unwrap();
        });
    });
    address
}

async fn order(shop: web::Data<Shop>, body: web::Bytes) -> HttpResponse {
    let response = shop.order(&body).await;
    let (head, body) = response.into_parts();
    let status = actix_web::http::StatusCode::from_u16(head.status.as_u16()).unwrap();
    let mut response = HttpResponse::build(status);
    for (name, value) in &head.headers {
        response.append_header((name.as_str(), value.as_bytes()));
    }
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    response.body(body)
}
