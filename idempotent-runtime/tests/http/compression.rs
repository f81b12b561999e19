//! A layer outside of this layer that encodes responses.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::post as on_post;
use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http_body_util::BodyExt as _;

use crate::client::{Service, keyed, layer};

/// An encoding for clients that accept it: the bytes in the other order.
async fn encode(request: Request, next: Next) -> Response {
    let accepts = request.headers().contains_key(ACCEPT_ENCODING);
    let (mut head, body) = next.run(request).await.into_parts();
    if !accepts {
        return Response::from_parts(head, body);
    }
    let mut bytes = body.collect().await.unwrap().to_bytes().to_vec();
    bytes.reverse();
    head.headers.remove(CONTENT_LENGTH);
    head.headers
        .insert(CONTENT_ENCODING, HeaderValue::from_static("reversed"));
    Response::from_parts(head, Body::from(Bytes::from(bytes)))
}

#[tokio::test]
async fn a_replay_is_encoded_for_the_client_that_repeats_the_request() {
    let app = Router::new()
        .route("/", on_post(|| async { "abc" }))
        .layer(layer())
        .layer(middleware::from_fn(encode));
    let service = Service::start(app).await;
    let accepting = || keyed("/", "a").header(ACCEPT_ENCODING, "reversed");

    let first = service.send(accepting(), "").await;
    assert_eq!((first.text(), first.is_replay()), ("cba", false));
    assert_eq!(first.headers[CONTENT_ENCODING], "reversed");

    let plain = service.send(keyed("/", "a"), "").await;
    assert_eq!((plain.text(), plain.is_replay()), ("abc", true));
    assert!(!plain.headers.contains_key(CONTENT_ENCODING));

    let encoded = service.send(accepting(), "").await;
    assert_eq!((encoded.text(), encoded.is_replay()), ("cba", true));
    assert_eq!(encoded.headers[CONTENT_ENCODING], "reversed");
}
