//! A call that runs to its end, even if its caller drops it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::error::Error;
use crate::handle::Idempotency;
use crate::protocol::shared::Shared;

/// The body and the settling of a call with `on_cancel = "finish"`.
///
/// # Cancellation
///
/// If it is dropped after its first poll, it continues in its own task, inside the scope and the span of the caller. After a
/// panic, or without a runtime, it does not continue: the key stays taken until the lease expires.
pub struct Finish<R: Send + 'static> {
    shared: Arc<Shared>,
    run: Option<Run<R>>,
    caller: Option<Caller>,
    polling: bool,
}

type Run<R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>;

struct Caller {
    runtime: Handle,
    scope: Option<Idempotency>,
    span: tracing::Span,
}

impl<R: Send + 'static> Finish<R> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        run: impl Future<Output = Result<R, Error>> + Send + 'static,
    ) -> Self {
        Self {
            shared,
            run: Some(Box::pin(run)),
            caller: None,
            polling: false,
        }
    }
}

impl<R: Send + 'static> Future for Finish<R> {
    type Output = Result<R, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.caller.is_none() {
            this.caller = Handle::try_current().ok().map(|runtime| Caller {
                runtime,
                scope: Idempotency::scoped(),
                span: tracing::Span::current(),
            });
        }
        let Some(run) = &mut this.run else {
            return Poll::Pending;
        };
        this.polling = true;
        let polled = run.as_mut().poll(cx);
        this.polling = false;
        if polled.is_ready() {
            this.run = None;
        }
        polled
    }
}

impl<R: Send + 'static> Drop for Finish<R> {
    fn drop(&mut self) {
        let (Some(run), Some(caller), false) = (self.run.take(), self.caller.take(), self.polling)
        else {
            return;
        };
        let token = self.shared.tracker().track();
        let run = async move {
            drop(run.await);
            drop(token);
        };
        let run = run.instrument(caller.span);
        match caller.scope {
            Some(scope) => drop(caller.runtime.spawn(async move { scope.scope(run).await })),
            None => drop(caller.runtime.spawn(run)),
        }
    }
}

impl<R: Send + 'static> fmt::Debug for Finish<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finish").finish_non_exhaustive()
    }
}
