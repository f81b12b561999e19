//! A service process: an axum server, whose handler is guarded by the layer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use std::{io, thread};

use axum::Router;
use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{LINK, LOCATION};
use axum::middleware::{Next, from_fn};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::post;
use idempotence::http::IdempotencyLayer;
use idempotence::{Idempotency, OnStoreError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::history::{Call, Endpoint, History, HistoryEvent, Key, Line, Micros, NOTED, now};
use crate::worker::{connect, note_late_tasks, note_panics, note_starvation};

/// The lease of a claim. A killed process blocks its keys for this time and the grace.
pub const LEASE: Micros = 2_000_000;
/// The grace after the lease: the shortest possible grace.
pub(super) const GRACE: Micros = 250_000;
/// How long a request waits for the store. Longer than a restart of the server takes.
pub const DEADLINE: Micros = 4_000_000;
/// The length of the body of a response in bytes.
const BODY: usize = 1024;

/// The arguments of a service.
#[derive(Debug, Clone)]
pub struct Service {
    /// The number of the process in the run.
    pub process: u32,
    /// The port of the service on the loopback interface.
    pub port: u16,
    /// The URL of the store.
    pub url: String,
    /// The path of its history.
    pub history: PathBuf,
    /// How the layer guards the handler.
    pub guard: Guard,
}

/// How the layer guards the handler. All but the first are mistakes that the check must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Requests are refused while the store is unavailable.
    Refuses,
    /// Requests run while the store is unavailable.
    Runs,
    /// There is no layer.
    Missing,
}

impl Guard {
    const ALL: [Self; 3] = [Self::Refuses, Self::Runs, Self::Missing];

    fn of(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|guard| format!("{guard:?}") == name)
    }
}

impl Service {
    /// The service as arguments of the command line.
    pub fn args(&self) -> [String; 5] {
        [
            self.process.to_string(),
            self.port.to_string(),
            self.url.clone(),
            self.history.display().to_string(),
            format!("{:?}", self.guard),
        ]
    }

    /// Parses the arguments of [`args`](Self::args).
    pub fn from_args(args: &[String]) -> Option<Self> {
        let [process, port, url, history, guard] = args else {
            return None;
        };
        Some(Self {
            process: process.parse().ok()?,
            port: port.parse().ok()?,
            url: url.clone(),
            history: history.into(),
            guard: Guard::of(guard)?,
        })
    }
}

/// Serves until the standard input is closed, also by the death of the parent process.
///
/// # Errors
///
/// If the history cannot be opened, or another program has taken the port.
pub async fn run(service: Service) -> io::Result<()> {
    let process = service.process;
    let history = Arc::new(History::open(&service.history, process)?);
    note_panics(&history, process);
    note_starvation(&history, process);
    tokio::spawn(note_late_tasks(Arc::clone(&history), process, NOTED));
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, mut is_stopped) = watch::channel(());
    let answer = Arc::clone(&stop);
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        answer.store(true, Ordering::Relaxed);
        drop(stopped);
    });

    let handler = Handler {
        process,
        calls: Arc::default(),
        history: Arc::clone(&history),
    };
    let routes = Router::new()
        .route("/pay/{number}", post(pay))
        .route("/order/{number}", post(order))
        .with_state(handler);
    let Some(store) = connect(&service.url, &stop).await else {
        return Ok(());
    };
    let idempotency = Idempotency::builder(store)
        .deadline(Duration::from_micros(DEADLINE))
        .build()
        .map_err(io::Error::other)?;
    let routes = match service.guard {
        Guard::Missing => routes,
        guard => routes.route_layer(layer(&idempotency, guard)),
    };
    let routes = routes.route_layer(from_fn(note_times));
    let listener = TcpListener::bind(("127.0.0.1", service.port)).await?;
    tokio::select! {
        served = axum::serve(listener, routes) => served?,
        _ = is_stopped.changed() => {}
    }
    let _ = idempotency.drain(Duration::from_secs(5)).await;
    history.note(HistoryEvent::Finished(process));
    Ok(())
}

/// Requests to `/pay` are refused while another request is running. Requests to `/order` wait for its response.
fn layer(idempotency: &Idempotency, guard: Guard) -> IdempotencyLayer {
    let on_store_error = match guard {
        Guard::Runs => OnStoreError::Run,
        Guard::Refuses | Guard::Missing => OnStoreError::Refuse,
    };
    IdempotencyLayer::builder(idempotency)
        .global_scope()
        .require_key()
        .on_store_error(on_store_error)
        .ttl(Duration::from_hours(1))
        .lease(Duration::from_micros(LEASE))
        .for_route("/order/{number}", |order| {
            order.wait(Duration::from_millis(700))
        })
        .build()
}

/// When a request reached the service. Its lease begins later.
#[derive(Debug, Clone, Copy)]
struct Arrival(Micros);

/// The header of a refusal that says when the service made it: its client may read it much later.
pub(super) const MADE_AT: &str = "made-at";

async fn note_times(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Arrival(now()));
    let mut response = next.run(request).await;
    if !response.status().is_success() {
        response.headers_mut().insert(MADE_AT, now().into());
    }
    response
}

#[derive(Debug, Clone)]
struct Handler {
    process: u32,
    calls: Arc<AtomicU32>,
    history: Arc<History>,
}

type Arrived = Extension<Arrival>;

async fn pay(handler: State<Handler>, arrived: Arrived, Path(number): Path<u64>) -> Response {
    handler.work(Endpoint::Pay, number, arrived.0).await
}

async fn order(handler: State<Handler>, arrived: Arrived, Path(number): Path<u64>) -> Response {
    handler.work(Endpoint::Order, number, arrived.0).await
}

/// How long a body takes: always the same time for the same key.
pub fn body_lasts(number: u64) -> Duration {
    Duration::from_millis(250 + number * 37 % 250)
}

impl Handler {
    /// The body. Its effect is its line in the history, which is written before any client can observe the effect.
    async fn work(&self, endpoint: Endpoint, number: u64, arrival: Arrival) -> Response {
        let call = Call {
            process: self.process,
            number: self.calls.fetch_add(1, Ordering::Relaxed),
        };
        let mut body = Body {
            history: &self.history,
            call,
            key: Key { endpoint, number },
            has_effect: false,
        };
        self.history.append(&Line {
            at: arrival.0,
            event: HistoryEvent::Called(call, body.key),
        });
        self.history.note(HistoryEvent::Started(call, body.key));
        sleep(body_lasts(number)).await;
        body.has_effect = true;
        drop(body);
        // A repeated header must keep its order in a replay.
        let headers = AppendHeaders([
            (LOCATION, format!("/receipts/{}", call.value())),
            (LINK, "</receipts>; rel=\"collection\"".to_owned()),
            (LINK, "</orders>; rel=\"up\"".to_owned()),
        ]);
        let text = format!("{:.<BODY$}", call.value());
        (StatusCode::CREATED, headers, text).into_response()
    }
}

/// The call of a response, by its body.
pub(super) fn call_of(body: &[u8]) -> Option<Call> {
    let text = str::from_utf8(body).ok()?;
    let digits = text.split_once('.')?.0;
    Some(Call::of(digits.parse().ok()?))
}

/// A running body. Notes its end, also on a drop.
struct Body<'a> {
    history: &'a History,
    call: Call,
    key: Key,
    has_effect: bool,
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        self.history.note(if self.has_effect {
            HistoryEvent::Effect(self.call, self.key)
        } else {
            HistoryEvent::Ended(self.call, self.key)
        });
    }
}
