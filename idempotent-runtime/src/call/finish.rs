//! A call that runs to its end, even if its caller drops it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::error::Error;
use crate::handle::Idempotency;
use crate::protocol::shared::Shared;
use crate::protocol::tracker::TrackerToken;

/// The body and the settling of a call with `on_cancel = "finish"`. `T` is the task in which they continue.
///
/// # Cancellation
///
/// If it is dropped after its first poll, it continues in its own task, inside the scope and the span of the caller. After a
/// panic, or without a runtime, it does not continue: the key stays taken until the lease expires.
pub struct Finish<R, T: Detach<R> = RunFuture<R>> {
    shared: Arc<Shared>,
    run: Option<T>,
    caller: Option<Caller>,
    polling: bool,
    result: PhantomData<fn() -> R>,
}

/// A future that can continue in its own task.
pub trait Detach<R>: Future<Output = Result<R, Error>> + Unpin + Sized {
    /// Runs the rest of the future in its own task.
    fn detach(rest: Rest<Self>);
}

/// Continues on any thread of the runtime.
pub(crate) type RunFuture<R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>;

impl<R: Send + 'static> Detach<R> for RunFuture<R> {
    fn detach(rest: Rest<Self>) {
        let runtime = rest.caller.runtime.clone();
        drop(runtime.spawn(rest.run()));
    }
}

/// What is left of a dropped call.
pub struct Rest<T> {
    run: T,
    caller: Caller,
    token: TrackerToken,
    has_locals: bool,
}

impl<T> fmt::Debug for Rest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

impl<T> Rest<T> {
    /// The rest of a future that holds the task-locals of its caller inside. `drain` waits for it.
    pub fn with_locals(run: T, caller: Caller, shared: &Shared) -> Self {
        Self {
            run,
            caller,
            token: shared.tracker().track(),
            has_locals: true,
        }
    }

    /// The runtime of the caller.
    pub fn runtime(&self) -> &Handle {
        &self.caller.runtime
    }
}

impl<T: Future> Rest<T> {
    /// Runs it inside the scope and the span of the caller.
    pub async fn run(self) {
        let Self {
            run,
            caller,
            token,
            has_locals,
        } = self;
        let run = async move {
            let explained = ExplainPanic { has_locals };
            drop(run.await);
            drop(explained);
            drop(token);
        };
        let run = run.instrument(caller.span);
        match caller.scope {
            Some(scope) => scope.scope(run).await,
            None => run.await,
        }
    }
}

/// Logs a likely reason if the rest of a call panics.
struct ExplainPanic {
    has_locals: bool,
}

impl Drop for ExplainPanic {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.has_locals {
            tracing::warn!(
                target: "idempotence",
                "a call panicked after its caller had dropped it; its task has no task-locals of the caller: `http::ContinueLayer` outside of all middlewares keeps them"
            );
        }
    }
}

/// What a dropped future takes from its caller.
#[derive(Debug)]
pub struct Caller {
    runtime: Handle,
    scope: Option<Idempotency>,
    span: tracing::Span,
}

impl Caller {
    /// The caller of the future that is polled now. `None` without a runtime.
    pub fn current() -> Option<Self> {
        Some(Self {
            runtime: Handle::try_current().ok()?,
            scope: Idempotency::scoped(),
            span: tracing::Span::current(),
        })
    }
}

impl<R: Send + 'static> Finish<R> {
    /// The body and the settling of a call, which continue on any thread of the runtime.
    pub fn new(
        shared: Arc<Shared>,
        run: impl Future<Output = Result<R, Error>> + Send + 'static,
    ) -> Self {
        Self::from_run(shared, Box::pin(run))
    }
}

impl<R, T: Detach<R>> Finish<R, T> {
    /// A future that continues as its type says.
    pub fn from_run(shared: Arc<Shared>, run: T) -> Self {
        Self {
            shared,
            run: Some(run),
            caller: None,
            polling: false,
            result: PhantomData,
        }
    }
}

impl<R, T: Detach<R>> Future for Finish<R, T> {
    type Output = Result<R, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.caller.is_none() {
            this.caller = Caller::current();
        }
        let Some(run) = &mut this.run else {
            return Poll::Pending;
        };
        this.polling = true;
        let polled = Pin::new(run).poll(cx);
        this.polling = false;
        if polled.is_ready() {
            this.run = None;
        }
        polled
    }
}

impl<R, T: Detach<R>> Drop for Finish<R, T> {
    fn drop(&mut self) {
        if let (Some(run), Some(caller), false) =
            (self.run.take(), self.caller.take(), self.polling)
        {
            let token = self.shared.tracker().track();
            T::detach(Rest {
                run,
                caller,
                token,
                has_locals: false,
            });
        }
    }
}

impl<R, T: Detach<R>> fmt::Debug for Finish<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finish").finish_non_exhaustive()
    }
}
