//! Large bodies, streams, and bodies that break off.

use std::io;
use std::pin::Pin;

use actix_web::dev::{Service as _, ServiceRequest};
use actix_web::error::PayloadError;
use actix_web::{HttpResponse, ResponseError as _, web};
use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use idempotence::http::RouteOptions;

use crate::shop::{BOTH, Shop, serve};
use support::http_client::{Reply, idempotency, keyed, layer, scoped, within};

/// Asserts that the first client gets a body of this length, and the others where the result is.
async fn assert_tombstone(shop: &Shop, path: &str, length: usize) {
    let first = shop.service.send(keyed(path, "a"), "").await;
    assert_eq!((first.status.as_u16(), first.body.len()), (201, length));
    for _ in 0..2 {
        let refused = shop.service.send(keyed(path, "a"), "").await;
        assert_eq!(refused.refusal(), (409, "result_unavailable".to_owned()));
        assert_eq!(refused.headers["location"], "/orders/1");
    }
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn a_stream_passes_and_leaves_a_tombstone() {
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        assert_tombstone(&shop, "/stream/event-stream/2", 20).await;
        let routes =
            scoped(&idempotency()).for_route("/stream/{kind}/{count}", RouteOptions::stream);
        let shop = Shop::start(server, &routes.build()).await;
        assert_tombstone(&shop, "/stream/plain/2", 20).await;
    }
}

#[tokio::test]
async fn a_response_of_unknown_length_is_stored_up_to_the_limit() {
    for server in BOTH {
        let limited = || scoped(&idempotency()).response_limit(20).build();
        let shop = Shop::start(server, &limited()).await;
        let first = shop.service.send(keyed("/stream/plain/2", "a"), "").await;
        let replay = shop.service.send(keyed("/stream/plain/2", "a"), "").await;
        assert_eq!((replay.is_replay(), first.body.len()), (true, 20));
        assert_eq!(replay.body, first.body, "{server:?}");
        let shop = Shop::start(server, &limited()).await;
        assert_tombstone(&shop, "/stream/plain/3", 30).await;
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_leaves_a_tombstone() {
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        let request = keyed("/broken", "a").body(Body::empty()).unwrap();
        let (response, _) = shop.service.connect(request).await;
        if let Ok(response) = within(response).await {
            assert!(response.into_body().collect().await.is_err());
        }
        let refused = shop.service.send(keyed("/broken", "a"), "").await;
        assert_eq!(refused.refusal(), (409, "result_unavailable".to_owned()));
        assert_eq!(shop.runs(), 1, "{server:?}");
    }
}

#[tokio::test]
async fn an_empty_response_is_replayed_empty() {
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        for is_replay in [false, true] {
            let reply = shop.service.send(keyed("/status/204", "a"), "").await;
            assert_eq!((reply.status.as_u16(), reply.body.len()), (204, 0));
            assert_eq!(reply.is_replay(), is_replay, "{server:?}");
        }
    }
}

/// Replaces the body by the error that a header names.
fn break_body(request: &mut ServiceRequest) {
    let error = match request.headers().get("x-error").unwrap().to_str().unwrap() {
        "overflow" => PayloadError::Overflow,
        "encoding" => PayloadError::EncodingCorrupted,
        "incomplete" => PayloadError::Incomplete(Some(io::ErrorKind::BrokenPipe.into())),
        _ => PayloadError::Io(io::ErrorKind::BrokenPipe.into()),
    };
    let broken: Pin<Box<dyn Stream<Item = _>>> = Box::pin(stream::iter([Err(error)]));
    request.set_payload(broken.into());
}

/// A body passes as it is if an outer layer has the key. Its error then has its own status.
#[tokio::test]
async fn the_error_of_a_body_keeps_its_kind() {
    let layer = layer();
    let service = serve(move |routes| {
        let read = async |mut payload: web::Payload| {
            let error = payload.next().await.unwrap().unwrap_err();
            HttpResponse::build(error.status_code()).body(format!("{error:?}"))
        };
        let broken = |path| {
            let resource = web::resource(path).wrap(layer.clone());
            resource.wrap_fn(|mut request, service| {
                break_body(&mut request);
                service.call(request)
            })
        };
        routes.service(broken("/read").to(read));
        routes.service(broken("/passed").wrap(layer.clone()).to(read));
    })
    .await;
    for (error, status, kind) in [
        ("overflow", 413, "Overflow"),
        ("encoding", 400, "EncodingCorrupted"),
        ("incomplete", 400, "Incomplete(Some(Kind(BrokenPipe)))"),
        ("io", 400, "Io(Kind(BrokenPipe))"),
    ] {
        let send = |path| service.send(keyed(path, error).header("x-error", error), "");
        let passed = send("/passed").await;
        assert_eq!((passed.status.as_u16(), passed.text()), (status, kind));
        assert_eq!(send("/read").await.refusal().0, status, "{error}");
    }
}

/// A body of these chunks, whose length the request does not say.
fn chunked(chunks: &'static [&'static str]) -> Body {
    let chunks = chunks
        .iter()
        .map(|chunk| Ok::<_, std::io::Error>(Bytes::from(*chunk)));
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn a_body_in_chunks_is_one_payload_and_its_limit_counts_all_chunks() {
    for server in BOTH {
        let limited = scoped(&idempotency()).request_limit(4).build();
        let shop = Shop::start(server, &limited).await;
        for (chunks, key, expected) in [
            (&["12", "34"][..], "a", (201, false)),
            (&["1", "23", "4"][..], "a", (201, true)),
            (&["12", "35"][..], "a", (422, false)),
            (&["123", "45"][..], "b", (413, false)),
        ] {
            let request = keyed("/orders", key).body(chunked(chunks)).unwrap();
            let (response, _) = shop.service.begin(request).await;
            let reply = Reply::read(response).await;
            let seen = (reply.status.as_u16(), reply.is_replay());
            assert_eq!(seen, expected, "{server:?} {chunks:?}");
        }
        assert_eq!(shop.runs(), 1);
    }
}

#[tokio::test]
async fn a_half_sent_upload_takes_no_key() {
    for server in BOTH {
        let shop = Shop::start(server, &layer()).await;
        let begun = stream::iter([Ok::<_, std::io::Error>(Bytes::from("{"))]);
        let endless = futures_util::StreamExt::chain(begun, stream::pending());
        let upload = keyed("/orders", "a")
            .body(Body::from_stream(endless))
            .unwrap();
        let (response, connection) = shop.service.connect(upload).await;
        let response = tokio::spawn(response);
        // The same key, while the upload is open.
        let reply = within(shop.service.send(keyed("/orders", "a"), "{}")).await;
        assert_eq!((reply.status.as_u16(), shop.runs()), (201, 1), "{server:?}");
        connection.abort();
        assert!(within(response).await.unwrap().is_err());
    }
}
