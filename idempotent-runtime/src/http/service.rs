//! The service around a handler: guards the requests that have a key.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use ::http::{Request, Response, header, request};
use bytes::Bytes;
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::call::Call;
use crate::call::finish::Finish;
use crate::error::lang::Lang;
use crate::http::answer::{Answer, WholeResponse};
use crate::http::body::ReplayBody;
use crate::http::config::Config;
use crate::http::content_type::is_json;
use crate::http::context::{Claimed, IdempotencyContext};
use crate::http::decision::Decision;
use crate::http::incoming::{self, Unread};
use crate::http::lang;
use crate::http::options::RouteOptions;
use crate::http::payload;
use crate::http::rejection::Rejection;
use crate::protocol::ending::SettleOutcome;
use crate::protocol::held::Held;
use crate::protocol::refusal::Refusal;

/// The service that [`IdempotencyLayer`](crate::http::IdempotencyLayer) makes.
#[derive(Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S> IdempotencyService<S> {
    pub(super) fn new(inner: S, config: Arc<Config>) -> Self {
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
        let step = match Plan::new(&self.config, &head) {
            Ok(Some(plan)) => Step::Guarded {
                future: Box::pin(plan.run(inner, head, body)),
            },
            Ok(None) => {
                let request = Request::from_parts(head, ReplayBody::inner(body));
                Step::Passed {
                    future: inner.call(request),
                }
            }
            Err(rejection) => Step::Refused {
                response: Some(self.config.refuse(rejection)),
            },
        };
        ResponseFuture { step }
    }
}

/// A request that may be guarded.
struct Plan {
    config: Arc<Config>,
    options: Arc<RouteOptions>,
    lang: Lang,
    /// The call without its payload. `None` if the key is in the body.
    call: Option<Call>,
}

impl Plan {
    /// Reads the head of a request. `None` if the request is not guarded.
    fn new(config: &Arc<Config>, head: &request::Parts) -> Result<Option<Self>, Rejection> {
        if !config.guards(head) {
            return Ok(None);
        }
        let (lang, options) = (lang::from_headers(&head.headers), config.options_for(head));
        let mut plan = Self {
            config: Arc::clone(config),
            options: Arc::clone(options),
            lang,
            call: None,
        };
        // Only JSON can have the key in its body. Another body is not read into memory to look for a key.
        let may_be_in_body =
            config.key.is_in_body() && is_json(head.headers.get(header::CONTENT_TYPE));
        if !may_be_in_body {
            let Some(call) = plan.keyed_call(head, &[])? else {
                return Ok(None);
            };
            plan.call = Some(call);
        }
        Ok(Some(plan))
    }

    /// The call with its key, without its payload. `None` if the request has no key, or an outer layer has claimed the key.
    fn keyed_call(&self, head: &request::Parts, body: &[u8]) -> Result<Option<Call>, Rejection> {
        let Some(key) = self.config.key(head, body, &self.options, self.lang)? else {
            return Ok(None);
        };
        let call = self.config.call(head, &self.options, &key, self.lang)?;
        Ok(Some(call).filter(|call| !Claimed::is_outside(head, call)))
    }

    /// Reads the body, claims the key, and runs the handler or answers in its place.
    async fn run<S, Q, B>(
        mut self,
        mut inner: S,
        mut head: request::Parts,
        body: Q,
    ) -> Result<Response<ReplayBody<B>>, S::Error>
    where
        S: Service<Request<ReplayBody<Q>>, Response = Response<B>> + Send + 'static,
        S::Error: Send + 'static,
        S::Future: Send + 'static,
        Q: Body<Data = Bytes> + Send + 'static,
        Q::Error: Into<Box<dyn StdError + Send + Sync>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Send + 'static,
    {
        let (bytes, trailers) = match incoming::read_body(body, self.options.request_limit).await {
            Ok(read) => read,
            Err(unread) => return Ok(self.config.refuse(self.unread(unread))),
        };
        let call = self.complete_call(&head, &bytes);
        let body = ReplayBody::whole(bytes, trailers);
        let claim = match call {
            Ok(Some(call)) => call.claim().await,
            Ok(None) => {
                let response = inner.call(Request::from_parts(head, body)).await?;
                return Ok(response.map(ReplayBody::inner));
            }
            Err(rejection) => return Ok(self.config.refuse(rejection)),
        };
        let running = match claim {
            Ok(running) => running,
            Err(refusal) => return Ok(self.answer_duplicate(refusal)),
        };
        let site = &running.lease.call().site;
        head.extensions.insert(IdempotencyContext::new(site));
        if running.is_claimed() {
            let claimed = Claimed::new(running.shared(), site);
            head.extensions.insert(claimed);
        }
        let request = Request::from_parts(head, body);
        let finish = finish(running, Arc::clone(&self.options), inner, request);
        match finish.await {
            Ok(answer) => Ok(answer?.into_response(&self.config.marker)),
            Err(error) => {
                let rejection = Rejection::of(error, None, self.lang);
                Ok(self.config.refuse(rejection))
            }
        }
    }

    /// The call with its payload. `None` if the request is not guarded: its body has no key, or an outer layer has claimed the key.
    fn complete_call(
        &mut self,
        head: &request::Parts,
        body: &Bytes,
    ) -> Result<Option<Call>, Rejection> {
        let keyed = match self.call.take() {
            Some(call) => Some(call),
            None => self.keyed_call(head, body)?,
        };
        let Some(mut call) = keyed else {
            return Ok(None);
        };
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let digest = self.options.payload.digest(content_type, body);
        let digest = digest.map_err(|fault| Rejection::from(fault.problem(self.lang)))?;
        let uri = incoming::original_uri(head);
        call.payload(head.method.as_str());
        call.payload(uri.path());
        call.payload(&uri.query());
        call.payload(&payload::essence(content_type));
        call.payload(&digest);
        Ok(Some(call))
    }

    /// The stored response of an equal request, or why there is none.
    fn answer_duplicate<B: Body>(&self, refusal: Refusal) -> Response<ReplayBody<B>> {
        let location = OnceLock::new();
        let reader = WholeResponse {
            location: &location,
        };
        match refusal.read::<Answer<B>, _>(reader) {
            Ok(answer) => answer.into_response(&self.config.marker),
            Err(error) => {
                let rejection = Rejection::of(error, location.into_inner(), self.lang);
                self.config.refuse(rejection)
            }
        }
    }

    fn unread(&self, unread: Unread) -> Rejection {
        match unread {
            Unread::TooLarge => Rejection::too_large(self.options.request_limit, self.lang),
            Unread::Broken => Rejection::unreadable(self.lang),
        }
    }
}

/// Runs the handler and ends its call. If this is dropped, both continue in their own task.
fn finish<S, Q, B>(
    mut held: Held,
    options: Arc<RouteOptions>,
    mut inner: S,
    request: Request<ReplayBody<Q>>,
) -> Finish<Result<Answer<B>, S::Error>>
where
    S: Service<Request<ReplayBody<Q>>, Response = Response<B>> + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    Q: Body<Data = Bytes> + Send + 'static,
    Q::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send + 'static,
{
    let shared = Arc::clone(held.shared());
    let results = shared.result_options();
    let is_claimed = held.is_claimed();
    let handler = Box::pin(async move {
        let response = inner.call(request).await?;
        let answer = Answer::of(response, &options, results).await;
        Ok(if is_claimed {
            answer
        } else {
            answer.unguarded()
        })
    });
    held.mark_after_panic();
    Finish::new(shared, async move {
        let (held, mut outcome) = held.run(handler).await?;
        match &mut outcome {
            Ok(answer) if answer.decision() == Decision::Hold => {
                if !held.hold() {
                    answer.settled(SettleOutcome::Closed);
                }
            }
            Ok(answer) => {
                let settled = held.settle(answer.body_outcome()).await;
                answer.settled(settled);
            }
            // The handler may have been stopped in the middle, for example by a timeout inside of this layer.
            Err(_) => {
                held.hold();
            }
        }
        Ok(outcome)
    })
}

pin_project! {
    /// The future of [`IdempotencyService`].
    pub struct ResponseFuture<F, B, E>
    where
        B: Body,
    {
        #[pin]
        step: Step<F, B, E>,
    }
}

/// The response to a guarded request.
type Guarded<B, E> = Pin<Box<dyn Future<Output = Result<Response<ReplayBody<B>>, E>> + Send>>;

pin_project! {
    #[project = StepProjection]
    enum Step<F, B, E>
    where
        B: Body,
    {
        /// The request is not guarded.
        Passed { #[pin] future: F },
        Guarded { future: Guarded<B, E> },
        Refused { response: Option<Response<ReplayBody<B>>> },
    }
}

impl<F, B, E> Future for ResponseFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<ReplayBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().step.project() {
            StepProjection::Passed { future } => {
                let polled = future.poll(cx);
                polled.map_ok(|response| response.map(ReplayBody::inner))
            }
            StepProjection::Guarded { future } => future.as_mut().poll(cx),
            StepProjection::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                // Polled again after it was ready.
                None => Poll::Pending,
            },
        }
    }
}

impl<F, B: Body, E> fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
