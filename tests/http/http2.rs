//! HTTP/2 without TLS: many requests on one connection, trailers, and requests that a client resets.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::post as on_post;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Version};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::disconnects::{Shop, shop};
use support::http_client::{
    MAX_WAIT, Orders, Reply, Service, idempotency, keyed, layer, scoped, within,
};

/// A connection of HTTP/2. Each clone sends on the same connection.
#[derive(Clone)]
struct Connection(http2::SendRequest<Body>);

impl Connection {
    async fn open(service: &Service) -> Self {
        let stream = TcpStream::connect(service.address).await.unwrap();
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// A request with this key.
    fn request(key: &str, body: Body) -> Request<Body> {
        let mut request = keyed("http://shop/", key).body(body).unwrap();
        // HTTP/2 has the host in the URI.
        request.headers_mut().remove("host");
        *request.version_mut() = Version::HTTP_2;
        request
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.0.clone().send_request(request).await;
        let response = response.expect("a response");
        assert_eq!(response.version(), Version::HTTP_2);
        Reply::read(response).await
    }
}

/// A response with repeated headers and with trailers, as of gRPC but with a status of its own.
async fn with_trailers() -> (HeaderMap, Body) {
    let mut headers = HeaderMap::new();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-order"),
    );
    for link in ["</a>", "</b>"] {
        headers.append("link", HeaderValue::from_static(link));
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    for sum in ["42", "43"] {
        let name = HeaderName::from_static("x-sum");
        trailers.append(name, HeaderValue::from_static(sum));
    }
    trailers.insert("set-cookie", HeaderValue::from_static("a"));
    let frames = [
        Ok::<_, std::io::Error>(Frame::data(Bytes::from("pa"))),
        Ok(Frame::data(Bytes::from("id"))),
        Ok(Frame::trailers(trailers)),
    ];
    (headers, Body::new(StreamBody::new(stream::iter(frames))))
}

#[tokio::test]
async fn a_replay_over_http2_equals_the_first_response_with_its_trailers() {
    let app = Router::new().route("/", on_post(with_trailers));
    let service = Service::start(app.layer(layer())).await;
    let connection = Connection::open(&service).await;
    let mut lines = Vec::new();
    for is_replay in [false, true, true] {
        let request = Connection::request("a", Body::from("{}"));
        let reply = connection.send(request).await;
        assert_eq!((reply.text(), reply.is_replay()), ("paid", is_replay));
        let trailers = reply.trailers.as_ref().expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
        let sums: Vec<_> = trailers.get_all("x-sum").iter().collect();
        assert_eq!(sums, ["42", "43"]);
        assert_eq!(trailers.contains_key("set-cookie"), !is_replay);
        let mut seen = reply.lines();
        seen.retain(|(name, _)| !["date", "idempotency-replayed"].contains(&&**name));
        lines.push(seen);
    }
    lines.dedup();
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[tokio::test]
async fn a_response_of_one_version_of_http_is_replayed_over_the_other() {
    for is_http2_first in [false, true] {
        let app = Router::new().route("/", on_post(with_trailers));
        let service = Service::start(app.layer(layer())).await;
        let connection = Connection::open(&service).await;
        let over_http1 = async || service.send(keyed("/", "a"), "{}").await;
        let over_http2 = async || {
            let request = Connection::request("a", Body::from("{}"));
            connection.send(request).await
        };
        let replies = if is_http2_first {
            [over_http2().await, over_http1().await]
        } else {
            [over_http1().await, over_http2().await]
        };
        for (reply, is_replay) in replies.iter().zip([false, true]) {
            assert_eq!((reply.text(), reply.is_replay()), ("paid", is_replay));
            let links: Vec<_> = reply.headers.get_all("link").iter().collect();
            assert_eq!(links, ["</a>", "</b>"]);
        }
    }
}

#[tokio::test]
async fn equal_requests_on_one_connection_run_the_handler_once() {
    const REQUESTS: usize = 100;
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move {
        let order = placed.place();
        tokio::task::yield_now().await;
        order.to_string()
    };
    let layer = scoped(&idempotency()).wait(MAX_WAIT).build();
    let app = Router::new().route("/", on_post(place)).layer(layer);
    let service = Service::start(app).await;
    let connection = Connection::open(&service).await;
    let requests = (0..REQUESTS).map(|_| connection.send(Connection::request("a", Body::empty())));
    let replies = within(join_all(requests)).await;
    assert!(replies.iter().all(|reply| reply.text() == "1"));
    let replays = replies.iter().filter(|reply| reply.is_replay()).count();
    assert_eq!((orders.count(), replays), (1, REQUESTS - 1));
}

/// Sends a request, and resets its stream when its handler has begun. The connection stays open. Returns after the server has
/// dropped the request.
async fn reset(shop: &Shop, connection: &Connection, request: Request<Body>) {
    let mut sender = connection.0.clone();
    let response = tokio::spawn(async move { sender.send_request(request).await });
    within(async {
        while shop.begun.count() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    response.abort();
    assert!(within(response).await.unwrap_err().is_cancelled());
    within(shop.dropped.acquire()).await.unwrap().forget();
}

#[tokio::test]
async fn a_request_that_is_reset_in_its_handler_and_sent_again_is_charged_once() {
    let shop = shop().await;
    let connection = Connection::open(&shop.service).await;
    let request = || Connection::request("a", Body::empty());
    reset(&shop, &connection, request()).await;
    assert_eq!(shop.charges.count(), 0);
    shop.gate.add_permits(1);
    let replay = within(connection.send(request())).await;
    assert_eq!((replay.text(), replay.is_replay()), ("charge 1", true));
    assert_eq!((shop.begun.count(), shop.charges.count()), (1, 1));
}

#[tokio::test]
async fn a_request_without_a_key_that_is_reset_ends_its_handler() {
    let shop = shop().await;
    let connection = Connection::open(&shop.service).await;
    let mut request = Connection::request("a", Body::empty());
    request.headers_mut().remove("idempotency-key");
    reset(&shop, &connection, request).await;
    // Nothing takes the permit, because the handler was dropped.
    shop.gate.add_permits(1);
    drop(connection);
    within(shop.service.stop()).await;
    assert_eq!(shop.gate.available_permits(), 1);
    assert_eq!((shop.begun.count(), shop.charges.count()), (1, 0));
}

#[tokio::test]
async fn an_upload_that_is_reset_takes_no_key() {
    let shop = shop().await;
    let connection = Connection::open(&shop.service).await;
    let fails = Arc::new(Semaphore::new(0));
    let failing = Arc::clone(&fails);
    let begin = stream::iter([Ok(Bytes::from("{"))]);
    // The client resets the stream of a request whose body fails.
    let rest = stream::once(async move {
        failing.acquire().await.unwrap().forget();
        Err(std::io::Error::other("on purpose"))
    });
    let half = Connection::request("a", Body::from_stream(begin.chain(rest)));
    let mut sender = connection.0.clone();
    let upload = tokio::spawn(async move { sender.send_request(half).await });
    within(shop.arrived.acquire()).await.unwrap().forget();
    fails.add_permits(1);
    assert!(within(upload).await.unwrap().is_err());
    assert_eq!(shop.begun.count(), 0);
    shop.gate.add_permits(1);
    let whole = Connection::request("a", Body::from("{}"));
    let reply = within(connection.send(whole)).await;
    assert_eq!((reply.text(), reply.is_replay()), ("charge 1", false));
}
