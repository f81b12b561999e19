//! Guards one request: reads it, claims its key, and runs its handler or answers in its place. It knows neither `tower` nor
//! another framework.

use std::error::Error as StdError;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use ::http::{Request, Response, header, request};
use bytes::Bytes;
use http_body::Body;
use idempotent_runtime::Error;
use idempotent_runtime::port::http::{Call, Held, Refusal, SettleOutcome, Shared, lang};

use crate::body::ReplayBody;
use crate::catalog;
use crate::context::{add_context, is_claimed_outside};
use crate::layer::answer::{Answer, Rules, WholeResponse};
use crate::layer::config::{Config, RefusalForm};
use crate::layer::options::RouteOptions;
use crate::rejection::Rejection;
use crate::request::incoming::{self, Unread};
use crate::request::payload::{Payload, PayloadHead};
use crate::request::scope::FindScope;
use crate::response::decision::Decision;
use crate::running::Running;

/// What a framework has inside of the guard: runs the handler of one request, whose body is a `Q`. The body of its response is a
/// `B`.
pub(crate) trait Handler<Q: Body, B: Body>: FindScope {
    /// Not a response, for example of a service of `tower`.
    type Error;
    type Pass: Future<Output = Result<Response<B>, Self::Error>>;
    type Finish: Future<Output = Result<Result<Answer<B>, Self::Error>, Error>>;

    /// Runs the handler of a request that is not guarded.
    fn pass(self, request: Request<ReplayBody<Q>>) -> Self::Pass;

    /// Runs the handler and ends its call by [`Ending::after`]. If the future is dropped, both continue in their own task.
    fn finish(self, ending: Ending, request: Request<ReplayBody<Q>>) -> Self::Finish;
}

/// How the call of a handler ends.
pub(crate) struct Ending {
    config: Arc<Config>,
    form: RefusalForm,
    held: Held,
    rules: Rules,
    options: Arc<RouteOptions>,
    running: Option<Running>,
}

impl Ending {
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(self.held.shared())
    }

    /// Runs the handler, whose future `call` makes, then stores its response, frees its key, or holds it.
    pub(crate) fn after<F, B, E>(
        self,
        call: impl FnOnce() -> F,
    ) -> impl Future<Output = Result<Result<Answer<B>, E>, Error>>
    where
        F: Future<Output = Result<Response<B>, E>>,
        B: Body<Data = Bytes>,
    {
        let Self {
            config,
            form,
            mut held,
            rules,
            options,
            running,
        } = self;
        let running = running.map(|running| running.begin(held.shared()));
        let results = held.shared().result_options();
        let is_claimed = held.is_claimed();
        held.mark_after_panic();
        // Made here and boxed, because the future below would have room for the request and for the future of the handler, and
        // an allocation of more than a kilobyte takes several times as long.
        let response = Box::pin(held.in_span(call));
        async move {
            let _running = running;
            let mut held = held;
            let mut outcome = {
                let mut body = pin!(async {
                    let response = config.reformed(response.await?, form);
                    Ok(Answer::of(response, &options, rules, results).await)
                });
                poll_fn(|context| held.poll_body(context, body.as_mut())).await?
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
        }
    }
}

/// Reads the body, claims the key, and runs the handler or answers in its place.
#[expect(
    clippy::manual_async_fn,
    reason = "the future of an `async fn` stores its arguments twice"
)]
pub(crate) fn guard<H, Q, B>(
    config: Arc<Config>,
    handler: H,
    mut head: request::Parts,
    body: Q,
) -> impl Future<Output = Result<Response<ReplayBody<B>>, H::Error>>
where
    H: Handler<Q, B>,
    Q: Body<Data = Bytes>,
    Q::Error: Into<Box<dyn StdError + Send + Sync>>,
    B: Body<Data = Bytes>,
{
    async move {
        let plan = Plan::new(&config, &head);
        // The block ends before the claim is awaited, because a future has room for each variable that exists at an `await`.
        let (claim, body) = {
            let mut call = None;
            if !config.key.needs_body(&head) {
                match plan.keyed_call(&handler, &head, &[]) {
                    Ok(None) => {
                        return Box::pin(pass(&plan, handler, head, ReplayBody::inner(body))).await;
                    }
                    Ok(keyed) => call = keyed,
                    Err(rejection) => return Ok(plan.refuse(rejection)),
                }
            }
            let read = incoming::read_body(body, plan.options.request_limit);
            let (bytes, trailers) = match read.await {
                Ok(read) => read,
                Err(unread) => return Ok(plan.refuse(plan.unread(unread, &head))),
            };
            if let Err(rejection) = plan.complete_call(&mut call, &handler, &head, &bytes) {
                return Ok(plan.refuse(rejection));
            }
            let body = ReplayBody::whole(bytes, trailers);
            match call {
                Some(call) => (call.claim(), body),
                None => return Box::pin(pass(&plan, handler, head, body)).await,
            }
        };
        let running = match claim.await {
            Ok(running) => running,
            Err(refusal) => return Ok(plan.answer_duplicate(refusal, &head)),
        };
        add_context(&mut head, &running);
        let ending = plan.ending(running, &head);
        let lang = lang::from_headers(&head.headers);
        let finish = handler.finish(ending, Request::from_parts(head, body));
        match finish.await {
            Ok(answer) => Ok(answer?.into_response(&config.marks())),
            Err(error) => Ok(plan.refuse(Rejection::new(error, None, lang))),
        }
    }
}

/// Runs the handler of a request that is not guarded.
async fn pass<H, Q, B>(
    plan: &Plan<'_>,
    handler: H,
    head: request::Parts,
    body: ReplayBody<Q>,
) -> Result<Response<ReplayBody<B>>, H::Error>
where
    H: Handler<Q, B>,
    Q: Body,
    B: Body,
{
    let response = handler.pass(Request::from_parts(head, body)).await?;
    Ok(plan.config.reformed(response, plan.form))
}

/// How a request is guarded.
struct Plan<'a> {
    config: &'a Arc<Config>,
    options: &'a Arc<RouteOptions>,
    /// The form of refusals.
    form: RefusalForm,
    /// The request calls a unary method of gRPC.
    is_unary: bool,
}

impl<'a> Plan<'a> {
    fn new(config: &'a Arc<Config>, head: &request::Parts) -> Self {
        Self {
            config,
            options: config.options_for(head),
            form: config.refusal_form(head),
            is_unary: config.unary_method(head).is_some(),
        }
    }

    /// How the call of this claim ends.
    fn ending(&self, claim: Held, head: &request::Parts) -> Ending {
        let rules = if self.is_unary {
            Rules::Grpc
        } else {
            Rules::Http(self.config.table)
        };
        Ending {
            config: Arc::clone(self.config),
            form: self.form,
            held: claim,
            rules,
            options: Arc::clone(self.options),
            running: head.extensions.get::<Running>().cloned(),
        }
    }

    fn refuse<B: Body>(&self, rejection: Rejection) -> Response<ReplayBody<B>> {
        self.config.refuse(rejection, self.form)
    }

    /// The call with its key, without its payload. `None` if the request has no key, or an outer layer has claimed the key.
    fn keyed_call(
        &self,
        caller: &dyn FindScope,
        head: &request::Parts,
        body: &[u8],
    ) -> Result<Option<Box<Call>>, Rejection> {
        let Some(key) = self.config.key(head, body, self.options)? else {
            return Ok(None);
        };
        let call = self.config.call(caller, head, self.options, &key)?;
        if is_claimed_outside(head, &call) {
            return Ok(None);
        }
        Ok(Some(call))
    }

    /// Adds the payload to the call. Without a call it looks for a key in the body first; `call` is still `None` if the body has
    /// no key, or an outer layer has claimed the key.
    fn complete_call(
        &self,
        call: &mut Option<Box<Call>>,
        caller: &dyn FindScope,
        head: &request::Parts,
        body: &Bytes,
    ) -> Result<(), Rejection> {
        if call.is_none() {
            *call = self.keyed_call(caller, head, body)?;
        }
        let Some(call) = call else {
            return Ok(());
        };
        let payload = self.options.payload.as_ref();
        let payload = payload.unwrap_or(&Payload::RAW);
        let counted = PayloadHead {
            method: &head.method,
            uri: incoming::original_uri(head),
            content_type: head.headers.get(header::CONTENT_TYPE),
        };
        let digest = payload.digest(&counted, body);
        let digest = digest.map_err(|fault| fault.problem(lang::from_headers(&head.headers)))?;
        call.whole_payload(&digest);
        Ok(())
    }

    /// The stored response of an equal request, or why there is none.
    fn answer_duplicate<B: Body>(
        &self,
        refusal: Refusal,
        head: &request::Parts,
    ) -> Response<ReplayBody<B>> {
        let location = OnceLock::new();
        let reader = WholeResponse {
            location: &location,
        };
        match refusal.read::<Answer<B>, _>(reader) {
            Ok(answer) => answer.into_response(&self.config.marks()),
            Err(error) => {
                let lang = lang::from_headers(&head.headers);
                let rejection = Rejection::new(error, location.into_inner(), lang);
                self.refuse(rejection)
            }
        }
    }

    fn unread(&self, unread: Unread, head: &request::Parts) -> Rejection {
        let lang = lang::from_headers(&head.headers);
        let problem = match unread {
            Unread::TooLarge => {
                let limit = self.options.request_limit.to_string();
                catalog::REQUEST_TOO_LARGE.problem(&limit, lang)
            }
            Unread::Broken => catalog::REQUEST_BROKEN.problem("", lang),
            Unread::Malformed => catalog::REQUEST_MALFORMED.problem("", lang),
        };
        problem.into()
    }
}
