//! One shop, in axum and in actix.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpMessage as _, HttpRequest, HttpResponse, HttpServer, web};
use axum::Router;
use axum::body::Body;
use axum::routing::any;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use idempotence::http::{Decision, IdempotencyLayer};
use tokio::sync::{Notify, Semaphore, oneshot};

use support::http_client::{Orders, Service, within};

/// The server of a shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Axum,
    Actix,
}

pub(crate) const BOTH: [Server; 2] = [Server::Axum, Server::Actix];

/// Who asks, as an outer layer finds out.
#[derive(Debug, Clone)]
pub(crate) struct User(pub(crate) String);

#[derive(Clone)]
pub(crate) struct State {
    /// Handlers that have begun.
    pub(crate) begun: Orders,
    /// Handlers that have ended.
    pub(crate) ended: Orders,
    /// Lets a handler of `/gate` continue.
    pub(crate) gate: Arc<Semaphore>,
    /// Has a permit for each request whose future was dropped before it was ready.
    pub(crate) dropped: Arc<Semaphore>,
}

pub(crate) struct Shop {
    pub(crate) service: Service,
    pub(crate) state: State,
}

impl Shop {
    /// A shop whose layer is around all of its routes.
    pub(crate) async fn start(server: Server, layer: &IdempotencyLayer) -> Self {
        let state = State {
            begun: Orders::default(),
            ended: Orders::default(),
            gate: Arc::new(Semaphore::new(0)),
            dropped: Arc::new(Semaphore::new(0)),
        };
        let service = match server {
            Server::Axum => Service::start(axum_app(layer.clone(), state.clone())).await,
            Server::Actix => actix(layer.clone(), state.clone()).await,
        };
        Self { service, state }
    }

    /// How often a handler has begun.
    pub(crate) fn runs(&self) -> usize {
        self.state.begun.count()
    }
}

/// What a handler answers.
struct Answer {
    status: u16,
    headers: Vec<(&'static str, Vec<u8>)>,
    decision: Option<Decision>,
    chunks: Vec<io::Result<Bytes>>,
    is_stream: bool,
}

/// The handler of all routes.
async fn handle(state: &State, path: &str, headers: &HeaderMap, body: &[u8]) -> Answer {
    let order = state.begun.place();
    let mut answer = Answer {
        status: 201,
        headers: vec![("location", b"/orders/1".to_vec())],
        decision: None,
        chunks: Vec::new(),
        is_stream: false,
    };
    let parts: Vec<_> = path.split('/').skip(1).collect();
    match parts[..] {
        ["gate"] => state.gate.acquire().await.unwrap().forget(),
        ["panic"] => panic!("on purpose"),
        // As a gateway that forwards the response of another server, with the mark of a replay.
        ["status", status] => {
            answer.status = status.parse().unwrap();
            let mark = ("idempotency-replayed", b"true".to_vec());
            answer.headers.push(mark);
        }
        ["stream", kind, count] => {
            let content_type = format!("text/{kind}");
            let content_type = content_type.into_bytes();
            answer.headers.push(("content-type", content_type));
            let count = count.parse().unwrap();
            answer.chunks = (0..count).map(|_| Ok(Bytes::from("0123456789"))).collect();
            answer.is_stream = true;
        }
        ["broken"] => {
            let broken = Err(io::Error::other("the disk is gone"));
            answer.chunks = vec![Ok(Bytes::from("begun")), broken];
            answer.is_stream = true;
        }
        _ => {}
    }
    answer.decision = match headers.get("x-decision").map(HeaderValue::as_bytes) {
        Some(b"hold") => Some(Decision::Hold),
        Some(b"release") => Some(Decision::Release),
        Some(b"store") => Some(Decision::Store),
        _ => None,
    };
    if !answer.is_stream {
        answer.headers.extend([
            ("link", b"</a>; rel=\"first\"".to_vec()),
            ("x-raw", b"caf\xe9".to_vec()),
            ("set-cookie", b"a=1".to_vec()),
            ("link", b"</b>; rel=\"last\"".to_vec()),
            ("set-cookie", b"b=2".to_vec()),
        ]);
        let text = format!("order {order} {}", String::from_utf8_lossy(body));
        answer.chunks = vec![Ok(Bytes::from(text))];
    }
    state.ended.place();
    answer
}

/// Adds a permit if it is dropped before its request has a response.
struct Unanswered {
    dropped: Arc<Semaphore>,
    has_response: bool,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.has_response {
            self.dropped.add_permits(1);
        }
    }
}

impl Unanswered {
    fn of(state: &State) -> Self {
        let dropped = Arc::clone(&state.dropped);
        Self {
            dropped,
            has_response: false,
        }
    }

    fn answered(mut self) {
        self.has_response = true;
    }
}

fn axum_app(layer: IdempotencyLayer, state: State) -> Router {
    let watched = state.clone();
    let place = move |request: Request<Body>| async move {
        let (head, body) = request.into_parts();
        let path = head.extensions.get::<axum::extract::OriginalUri>();
        let path = path.map_or(head.uri.path(), |original| original.0.path());
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let answer = handle(&state, path, &head.headers, &body).await;
        let mut response = Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            response = response.header(*name, &value[..]);
        }
        if let Some(decision) = answer.decision {
            response = response.extension(decision);
        }
        let body = if answer.is_stream {
            Body::from_stream(stream::iter(answer.chunks))
        } else {
            let whole = answer.chunks.into_iter().next();
            Body::from(whole.unwrap().unwrap())
        };
        response.body(body).unwrap()
    };
    let orders = || Router::new().route("/orders/{id}", any(place.clone()));
    Router::new()
        .route("/orders", any(place.clone()))
        .nest("/a", orders())
        .nest("/b", orders())
        .route("/gate", any(place.clone()))
        .route("/panic", any(place.clone()))
        .route("/broken", any(place.clone()))
        .route("/status/{status}", any(place.clone()))
        .route("/stream/{kind}/{count}", any(place.clone()))
        .layer(layer)
        .layer(axum::middleware::from_fn(
            move |mut request: axum::extract::Request, next: axum::middleware::Next| {
                let unanswered = Unanswered::of(&watched);
                async move {
                    if let Some(user) = request.headers().get("x-user").cloned() {
                        let user = User(user.to_str().unwrap().to_owned());
                        request.extensions_mut().insert(user);
                    }
                    let response = next.run(request).await;
                    unanswered.answered();
                    response
                }
            },
        ))
}

async fn place(request: HttpRequest, body: Bytes, state: web::Data<State>) -> HttpResponse {
    let mut headers = HeaderMap::new();
    if let Some(decision) = request.headers().get("x-decision") {
        headers.insert("x-decision", decision.to_str().unwrap().parse().unwrap());
    }
    let answer = handle(&state, request.path(), &headers, &body).await;
    let status = actix_web::http::StatusCode::from_u16(answer.status).unwrap();
    let mut response = HttpResponse::build(status);
    for (name, value) in answer.headers {
        response.append_header((name, &value[..]));
    }
    let mut response = if answer.is_stream {
        response.streaming(stream::iter(answer.chunks))
    } else {
        let whole = answer.chunks.into_iter().next();
        response.body(whole.unwrap().unwrap())
    };
    if let Some(decision) = answer.decision {
        response.extensions_mut().insert(decision);
    }
    response
}

async fn actix(layer: IdempotencyLayer, state: State) -> Service {
    serve(move |routes| {
        let orders = || web::resource("/orders/{id}").to(place);
        let (watched, layer) = (state.clone(), layer.clone());
        let watch = actix_web::middleware::from_fn(
            move |request: actix_web::dev::ServiceRequest, next: actix_web::middleware::Next<_>| {
                let unanswered = Unanswered::of(&watched);
                if let Some(user) = request.headers().get("x-user").cloned() {
                    let user = User(user.to_str().unwrap().to_owned());
                    request.extensions_mut().insert(user);
                }
                async move {
                    let response = next.call(request).await;
                    unanswered.answered();
                    response
                }
            },
        );
        let all = web::scope("")
            .app_data(web::Data::new(state.clone()))
            .route("/orders", web::route().to(place))
            .service(web::scope("/a").service(orders()))
            .service(web::scope("/b").service(orders()))
            .route("/gate", web::route().to(place))
            .route("/panic", web::route().to(place))
            .route("/broken", web::route().to(place))
            .route("/status/{status}", web::route().to(place))
            .route("/stream/{kind}/{count}", web::route().to(place))
            .wrap(layer)
            .wrap(watch);
        routes.service(all);
    })
    .await
}

/// A server of actix with two workers, on a free port. A client that closes its half of a connection has hung up.
pub(crate) async fn serve(
    routes: impl Fn(&mut web::ServiceConfig) + Send + Clone + 'static,
) -> Service {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (started, handle) = oneshot::channel::<ServerHandle>();
    let thread = std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let server = HttpServer::new(move || App::new().configure(routes.clone()));
            let server = server.workers(2).disable_signals();
            let server = server.h1_allow_half_closed(false).listen(listener);
            let server = server.unwrap().run();
            started.send(server.handle()).unwrap();
            server.await.unwrap();
        });
    });
    let handle = within(handle).await.unwrap();
    Service::around(address, move |stopped: Arc<Notify>| async move {
        stopped.notified().await;
        handle.stop(true).await;
        let joined = tokio::task::spawn_blocking(move || thread.join());
        joined.await.unwrap().unwrap();
    })
}
