//! [`ContinueLayer`] as a `Transform`, and the service that it makes.

use std::future::{Future, Ready, ready};
use std::task::{Context, Poll};

use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::{Error, HttpMessage as _};

use super::local::detach_local;
use crate::continue_layer::{ContinueFuture, ContinueLayer};
use crate::running::Running;

/// The service that [`ContinueLayer`] makes of a service of actix.
#[derive(Debug)]
pub struct ActixContinueService<S>(S);

/// For `App::wrap` of actix: the last `wrap` is the outermost.
impl<S, B> Transform<S, ServiceRequest> for ContinueLayer
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
{
    type Response = ServiceResponse<B>;
    type Error = Error;
    type Transform = ActixContinueService<S>;
    type InitError = ();
    type Future = Ready<Result<ActixContinueService<S>, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        ready(Ok(ActixContinueService(service)))
    }
}

impl<S, B> Service<ServiceRequest> for ActixContinueService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: Future + 'static,
{
    type Response = ServiceResponse<B>;
    type Error = Error;
    type Future = ContinueFuture<S::Future>;

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let running = Running::default();
        request.extensions_mut().insert(running.clone());
        ContinueFuture::new(running, self.0.call(request), detach_local)
    }
}
