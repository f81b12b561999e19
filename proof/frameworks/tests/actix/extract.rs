//! Extractors and results of handlers in actix.

use std::time::Duration;

use actix_web::{HttpResponse, web};
use futures_util::StreamExt as _;
use idempotence::integrations::actix::{IdempotencyKey, OptionalIdempotencyKey, refusal};
use idempotent_runtime::{Error, Idempotency, Lang, MemoryStore, Once, RequestId};
use serde::Deserialize;

use crate::shop::serve;
use support::http_client::{Orders, Reply, Service, idempotency, keyed, layer, post, scoped};

#[derive(Deserialize)]
struct Order {
    cents: u64,
}

async fn json(order: web::Json<Order>) -> String {
    format!("json {}", order.cents)
}

async fn form(order: web::Form<Order>) -> String {
    format!("form {}", order.cents)
}

async fn bytes(bytes: web::Bytes) -> String {
    format!("bytes {}", bytes.len())
}

async fn stream(mut payload: web::Payload) -> String {
    let (mut chunks, mut size) = (0, 0);
    while let Some(chunk) = payload.next().await {
        chunks += 1;
        size += chunk.unwrap().len();
    }
    format!("stream {size} {}", chunks.min(1))
}

#[tokio::test]
async fn every_extractor_reads_the_body_that_the_layer_has_read() {
    let layer = layer();
    let service = serve(move |routes| {
        let scope = web::scope("").wrap(layer.clone());
        let scope = scope
            .route("/json", web::post().to(json))
            .route("/form", web::post().to(form))
            .route("/bytes", web::post().to(bytes))
            .route("/stream", web::post().to(stream));
        routes.service(scope);
    })
    .await;
    for (path, content_type, body, text) in [
        ("/json", "application/json", r#"{"cents":5}"#, "json 5"),
        (
            "/form",
            "application/x-www-form-urlencoded",
            "cents=5",
            "form 5",
        ),
        ("/bytes", "text/plain", "12345", "bytes 5"),
        ("/stream", "text/plain", "12345", "stream 5 1"),
        ("/stream", "text/csv", "", "stream 0 0"),
    ] {
        for (request, is_replay) in [
            (post(path), false),
            (keyed(path, content_type), false),
            (keyed(path, content_type), true),
        ] {
            let request = request.header("content-type", content_type);
            let reply = service.send(request, body).await;
            assert_eq!((reply.text(), reply.is_replay()), (text, is_replay));
        }
    }
    // A body that its extractor refuses frees the key.
    for (body, status) in [("{", 400), (r#"{"cents":5}"#, 200)] {
        let request = keyed("/json", "k").header("content-type", "application/json");
        assert_eq!(service.send(request, body).await.status, status);
    }
}

async fn by_key(key: IdempotencyKey) -> String {
    key.0
}

async fn by_optional_key(OptionalIdempotencyKey(key): OptionalIdempotencyKey) -> String {
    key.map_or("none".to_owned(), |key| key.0)
}

async fn by_request_id(id: RequestId) -> String {
    id.to_string()
}

#[tokio::test]
async fn a_header_is_extracted_or_refused() {
    let service = serve(|routes| {
        routes
            .route("/key", web::post().to(by_key))
            .route("/optional", web::post().to(by_optional_key))
            .route("/id", web::post().to(by_request_id));
    })
    .await;
    let refused = |code: &str| Err((400, code.to_owned()));
    for (request, expected) in [
        (keyed("/key", "\"a\""), Ok("a")),
        (post("/key"), refused("idempotency_key_missing")),
        (keyed("/key", "a b"), refused("idempotency_key_malformed")),
        (keyed("/optional", "a"), Ok("a")),
        (post("/optional"), Ok("none")),
        (
            keyed("/optional", "a b"),
            refused("idempotency_key_malformed"),
        ),
        (
            keyed("/optional", "a").header("idempotency-key", "b"),
            refused("idempotency_key_repeated"),
        ),
        (post("/id").header("x-request-id", "r"), Ok("r")),
        (post("/id"), refused("request_id_missing")),
    ] {
        let reply = service.send(request, "").await;
        match expected {
            Ok(text) => assert_eq!(reply.text(), text),
            Err(expected) => assert_eq!(reply.refusal(), expected),
        }
    }
    let chinese = post("/key").header("accept-language", "zh-CN");
    let chinese = service.send(chinese, "").await;
    assert_eq!(chinese.headers["content-language"], "zh-Hans");
}

/// A handler that makes a guarded call of its own.
async fn charge(
    handle: web::Data<Idempotency>,
    charges: web::Data<Orders>,
) -> Result<Once<web::Json<usize>>, Error> {
    let call = handle
        .call("bank.charge")
        .key(&7)
        .ttl(Duration::from_mins(1));
    let charge = async { Ok::<_, Error>(Once::Executed(web::Json(charges.place()))) };
    call.replay().run(charge).await
}

async fn refuse(handle: web::Data<Idempotency>, lang: Lang) -> HttpResponse {
    let call = handle
        .call("bank.refuse")
        .key(&7)
        .ttl(Duration::from_mins(1));
    let first = call.run(async { Ok::<_, Error>(()) }).await;
    match first {
        Ok(()) => HttpResponse::Ok().finish(),
        Err(error) => refusal(error, lang),
    }
}

/// A server of the two handlers, behind a layer on another handle.
async fn bank() -> (Service, Orders) {
    let charges = Orders::default();
    let (handle, data) = (
        Idempotency::new(MemoryStore::new()),
        web::Data::new(charges.clone()),
    );
    let layer = scoped(&idempotency()).build();
    let service = serve(move |routes| {
        let scope = web::scope("").wrap(layer.clone());
        let scope = scope
            .app_data(data.clone())
            .app_data(web::Data::new(handle.clone()))
            .route("/charge", web::post().to(charge))
            .route("/refuse", web::post().to(refuse));
        routes.service(scope);
    })
    .await;
    (service, charges)
}

#[tokio::test]
async fn a_replayed_result_of_a_call_is_marked() {
    let (service, charges) = bank().await;
    for is_replay in [false, true] {
        let reply: Reply = service.send(post("/charge"), "").await;
        assert_eq!((reply.text(), reply.is_replay()), ("1", is_replay));
    }
    assert_eq!(charges.count(), 1);
}

#[tokio::test]
async fn a_refused_call_of_a_handler_frees_the_key_of_its_request() {
    let (service, _) = bank().await;
    assert_eq!(service.send(post("/refuse"), "").await.status, 200);
    for _ in 0..2 {
        // 409 would be stored otherwise.
        let request = keyed("/refuse", "a").header("accept-language", "zh-CN");
        let refused = service.send(request, "").await;
        assert_eq!(refused.refusal(), (409, "already_done".to_owned()));
        assert_eq!(refused.headers["content-language"], "zh-Hans");
        assert!(!refused.is_replay());
    }
}
