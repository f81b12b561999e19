//! The layer without axum: a service of `tower` on plain `hyper`.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use idempotence::http::ReplayBody;
use tokio::net::{TcpListener, TcpStream};
use tower::{Service as _, ServiceExt as _, service_fn};
use tower_layer::Layer as _;

use support::http_client::{Orders, Reply, idempotency, keyed, scoped};

#[tokio::test]
async fn a_service_of_hyper_is_guarded() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = service_fn(move |request: Request<ReplayBody<Incoming>>| {
        let order = placed.place();
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body = format!("{order} {}", body.len());
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
        }
    });
    let guarded = scoped(&idempotency()).route("orders").build().layer(place);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(guarded.clone());
            let connection = server::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    for is_replay in [false, true] {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let body = Full::new(Bytes::from("{}"));
        let request = keyed("/any/path", "a").body(body).unwrap();
        let reply = Reply::read(sender.send_request(request).await.unwrap()).await;
        assert_eq!((reply.text(), reply.is_replay()), ("1 2", is_replay));
    }
    assert_eq!(orders.count(), 1);
}

/// A body that ends with this error after its first bytes.
fn broken(error: impl Into<axum::BoxError>) -> Body {
    let chunks = [Ok(Bytes::from("{")), Err(error.into())];
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn a_request_whose_body_breaks_off_is_refused_and_takes_no_key() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = service_fn(move |_: Request<ReplayBody<Body>>| {
        let order = placed.place().to_string();
        async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(order)))) }
    });
    let mut guarded = scoped(&idempotency()).route("orders").build().layer(place);
    // A layer around this layer may also limit the body.
    let limit = Limited::new(Full::new(Bytes::from("{}")), 1)
        .collect()
        .await;
    for (body, status) in [
        (broken(std::io::Error::other("reset")), 400),
        (broken(limit.unwrap_err()), 413),
        (Body::from("{}"), 200),
    ] {
        let ready = guarded.ready().await.unwrap();
        let response = ready
            .call(keyed("/", "a").body(body).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), status);
    }
    assert_eq!(orders.count(), 1);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Broken;

#[tokio::test]
async fn an_error_of_the_service_stays_its_error_and_holds_the_key() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = service_fn(move |_: Request<ReplayBody<Full<Bytes>>>| {
        let order = placed.place();
        async move {
            if order == 1 {
                return Err(Broken);
            }
            Ok(Response::new(Full::new(Bytes::from("placed"))))
        }
    });
    let mut guarded = scoped(&idempotency()).route("orders").build().layer(place);
    let request = || keyed("/", "a").body(Full::<Bytes>::default()).unwrap();
    let mut results = Vec::new();
    for _ in 0..3 {
        let ready = guarded.ready().await.unwrap();
        results.push(
            ready
                .call(request())
                .await
                .map(|response| response.status()),
        );
    }
    let running = Ok(http::StatusCode::CONFLICT);
    assert_eq!(results, [Err(Broken), running, running]);
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_request_of_grpc_is_not_guarded() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = service_fn(move |_: Request<ReplayBody<Full<Bytes>>>| {
        placed.place();
        async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))) }
    });
    let mut guarded = scoped(&idempotency()).route("orders").build().layer(place);
    for (essence, count) in [
        ("application/grpc", 1),
        ("application/grpc", 2),
        ("Application/gRPC+proto", 3),
        ("application/grpc-web", 4),
        ("application/grpc-web", 4),
    ] {
        let request = keyed("/", "a").header("content-type", essence);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let ready = guarded.ready().await.unwrap();
        let response = ready.call(request).await.unwrap();
        assert_eq!(response.status(), 200, "{essence}");
        assert_eq!(orders.count(), count, "{essence}");
    }
}

/// A service that may be called only after it was ready, as a buffer or a limit of concurrency.
#[derive(Debug, Default)]
struct NeedsReady {
    is_ready: bool,
}

impl Clone for NeedsReady {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl tower::Service<Request<ReplayBody<Full<Bytes>>>> for NeedsReady {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        self.is_ready = true;
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<ReplayBody<Full<Bytes>>>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "it was not ready");
        std::future::ready(Ok(Response::new(Full::default())))
    }
}

#[tokio::test]
async fn the_service_that_was_ready_gets_the_request() {
    let mut guarded = scoped(&idempotency())
        .route("orders")
        .build()
        .layer(NeedsReady::default());
    for key in ["a", "b"] {
        let request = keyed("/", key).body(Full::<Bytes>::default()).unwrap();
        let ready = guarded.ready().await.unwrap();
        assert!(ready.call(request).await.is_ok());
    }
}
