//! The handler of one request, and what it has that is not `Send`.

use std::cell::RefCell;
use std::future::{Future, ready};
use std::panic::catch_unwind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{Request, Response, StatusCode, request};
use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::error::{ErrorInternalServerError, InternalError};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use idempotent_runtime::Error;
use idempotent_runtime::port::http::{Call, Detach, Finish, Rest, old_headers};

use super::body::{GuardedBody, RequestBody, ResponseBody, payload_of};
use super::convert::{self, OfHandler};
use crate::body::ReplayBody;
use crate::context::{IdempotencyOutcome, write_context};
use crate::layer::answer::Answer;
use crate::layer::guard::{Ending, Handler};
use crate::request::scope::{FindScope, MissingScope, Scope, Seen};
use crate::response::decision::PerhapsStopped;

/// What a request and its response have in actix beside their heads and bodies.
#[derive(Clone, Default)]
pub(super) struct Local(Rc<RefCell<Parts>>);

#[derive(Default)]
struct Parts {
    /// Not while the handler runs: actix needs the only reference then.
    request: Option<HttpRequest>,
    /// The response of the handler, without its body.
    response: Option<HttpResponse<()>>,
    /// The error whose response it is.
    error: Option<actix_web::Error>,
}

impl Local {
    pub(super) fn new(request: HttpRequest) -> Self {
        let local = Self::default();
        local.0.borrow_mut().request = Some(request);
        local
    }

    /// The response in the types of actix. It keeps what the handler has added beside the head and the body.
    pub(super) fn respond<B: MessageBody + 'static>(
        &self,
        response: Response<ReplayBody<ResponseBody<B>>>,
    ) -> Result<ServiceResponse<GuardedBody<B>>, actix_web::Error> {
        let (head, body) = response.into_parts();
        let Parts {
            request,
            response,
            error,
        } = self.0.take();
        let status = actix_web::http::StatusCode::from_u16(head.status.as_u16());
        let status = status.map_err(ErrorInternalServerError)?;
        // A refusal has nothing of the response of the handler, which came too late.
        let is_of_handler = head.extensions.get::<OfHandler>().is_some();
        let response = response.filter(|_| is_of_handler);
        let mut response = response.unwrap_or_else(|| HttpResponse::with_body(status, ()));
        *response.status_mut() = status;
        *response.headers_mut() = old_headers(&head.headers);
        {
            let mut local = response.extensions_mut();
            if let Some(outcome) = head.extensions.get::<IdempotencyOutcome>() {
                local.insert(*outcome);
            }
            if let Some(error) = head.extensions.get::<Arc<Error>>() {
                local.insert(Arc::clone(error));
            }
        }
        let response = response.set_body(GuardedBody::new(body));
        if let Some(request) = request {
            return Ok(ServiceResponse::new(request, response));
        }
        // The request went with its handler, which was stopped because its lease was lost, or with an error.
        let response = response.map_into_boxed_body();
        Err(match error.filter(|_| is_of_handler) {
            Some(error) => InternalError::from_response(error, response).into(),
            None => InternalError::from_response("the handler was stopped", response).into(),
        })
    }

    /// The response of an error, which a middleware inside of the layer has returned.
    ///
    /// # Errors
    ///
    /// The error with its response, if the body of the response is a stream.
    fn answer<B>(
        &self,
        error: actix_web::Error,
    ) -> Result<Response<ResponseBody<B>>, actix_web::Error> {
        // Some errors have their response only once.
        let (response, body) = error.error_response().into_parts();
        let bytes = match body.try_into_bytes() {
            Ok(bytes) => bytes,
            Err(stream) => {
                let response = response.set_body(stream);
                return Err(InternalError::from_response(error, response).into());
            }
        };
        let head = convert::response_head_of(&response);
        let mut head =
            head.ok_or_else(|| ErrorInternalServerError("the response cannot be read"))?;
        if head.status == StatusCode::INTERNAL_SERVER_ERROR {
            head.extensions.insert(PerhapsStopped);
        }
        *self.0.borrow_mut() = Parts {
            request: None,
            response: Some(response),
            error: Some(error),
        };
        Ok(Response::from_parts(head, ResponseBody::of_error(bytes)))
    }
}

/// The handler of one request.
pub(super) struct LocalHandler<S> {
    service: Rc<S>,
    local: Local,
}

impl<S> LocalHandler<S> {
    pub(super) fn new(service: Rc<S>, local: Local) -> Self {
        Self { service, local }
    }

    async fn call<B>(
        self,
        request: Request<ReplayBody<RequestBody>>,
    ) -> Result<Response<ResponseBody<B>>, actix_web::Error>
    where
        S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = actix_web::Error>,
        B: MessageBody,
    {
        let (head, body) = request.into_parts();
        let request = self.local.0.borrow_mut().request.take();
        let request = request.ok_or_else(|| ErrorInternalServerError("the handler ran twice"))?;
        write_context(&head, &mut request.extensions_mut());
        let request = ServiceRequest::from_parts(request, payload_of(body));
        let (request, response) = self.service.call(request).await?.into_parts();
        let (response, body) = response.into_parts();
        let head = convert::response_head_of(&response);
        let head = head.ok_or_else(|| ErrorInternalServerError("the response cannot be read"))?;
        *self.local.0.borrow_mut() = Parts {
            request: Some(request),
            response: Some(response),
            error: None,
        };
        Ok(Response::from_parts(head, ResponseBody::new(body)))
    }
}

impl<S> FindScope for LocalHandler<S> {
    fn add_scope<'s>(
        &self,
        scope: &'s Scope,
        head: &request::Parts,
        call: &mut Call,
    ) -> Result<(), &'s MissingScope> {
        let local = self.local.0.borrow();
        let local = local.request.as_ref().map(|request| request.extensions());
        let local = local.as_deref();
        scope.add(Seen { head, local }, call)
    }
}

/// The outcome of a handler.
type Ended<B> = Result<Answer<ResponseBody<B>>, actix_web::Error>;

/// Continues on the thread of its worker.
pub(super) struct LocalRun<R>(Pin<Box<dyn Future<Output = Result<R, Error>>>>);

impl<R> Future for LocalRun<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<R: 'static> Detach<R> for LocalRun<R> {
    fn detach(rest: Rest<Self>) {
        detach_local(rest);
    }
}

/// Runs the rest of a request in its own task, on the thread of its worker.
pub(super) fn detach_local<F: Future + 'static>(rest: Rest<F>) {
    if can_spawn() {
        drop(actix_web::rt::spawn(rest.run()));
    } else {
        tracing::warn!(
            target: "idempotence", "a guarded request was dropped outside of a runtime of actix or a `LocalSet`, so its handler is stopped and its key stays taken until the lease ends"
        );
    }
}

/// Whether this thread can run a local task now. Tokio says it only by a panic.
fn can_spawn() -> bool {
    catch_unwind(|| drop(actix_web::rt::spawn(ready(())))).is_ok()
}

impl<S, B> Handler<RequestBody, ResponseBody<B>> for LocalHandler<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = actix_web::Error> + 'static,
    B: MessageBody + 'static,
{
    type Error = actix_web::Error;
    type Pass = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, Self::Error>>>>;
    type Finish = Finish<Ended<B>, LocalRun<Ended<B>>>;

    fn pass(self, request: Request<ReplayBody<RequestBody>>) -> Self::Pass {
        Box::pin(self.call(request))
    }

    fn finish(self, ending: Ending, request: Request<ReplayBody<RequestBody>>) -> Self::Finish {
        let shared = ending.shared();
        let run = ending.after(move || async move {
            let local = self.local.clone();
            // An `Err` is its response, as always in actix.
            let response = self.call(request).await;
            response.or_else(|error| local.answer(error))
        });
        Finish::from_run(shared, LocalRun(Box::pin(run)))
    }
}
