//! The service around a handler, for `tower`.

use std::error::Error as StdError;
use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{Request, Response};
use bytes::Bytes;
use http_body::Body;
use idempotent_runtime::port::http::Finish;
use tower_service::Service;

use crate::body::ReplayBody;
use crate::layer::answer::Answer;
use crate::layer::config::{Config, Guarding};
use crate::layer::future::{ResponseFuture, Step};
use crate::layer::guard::{self, Ending, Handler};
use crate::profile::stamp::Stamp;
use crate::request::scope::FindScope;

/// The service that [`IdempotencyLayer`](crate::IdempotencyLayer) makes.
#[derive(Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S> IdempotencyService<S> {
    pub(crate) fn new(inner: S, config: Arc<Config>) -> Self {
        Self { inner, config }
    }
}

impl<S: fmt::Debug> fmt::Debug for IdempotencyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<S, Q, B> Service<Request<Q>> for IdempotencyService<S>
where
    S: Service<Request<ReplayBody<Q>>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    Q: Body<Data = Bytes> + Send + 'static,
    Q::Error: Into<Box<dyn StdError + Send + Sync>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send + 'static,
{
    type Response = Response<ReplayBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, B, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        // The clone may not be ready, so the ready service takes the request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (head, body) = request.into_parts();
        let step = match self.config.guarding(&head) {
            Guarding::Maybe => Step::Guarded {
                stamp: self.config.stamp(&head),
                future: Box::pin(guard::guard(
                    Arc::clone(&self.config),
                    Ready(inner),
                    head,
                    body,
                )),
            },
            Guarding::No => {
                let form = self.config.refusal_form(&head);
                let request = Request::from_parts(head, ReplayBody::inner(body));
                Step::Passed {
                    config: Arc::clone(&self.config),
                    form,
                    future: inner.call(request),
                }
            }
            Guarding::Unsupported => {
                let response = Ok(self.config.refuse_unguarded(&head));
                Step::Guarded {
                    stamp: Stamp::default(),
                    future: Box::pin(ready(response)),
                }
            }
        };
        ResponseFuture { step }
    }
}

/// A service that is ready for one request.
struct Ready<S>(S);

impl<S> FindScope for Ready<S> {}

impl<S, Q, B> Handler<Q, B> for Ready<S>
where
    S: Service<Request<ReplayBody<Q>>, Response = Response<B>> + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    Q: Body<Data = Bytes> + Send + 'static,
    Q::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send + 'static,
{
    type Error = S::Error;
    type Pass = S::Future;
    type Finish = Finish<Result<Answer<B>, S::Error>>;

    fn pass(mut self, request: Request<ReplayBody<Q>>) -> S::Future {
        self.0.call(request)
    }

    fn finish(self, ending: Ending, request: Request<ReplayBody<Q>>) -> Self::Finish {
        let (shared, mut service) = (ending.shared(), self.0);
        Finish::new(shared, ending.after(move || service.call(request)))
    }
}
