//! The layer as a `Transform`, and the service that it makes.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::http::Response;
use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::error::ErrorBadRequest;
use actix_web::http::header;
use pin_project_lite::pin_project;

use super::body::{GuardedBody, RequestBody, ResponseBody};
use super::convert;
use super::local::{Local, LocalHandler};
use crate::body::ReplayBody;
use crate::layer::IdempotencyLayer;
use crate::layer::config::{Config, Guarding, RefusalForm};
use crate::layer::future::stamped;
use crate::layer::guard;
use crate::profile::stamp::Stamp;

/// The service that [`IdempotencyLayer`] makes of a service of actix.
pub struct ActixService<S> {
    service: Rc<S>,
    config: Arc<Config>,
}

/// For `App::wrap`, `Scope::wrap` and `Resource::wrap` of actix.
impl<S, B> Transform<S, ServiceRequest> for IdempotencyLayer
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<GuardedBody<B>>;
    type Error = Error;
    type Transform = ActixService<S>;
    type InitError = ();
    type Future = Ready<Result<ActixService<S>, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        ready(Ok(ActixService {
            service: Rc::new(service),
            config: Arc::clone(self.config()),
        }))
    }
}

impl<S, B> Service<ServiceRequest> for ActixService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<GuardedBody<B>>;
    type Error = Error;
    type Future = ActixFuture<S::Future, B>;

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let step = if request.method().is_safe() {
            // Such a request is never guarded, so its head need not be converted.
            self.pass(request, RefusalForm::Convention)
        } else {
            self.guard(request)
        };
        ActixFuture { step }
    }
}

impl<S, B> ActixService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    fn pass(&self, request: ServiceRequest, form: RefusalForm) -> ServiceStep<S::Future, B> {
        ServiceStep::Passed {
            config: Arc::clone(&self.config),
            form,
            future: self.service.call(request),
        }
    }

    fn guard(&self, request: ServiceRequest) -> ServiceStep<S::Future, B> {
        let Some(head) = convert::head_of(request.request()) else {
            let error = ErrorBadRequest("the method or the URI of the request cannot be read");
            return ServiceStep::answered(Err(error));
        };
        match self.config.guarding(&head) {
            Guarding::No => self.pass(request, self.config.refusal_form(&head)),
            Guarding::Unsupported => {
                let local = Local::new(request.into_parts().0);
                ServiceStep::answered(local.respond(self.config.refuse_unguarded(&head)))
            }
            Guarding::Maybe => {
                let stamp = self.config.stamp(&head);
                let length = head.headers.get(header::CONTENT_LENGTH.as_str());
                let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
                let (request, payload) = request.into_parts();
                let local = Local::new(request);
                let handler = LocalHandler::new(Rc::clone(&self.service), local.clone());
                let body = RequestBody::new(payload, length);
                let guarded = guard::guard(Arc::clone(&self.config), handler, head, body);
                let future = Box::pin(guarded);
                ServiceStep::Guarded {
                    stamp,
                    local,
                    future,
                }
            }
        }
    }
}

pin_project! {
    /// The future of [`ActixService`].
    pub struct ActixFuture<F, B>
    where
        B: MessageBody,
    {
        #[pin]
        step: ServiceStep<F, B>,
    }
}

/// The response to a guarded request.
type GuardedLocal<B> =
    Pin<Box<dyn Future<Output = Result<Response<ReplayBody<ResponseBody<B>>>, Error>>>>;

pin_project! {
    #[project = StepProjection]
    enum ServiceStep<F, B>
    where
        B: MessageBody,
    {
        /// The request is not guarded.
        Passed { config: Arc<Config>, form: RefusalForm, #[pin] future: F },
        Guarded { stamp: Stamp, local: Local, future: GuardedLocal<B> },
        Answered { answer: Option<Answered<B>> },
    }
}

type Answered<B> = Result<ServiceResponse<GuardedBody<B>>, Error>;

impl<F, B: MessageBody> ServiceStep<F, B> {
    fn answered(answer: Answered<B>) -> Self {
        let answer = Some(answer);
        Self::Answered { answer }
    }
}

impl<F, B> Future for ActixFuture<F, B>
where
    F: Future<Output = Result<ServiceResponse<B>, Error>>,
    B: MessageBody + 'static,
{
    type Output = Answered<B>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().step.project() {
            StepProjection::Passed {
                config,
                form,
                future,
            } => {
                let polled = future.poll(cx);
                polled.map_ok(|response| convert::reformed(config, response, *form))
            }
            StepProjection::Guarded {
                stamp,
                local,
                future,
            } => {
                let response = ready!(future.as_mut().poll(cx))?;
                Poll::Ready(local.respond(stamped(stamp, response)))
            }
            StepProjection::Answered { answer } => answer.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

impl<S> fmt::Debug for ActixService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActixService").finish_non_exhaustive()
    }
}

impl<F, B: MessageBody> fmt::Debug for ActixFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActixFuture").finish_non_exhaustive()
    }
}
