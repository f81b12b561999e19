//! A client of HTTP, and a shop that counts its orders.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use idempotent_http::{IdempotencyLayer, LayerBuilder};
use idempotent_runtime::{Idempotency, MemoryStore};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};

/// A response that was read to its end.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Reply {
    pub async fn read<B>(response: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes, Error: Debug>,
    {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body");
        Self {
            status: head.status,
            headers: head.headers,
            trailers: body.trailers().cloned(),
            body: body.to_bytes(),
        }
    }

    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("a text")
    }

    pub fn problem(&self) -> Value {
        assert_eq!(self.headers[CONTENT_TYPE], "application/problem+json");
        serde_json::from_slice(&self.body).expect("a problem")
    }

    /// The status and the code of a refusal.
    pub fn refusal(&self) -> (u16, String) {
        let code = self.problem()["code"].as_str().unwrap().to_owned();
        (self.status.as_u16(), code)
    }

    pub fn is_replay(&self) -> bool {
        self.headers.contains_key("idempotency-replayed")
    }

    /// The lines of the headers, in order.
    pub fn lines(&self) -> Vec<(String, String)> {
        let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        self.headers.iter().map(line).collect()
    }
}

/// A request to send.
pub fn post(path: &str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("host", "shop")
        .header(AUTHORIZATION, "alice")
}

/// A POST with this key.
pub fn keyed(path: &str, key: &str) -> http::request::Builder {
    post(path).header("idempotency-key", key)
}

/// A service of HTTP on a free port.
pub struct Service {
    pub address: SocketAddr,
    stop: Arc<Notify>,
    served: JoinHandle<()>,
}

impl Service {
    pub async fn start(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self::around(address, async move |stopped| {
            let serve = axum::serve(listener, app);
            let serve = serve.with_graceful_shutdown(async move { stopped.notified().await });
            serve.await.unwrap();
        })
    }

    /// A server at this address. After the notification `serve` accepts no more connections, and ends with the open ones.
    pub fn around<F>(address: SocketAddr, serve: impl FnOnce(Arc<Notify>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = Arc::new(Notify::new());
        let served = tokio::spawn(serve(Arc::clone(&stop)));
        Self {
            address,
            stop,
            served,
        }
    }

    /// Sends the head of the request, and its body as the server reads it.
    pub async fn begin<B>(&self, request: Request<B>) -> (Response<Incoming>, AbortHandle)
    where
        B: http_body::Body<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        let (response, connection) = self.connect(request).await;
        (response.await.expect("a response"), connection)
    }

    /// Sends a request. If the handle aborts the connection, the server sees it close.
    pub async fn connect<B>(
        &self,
        request: Request<B>,
    ) -> (
        impl Future<Output = hyper::Result<Response<Incoming>>> + use<B>,
        AbortHandle,
    )
    where
        B: http_body::Body<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection).abort_handle();
        (
            async move { sender.send_request(request.map(Body::new)).await },
            connection,
        )
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: http::request::Builder, body: &str) -> Reply {
        let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
        let (response, _) = self.begin(request.body(body).unwrap()).await;
        Reply::read(response).await
    }

    /// Accepts no more connections, and waits for the end of the open ones.
    pub async fn stop(self) {
        self.stop.notify_one();
        within(self.served).await.unwrap();
    }
}

/// Counts the orders of a shop.
#[derive(Debug, Clone, Default)]
pub struct Orders(Arc<AtomicUsize>);

impl Orders {
    /// Places an order. Returns its number.
    pub fn place(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub fn idempotency() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

/// A layer of a new handle, whose scope is the header `Authorization`.
pub fn layer() -> IdempotencyLayer {
    scoped(&idempotency()).build()
}

pub fn scoped(idempotency: &Idempotency) -> LayerBuilder<impl idempotent_http::HasScope + use<>> {
    IdempotencyLayer::builder(idempotency).scope_by_header(AUTHORIZATION)
}

/// Longer than anything takes that a test waits for, also on a slow machine.
pub const MAX_WAIT: Duration = Duration::from_mins(2);

/// Waits for the future, for at most two minutes.
pub async fn within<F: Future>(future: F) -> F::Output {
    let done = tokio::time::timeout(MAX_WAIT, future).await;
    done.expect("it ends within two minutes")
}

/// Sends equal requests until `is_done` accepts a response.
pub async fn poll(
    service: &Service,
    request: impl Fn() -> http::request::Builder,
    body: &str,
    is_done: impl Fn(&Reply) -> bool,
) -> Reply {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let reply = service.send(request(), body).await;
        if is_done(&reply) {
            return reply;
        }
        assert!(Instant::now() < deadline, "{reply:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
