//! The service around a handler: guards the requests that have a key.

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use ::http::{Request, Response, header, request};
use bytes::Bytes;
use http_body::Body;
use tower_service::Service;

use crate::call::Call;
use crate::call::finish::Finish;
use crate::error::lang::Lang;
use crate::http::answer::{Answer, Rules, WholeResponse};
use crate::http::body::ReplayBody;
use crate::http::config::{Config, Guarding};
use crate::http::content_type::is_json;
use crate::http::context::{add_context, is_claimed_outside};
use crate::http::decision::Decision;
use crate::http::future::{ResponseFuture, Step};
use crate::http::incoming::{self, Unread};
use crate::http::lang;
use crate::http::options::RouteOptions;
use crate::http::payload::{self, Payload};
use crate::http::profile::stamp::Stamp;
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
        let step = match self.config.guarding(&head) {
            Guarding::Maybe => Step::Guarded {
                stamp: self.config.stamp(&head),
                future: Box::pin(guard(Arc::clone(&self.config), inner, head, body)),
            },
            Guarding::No => {
                let request = Request::from_parts(head, ReplayBody::inner(body));
                Step::Passed {
                    future: inner.call(request),
                }
            }
            Guarding::Unsupported => {
                let rejection = Rejection::unsupported(lang::from_headers(&head.headers));
                let response = Ok(self.config.refuse(rejection, false));
                Step::Guarded {
                    stamp: Stamp::default(),
                    future: Box::pin(ready(response)),
                }
            }
        };
        ResponseFuture { step }
    }
}

/// Reads the body, claims the key, and runs the handler or answers in its place.
#[expect(
    clippy::manual_async_fn,
    reason = "the future of an `async fn` stores its arguments twice"
)]
fn guard<S, Q, B>(
    config: Arc<Config>,
    inner: S,
    mut head: request::Parts,
    body: Q,
) -> impl Future<Output = Result<Response<ReplayBody<B>>, S::Error>> + Send
where
    S: Service<Request<ReplayBody<Q>>, Response = Response<B>> + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    Q: Body<Data = Bytes> + Send + 'static,
    Q::Error: Into<Box<dyn StdError + Send + Sync>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send + 'static,
{
    async move {
        let plan = Plan::new(&config, &head);
        // The block ends before the claim is awaited, because a future has room for each variable that exists at an `await`.
        let (claim, body) = {
            let mut call = None;
            if !plan.may_have_key_in_body(&head) {
                match plan.keyed_call(&head, &[]) {
                    Ok(None) => {
                        return Box::pin(pass(inner, head, ReplayBody::inner(body))).await;
                    }
                    Ok(keyed) => call = keyed,
                    Err(rejection) => return Ok(plan.refuse(rejection)),
                }
            }
            let read = incoming::read_body(body, plan.options.request_limit);
            let (bytes, trailers) = match read.await {
                Ok(read) => read,
                Err(unread) => return Ok(plan.refuse(plan.unread(unread))),
            };
            if let Err(rejection) = plan.complete_call(&mut call, &head, &bytes) {
                return Ok(plan.refuse(rejection));
            }
            let body = ReplayBody::whole(bytes, trailers);
            match call {
                Some(call) => (call.claim(), body),
                None => return Box::pin(pass(inner, head, body)).await,
            }
        };
        let running = match claim.await {
            Ok(running) => running,
            Err(refusal) => return Ok(plan.answer_duplicate(refusal)),
        };
        add_context(&mut head, &running);
        let request = Request::from_parts(head, body);
        let options = (plan.rules(), Arc::clone(plan.options));
        let finish = finish(running, options, inner, request);
        match finish.await {
            Ok(answer) => Ok(answer?.into_response(config.marker.as_ref())),
            Err(error) => Ok(plan.refuse(Rejection::of(error, None, plan.lang))),
        }
    }
}

/// Runs the handler of a request that is not guarded.
async fn pass<S, Q, B>(
    mut inner: S,
    head: request::Parts,
    body: ReplayBody<Q>,
) -> Result<Response<ReplayBody<B>>, S::Error>
where
    S: Service<Request<ReplayBody<Q>>, Response = Response<B>>,
    Q: Body,
    B: Body,
{
    let response = inner.call(Request::from_parts(head, body)).await?;
    Ok(response.map(ReplayBody::inner))
}

/// How a request is guarded.
struct Plan<'a> {
    config: &'a Config,
    options: &'a Arc<RouteOptions>,
    lang: Lang,
    /// Refusals are for a client of gRPC.
    is_grpc: bool,
    /// The request calls a unary method of gRPC.
    is_unary: bool,
}

impl<'a> Plan<'a> {
    fn new(config: &'a Config, head: &request::Parts) -> Self {
        Self {
            config,
            options: config.options_for(head),
            lang: lang::from_headers(&head.headers),
            is_grpc: config.is_grpc(head),
            is_unary: config.unary_method(head).is_some(),
        }
    }

    fn rules(&self) -> Rules {
        if self.is_unary {
            Rules::Grpc
        } else {
            Rules::Http(self.config.table)
        }
    }

    fn refuse<B: Body>(&self, rejection: Rejection) -> Response<ReplayBody<B>> {
        self.config.refuse(rejection, self.is_grpc)
    }

    /// Whether the body may have the key. Only JSON can have it: another body is not read into memory to look for a key.
    fn may_have_key_in_body(&self, head: &request::Parts) -> bool {
        self.config.key.is_in_body() && is_json(head.headers.get(header::CONTENT_TYPE))
    }

    /// The call with its key, without its payload. `None` if the request has no key, or an outer layer has claimed the key.
    fn keyed_call(&self, head: &request::Parts, body: &[u8]) -> Result<Option<Call>, Rejection> {
        let Some(key) = self.config.key(head, body, self.options, self.lang)? else {
            return Ok(None);
        };
        let call = self.config.call(head, self.options, &key, self.lang)?;
        if is_claimed_outside(head, &call) {
            return Ok(None);
        }
        Ok(Some(call))
    }

    /// Adds the payload to the call. Without a call it looks for a key in the body first; `call` is still `None` if the body has
    /// no key, or an outer layer has claimed the key.
    fn complete_call(
        &self,
        call: &mut Option<Call>,
        head: &request::Parts,
        body: &Bytes,
    ) -> Result<(), Rejection> {
        if call.is_none() {
            *call = self.keyed_call(head, body)?;
        }
        let Some(call) = call else {
            return Ok(());
        };
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let payload = self.options.payload.as_ref();
        let payload = payload.unwrap_or(&Payload::RAW);
        let digest = payload.digest(content_type, body);
        let digest = digest.map_err(|fault| Rejection::from(fault.problem(self.lang)))?;
        let uri = incoming::original_uri(head);
        call.payload(head.method.as_str());
        call.payload(uri.path());
        call.payload(&uri.query());
        call.payload(&payload::essence(content_type));
        call.payload_array(&digest);
        Ok(())
    }

    /// The stored response of an equal request, or why there is none.
    fn answer_duplicate<B: Body>(&self, refusal: Refusal) -> Response<ReplayBody<B>> {
        let location = OnceLock::new();
        let reader = WholeResponse {
            location: &location,
        };
        match refusal.read::<Answer<B>, _>(reader) {
            Ok(answer) => answer.into_response(self.config.marker.as_ref()),
            Err(error) => {
                let rejection = Rejection::of(error, location.into_inner(), self.lang);
                self.refuse(rejection)
            }
        }
    }

    fn unread(&self, unread: Unread) -> Rejection {
        match unread {
            Unread::TooLarge => Rejection::too_large(self.options.request_limit, self.lang),
            Unread::Broken => Rejection::broken(self.lang),
            Unread::Malformed => Rejection::undecodable(self.lang),
        }
    }
}

/// Runs the handler and ends its call. If this is dropped, both continue in their own task.
fn finish<S, Q, B>(
    mut held: Held,
    (rules, options): (Rules, Arc<RouteOptions>),
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
    held.mark_after_panic();
    Finish::new(shared, async move {
        let mut held = held;
        let mut outcome = {
            let mut handler = pin!(async {
                let response = inner.call(request).await?;
                Ok(Answer::of(response, &options, rules, results).await)
            });
            poll_fn(|context| held.poll_body(context, handler.as_mut())).await?
        };
        if let Ok(answer) = &mut outcome
            && !is_claimed
        {
            answer.set_unguarded();
        }
        match &mut outcome {
            Ok(answer) if answer.decision() == Decision::Hold => {
                if !held.hold() {
                    answer.settled(SettleOutcome::Closed);
                }
            }
            Ok(answer) => {
                let settled = held.settle(answer.take_outcome()).await;
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
