//! The future of the service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use crate::body::ReplayBody;
use crate::context::IdempotencyOutcome;
use crate::layer::config::{Config, RefusalForm};
use crate::profile::stamp::Stamp;

pin_project! {
    /// The future of [`IdempotencyService`](crate::IdempotencyService).
    pub struct ResponseFuture<F, B, E>
    where
        B: Body,
    {
        #[pin]
        pub(crate) step: Step<F, B, E>,
    }
}

/// The response to a guarded request.
type Guarded<B, E> = Pin<Box<dyn Future<Output = Result<Response<ReplayBody<B>>, E>> + Send>>;

pin_project! {
    #[project = StepProjection]
    pub(crate) enum Step<F, B, E>
    where
        B: Body,
    {
        /// The request is not guarded.
        Passed { config: Arc<Config>, form: RefusalForm, #[pin] future: F },
        Guarded { stamp: Stamp, future: Guarded<B, E> },
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
            StepProjection::Passed {
                config,
                form,
                future,
            } => {
                let polled = future.poll(cx);
                polled.map_ok(|response| config.reformed(response, *form))
            }
            StepProjection::Guarded { stamp, future } => {
                let polled = future.as_mut().poll(cx);
                polled.map_ok(|response| stamped(stamp, response))
            }
        }
    }
}

/// The response to a guarded request, with what the convention adds to it.
pub(crate) fn stamped<B>(stamp: &mut Stamp, mut response: Response<B>) -> Response<B> {
    let outcome = response.extensions().get::<IdempotencyOutcome>();
    let is_answered = outcome.is_some_and(|outcome| *outcome != IdempotencyOutcome::Refused);
    std::mem::take(stamp).add(is_answered, &mut response);
    response
}

impl<F, B: Body, E> fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
