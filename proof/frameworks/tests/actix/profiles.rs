//! The conventions of public APIs.

use std::time::Duration;

use actix_web::web;
use http::request::Builder;
use idempotence::http::Profile;
use idempotence::integrations::actix::{IdempotencyKey, refusal, refusal_as};
use idempotent_runtime::{Error, Lang};
use serde_json::Value;

use crate::shop::{BOTH, Shop, serve};
use support::http_client::{Reply, idempotency, keyed, post, scoped};

const UUID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

/// A request and its body.
type Sent = (fn() -> Builder, &'static str);

/// Sends requests to a shop with this convention, on both servers. The replies must be equal but for their times.
async fn replies(profile: Profile, requests: &[Sent]) -> Vec<Reply> {
    let mut by_server = Vec::new();
    for server in BOTH {
        let layer = scoped(&idempotency()).profile(profile).build();
        let shop = Shop::start(server, &layer).await;
        let mut replies = Vec::new();
        for (request, body) in requests {
            replies.push(shop.service.send(request(), body).await);
        }
        by_server.push(replies);
    }
    let (actix, axum) = (by_server.pop().unwrap(), by_server.pop().unwrap());
    for (axum, actix) in axum.iter().zip(&actix) {
        let seen = |reply: &Reply| (reply.status, reply.body.clone());
        assert_eq!(seen(axum), seen(actix), "{profile:?}");
        for name in axum.headers.keys().filter(|name| *name != "date") {
            let values =
                |reply: &Reply| -> Vec<_> { reply.headers.get_all(name).iter().cloned().collect() };
            assert_eq!(values(axum), values(actix), "{profile:?} {name}");
        }
    }
    actix
}

fn stripe() -> Builder {
    keyed("/orders", "a")
}

#[tokio::test]
async fn stripe_refuses_another_payload_with_400_and_stores_failures() {
    let replies = replies(
        Profile::Stripe,
        &[
            (stripe, "{}"),
            (stripe, "{}"),
            (stripe, "{ }"),
            (|| keyed("/status/500", "b"), "{}"),
            (|| keyed("/status/500", "b"), "{}"),
        ],
    )
    .await;
    let replayed = |reply: &Reply| reply.headers.contains_key("idempotent-replayed");
    let seen: Vec<_> = replies
        .iter()
        .map(|reply| (reply.status.as_u16(), replayed(reply)))
        .collect();
    assert_eq!(
        seen,
        [
            (201, false),
            (201, true),
            (400, false),
            (500, false),
            (500, true)
        ]
    );
    let error: Value = serde_json::from_slice(&replies[2].body).unwrap();
    assert_eq!(error["error"]["type"], "idempotency_error");
}

#[tokio::test]
async fn acp_needs_a_key_and_echoes_it() {
    let replies = replies(
        Profile::Acp,
        &[(|| post("/orders"), "{}"), (stripe, "{}"), (stripe, "{ }")],
    )
    .await;
    let echo = |reply: &Reply| reply.headers.get("idempotency-key").cloned();
    assert_eq!((replies[0].status.as_u16(), echo(&replies[0])), (400, None));
    assert_eq!(replies[1].status, 201);
    assert_eq!(echo(&replies[1]).unwrap(), "a");
    assert_eq!(replies[2].status, 422);
}

fn repeatable(path: &str) -> Builder {
    let now = httpdate::fmt_http_date(std::time::SystemTime::now());
    let request = post(path).header("repeatability-request-id", UUID);
    request.header("repeatability-first-sent", now)
}

#[tokio::test]
async fn a_repeatable_request_is_accepted_or_unsupported() {
    let replies = replies(
        Profile::Repeatability,
        &[
            (|| repeatable("/orders"), "{}"),
            (|| repeatable("/orders"), "{}"),
            (|| repeatable("/orders").method("REPORT"), "{}"),
        ],
    )
    .await;
    let result = |reply: &Reply| reply.headers.get("repeatability-result").cloned();
    for reply in &replies[..2] {
        let seen = (reply.status.as_u16(), reply.text(), result(reply).unwrap());
        assert_eq!(seen, (201, "order 1 {}", "accepted".parse().unwrap()));
    }
    assert_eq!(replies[2].status, 501);
}

/// Always refused: the key has its work already.
async fn transfer() -> Result<&'static str, Error> {
    let idempotency = idempotency();
    let call = || {
        let call = idempotency.call("transfer").key(&7);
        call.ttl(Duration::from_mins(1))
            .run(async { Ok::<_, Error>("moved") })
    };
    call().await.ok();
    call().await
}

/// `stripe-node` 23 looks for the member `error`, and for nothing else.
#[tokio::test]
async fn a_refusal_of_an_inner_call_has_the_form_of_the_layer() {
    let layer = scoped(&idempotency()).profile(Profile::Stripe).build();
    let service = serve(move |routes| {
        let bank = web::scope("/v1")
            .route("/transfers", web::post().to(transfer))
            .route("/keyed", web::post().to(async |_: IdempotencyKey| "found"))
            .route(
                "/refused",
                web::post().to(async || refusal(transfer().await.unwrap_err(), Lang::ZhHans)),
            )
            .route(
                "/seen",
                web::get().to(async || refusal(transfer().await.unwrap_err(), Lang::En)),
            )
            .wrap(layer.clone());
        routes.service(bank);
        routes.route(
            "/outside",
            web::post()
                .to(async || refusal_as(transfer().await.unwrap_err(), Lang::En, Profile::Stripe)),
        );
    })
    .await;
    let get = |path| post(path).method("GET");
    for (request, status, code) in [
        (keyed("/v1/transfers", "a"), 409, "already_done"),
        (keyed("/v1/refused", "a"), 409, "already_done"),
        (post("/v1/transfers"), 409, "already_done"),
        (get("/v1/seen"), 409, "already_done"),
        (post("/v1/keyed"), 400, "idempotency_key_missing"),
        (post("/outside"), 409, "already_done"),
    ] {
        let reply = service.send(request, "amount=7").await;
        assert_eq!(reply.status, status, "{code}");
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(body["error"]["code"], code);
        assert_eq!(reply.headers["content-type"], "application/json");
        assert_eq!(reply.headers["stripe-should-retry"], "false");
    }
}
