//! The handler of one request, and what it has that is not `Send`.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{Request, Response, request};
use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::error::{ErrorInternalServerError, InternalError};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};

use super::body::{GuardedBody, RequestBody, ResponseBody, payload_of};
use super::convert;
use crate::call::Call;
use crate::call::finish::{Detach, Finish, Rest};
use crate::error::Error;
use crate::http::answer::Answer;
use crate::http::body::ReplayBody;
use crate::http::context::{IdempotencyOutcome, write_context};
use crate::http::guard::{Ending, Handler};
use crate::http::scope::{FindScope, MissingScope, Scope, Seen};

/// What a request and its response have in actix beside their heads and bodies.
#[derive(Clone, Default)]
pub(super) struct Local(Rc<RefCell<Parts>>);

#[derive(Default)]
struct Parts {
    /// Not while the handler runs: actix needs the only reference then.
    request: Option<HttpRequest>,
    /// The response of the handler, without its body.
    response: Option<HttpResponse<()>>,
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
        let Parts { request, response } = self.0.take();
        let status = actix_web::http::StatusCode::from_u16(head.status.as_u16());
        let status = status.map_err(ErrorInternalServerError)?;
        // A refusal has nothing of the response of the handler, which came too late.
        let outcome = head.extensions.get::<IdempotencyOutcome>();
        let response = response.filter(|_| outcome != Some(&IdempotencyOutcome::Refused));
        let mut response = response.unwrap_or_else(|| HttpResponse::with_body(status, ()));
        *response.status_mut() = status;
        *response.headers_mut() = convert::old_headers(&head.headers);
        {
            let mut local = response.extensions_mut();
            if let Some(outcome) = outcome {
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
        // The request went with its handler, which was stopped because its lease was lost.
        let response = response.map_into_boxed_body();
        Err(InternalError::from_response("the handler was stopped", response).into())
    }
}

/// The handler of one request.
pub(super) struct LocalHandler<S> {
    service: Rc<S>,
    local: Local,
}

impl<S> Clone for LocalHandler<S> {
    fn clone(&self) -> Self {
        Self::new(Rc::clone(&self.service), self.local.clone())
    }
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
        drop(actix_web::rt::spawn(rest.run()));
    }
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
        let call = |handler: &mut Self, request| handler.clone().call(request);
        let run = ending.after(self, request, call);
        Finish::of(shared, LocalRun(Box::pin(run)))
    }
}
