//! A layer outside of all others: a request continues after its client has hung up, with all its middlewares.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::Request;
use idempotent_runtime::port::http::{Caller, Rest};
use tower_layer::Layer;
use tower_service::Service;

use crate::running::Running;

/// A layer for the outside of the whole stack: if a client hangs up while a guarded handler runs, the whole request continues in
/// its own task, so the handler keeps the task-locals of every middleware. With the feature `actix` it is also a `Transform` of
/// actix-web.
///
/// Without it only the guarded handler continues: a task-local that a middleware outside of
/// [`IdempotencyLayer`](crate::IdempotencyLayer) has set is missing then, and a handler that needs it panics.
/// A request that has no running handler inside is dropped as before. [`Idempotency::drain`](idempotent_runtime::Idempotency::drain) waits for
/// the requests that continue.
///
/// It costs a few small allocations for each request, and no round trip.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::Router;
/// use axum::routing::post;
/// use idempotence::http::{ContinueLayer, IdempotencyLayer};
/// use idempotence::{Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let guard = IdempotencyLayer::builder(&idempotency).global_scope().build();
/// let app: Router = Router::new()
///     .route("/orders", post(async || "placed"))
///     .route_layer(guard)
///     // Here: sessions, flash messages, authentication, …
///     .layer(ContinueLayer::new());
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ContinueLayer;

impl ContinueLayer {
    /// The layer. It has no options.
    pub fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for ContinueLayer {
    type Service = ContinueService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ContinueService(inner)
    }
}

/// The service that [`ContinueLayer`] makes.
#[derive(Debug, Clone)]
pub struct ContinueService<S>(S);

impl<S, B> Service<Request<B>> for ContinueService<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ContinueFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let running = Running::default();
        request.extensions_mut().insert(running.clone());
        ContinueFuture::new(running, self.0.call(request), |rest| {
            let runtime = rest.runtime().clone();
            drop(runtime.spawn(rest.run()));
        })
    }
}

/// The future of a request under [`ContinueLayer`].
///
/// # Cancellation
///
/// If it is dropped while a guarded handler runs inside, it continues in its own task. After a panic, or without a runtime, it
/// does not continue.
pub struct ContinueFuture<F> {
    running: Running,
    request: Option<Pin<Box<F>>>,
    caller: Option<Caller>,
    polling: bool,
    detach: fn(Rest<Pin<Box<F>>>),
}

impl<F: Future> ContinueFuture<F> {
    /// `detach` runs the rest of the future in its own task.
    pub(super) fn new(running: Running, request: F, detach: fn(Rest<Pin<Box<F>>>)) -> Self {
        Self {
            running,
            request: Some(Box::pin(request)),
            caller: None,
            polling: false,
            detach,
        }
    }
}

impl<F: Future> Future for ContinueFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(request) = &mut this.request else {
            return Poll::Pending;
        };
        if this.caller.is_none() {
            this.caller = Caller::current();
        }
        this.polling = true;
        let polled = request.as_mut().poll(cx);
        this.polling = false;
        if polled.is_ready() {
            this.request = None;
        }
        polled
    }
}

impl<F> Drop for ContinueFuture<F> {
    fn drop(&mut self) {
        let Some(shared) = self.running.shared() else {
            return;
        };
        if let (Some(request), Some(caller), false) =
            (self.request.take(), self.caller.take(), self.polling)
        {
            (self.detach)(Rest::with_locals(request, caller, shared));
        }
    }
}

impl<F> fmt::Debug for ContinueFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContinueFuture").finish_non_exhaustive()
    }
}
