//! A layer outside of this layer that compresses responses.

use std::io::Read as _;

use axum::Router;
use axum::routing::post as on_post;
use flate2::read::GzDecoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use tower_http::compression::CompressionLayer;

use support::http_client::{Orders, Reply, Service, keyed, layer};

fn is_gzip(reply: &Reply) -> bool {
    reply
        .headers
        .get(CONTENT_ENCODING)
        .is_some_and(|encoding| encoding == "gzip")
}

/// The text of a response, decoded if it is compressed.
fn decoded(reply: &Reply) -> String {
    let mut text = String::new();
    if is_gzip(reply) {
        let mut decoder = GzDecoder::new(&*reply.body);
        decoder.read_to_string(&mut text).expect("gzip");
    } else {
        text.push_str(reply.text());
    }
    text
}

#[tokio::test]
async fn a_replay_is_compressed_for_the_client_that_repeats_the_request() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { format!("order {:.>2000}", placed.place()) };
    let app = Router::new()
        .route("/", on_post(place))
        .layer(layer())
        .layer(CompressionLayer::new().gzip(true));
    let service = Service::start(app).await;

    for (key, first_accepts) in [("a", "gzip"), ("b", "identity")] {
        let mut texts = Vec::new();
        for accepts in [first_accepts, "gzip", "identity", "gzip"] {
            let request = keyed("/", key).header(ACCEPT_ENCODING, accepts);
            let reply = service.send(request, "").await;
            assert_eq!(reply.is_replay(), !texts.is_empty(), "{key} {accepts}");
            assert_eq!(is_gzip(&reply), accepts == "gzip", "{key}");
            assert_eq!(is_gzip(&reply), reply.body.len() < 2000, "{key}");
            assert_eq!(reply.headers[CONTENT_TYPE], "text/plain; charset=utf-8");
            texts.push(decoded(&reply));
        }
        texts.dedup();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert_eq!(texts[0].len(), 2006);
    }
    assert_eq!(orders.count(), 2);
}
