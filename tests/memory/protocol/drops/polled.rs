//! A call that is polled by hand.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::yield_now;

/// A future that only the test polls, even if it was woken.
pub(crate) struct Polled<T> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    output: Option<T>,
    task: Arc<Task>,
}

/// The waker. Every owner of the waker has a reference to this.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

impl<T> Polled<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            future: Some(Box::pin(future)),
            output: None,
            task: Arc::new(Task),
        }
    }

    /// Polls the future once and lets woken tasks run. Returns whether the future has ended, also by a panic.
    pub(crate) async fn poll(&mut self) -> bool {
        if let Some(future) = &mut self.future {
            let waker = Waker::from(Arc::clone(&self.task));
            let mut context = Context::from_waker(&waker);
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
            if !matches!(polled, Ok(Poll::Pending)) {
                self.future = None;
            }
            if let Ok(Poll::Ready(output)) = polled {
                self.output = Some(output);
            }
        }
        yield_now().await;
        self.future.is_none()
    }

    /// Polls the future `polls` times or until it ends. Returns whether it has ended.
    pub(crate) async fn poll_times(&mut self, polls: usize) -> bool {
        for _ in 0..polls {
            if self.poll().await {
                return true;
            }
        }
        false
    }

    /// Drops the future.
    pub(crate) fn drop(mut self) -> Dropped {
        self.future = None;
        Dropped(self.task)
    }

    /// Awaits the future in the task of the test.
    pub(crate) async fn finish(self) -> T {
        match self.future {
            Some(future) => future.await,
            None => self.output.expect("the future has not panicked"),
        }
    }
}

/// The waker of a dropped call.
pub(crate) struct Dropped(Arc<Task>);

impl Dropped {
    /// Whether anything still has the waker.
    pub(crate) fn has_waker(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
