//! The layer around a handler, called in this process: for tests on tokio's paused clock.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use futures_util::FutureExt as _;
use http::{Request, Response};
use idempotence::http::{IdempotencyLayer, ReplayBody};
use idempotent_runtime::{Event, Idempotency, Store};
use tower::util::BoxCloneService;
use tower::{ServiceExt as _, service_fn};
use tower_layer::Layer as _;

use support::http_client::{Orders, Reply, keyed};

/// A guarded handler that counts its runs.
pub(crate) struct Guarded {
    service: BoxCloneService<Request<Body>, Response<ReplayBody<Body>>, Infallible>,
    runs: Orders,
}

impl Guarded {
    /// Guards this handler. The handler gets the number of its run, from 1.
    pub(crate) fn new<F>(
        layer: &IdempotencyLayer,
        handler: impl Fn(usize) -> F + Clone + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let runs = Orders::default();
        let counted = runs.clone();
        let service = service_fn(move |_: Request<ReplayBody<Body>>| {
            let response = handler(counted.place());
            async move { Ok::<_, Infallible>(response.await) }
        });
        let service = BoxCloneService::new(layer.layer(service));
        Self { service, runs }
    }

    /// How often the handler has begun.
    pub(crate) fn runs(&self) -> usize {
        self.runs.count()
    }

    /// Sends a request. Returns the response before its body is read.
    pub(crate) async fn respond(&self, key: &str, body: &str) -> Response<ReplayBody<Body>> {
        let request = keyed("/", key).body(Body::from(body.to_owned()));
        let service = self.service.clone();
        service.oneshot(request.unwrap()).await.unwrap()
    }

    /// Sends a request with an empty body.
    pub(crate) async fn send(&self, key: &str) -> Reply {
        Reply::read(self.respond(key, "").await).await
    }

    /// Asserts that the service panics while it answers this request.
    pub(crate) async fn assert_panics(&self, key: &str, body: &str) {
        let response = AssertUnwindSafe(self.respond(key, body)).catch_unwind();
        assert!(response.await.is_err());
    }

    /// Asserts that an equal request is refused, because another request has the key and may be running.
    pub(crate) async fn assert_taken(&self, key: &str) {
        self.assert_refused(key, "in_progress").await;
    }

    /// Asserts that an equal request is refused, because another request has the key and its outcome is not known.
    pub(crate) async fn assert_unknown(&self, key: &str) {
        self.assert_refused(key, "outcome_unknown").await;
    }

    async fn assert_refused(&self, key: &str, code: &str) {
        let runs = self.runs();
        let refused = self.send(key).await;
        assert_eq!(refused.refusal(), (409, code.to_owned()));
        assert_eq!(self.runs(), runs);
    }
}

/// The kinds of the events that end a call.
#[derive(Clone, Default)]
pub(crate) struct Ends(Arc<Mutex<Vec<&'static str>>>);

impl Ends {
    /// A handle on this store whose events are recorded.
    pub(crate) fn on(&self, store: impl Store) -> Idempotency {
        let ends = self.clone();
        let builder = Idempotency::builder(store).observer(move |event: &Event<'_>| {
            if event.kind().is_end() {
                ends.0.lock().unwrap().push(event.kind().as_str());
            }
        });
        builder.build().unwrap()
    }

    /// Removes and returns the recorded kinds.
    pub(crate) fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
