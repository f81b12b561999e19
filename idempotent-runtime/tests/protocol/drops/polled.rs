//! A call that is polled by hand.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::yield_now;

/// A future that is polled when the test says so, whoever wakes it.
pub(crate) struct Polled<T> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    output: Option<T>,
    task: Arc<Task>,
}

/// Whoever knows it as a waker has a reference to it.
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

    /// Polls it once, and lets happen what that woke. Whether it is over, also by a panic.
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

    /// Polls it so often, or until it is over; whether it is.
    pub(crate) async fn poll_times(&mut self, polls: usize) -> bool {
        for _ in 0..polls {
            if self.poll().await {
                return true;
            }
        }
        false
    }

    /// Drops it, wherever it is.
    pub(crate) fn drop(mut self) -> Dropped {
        self.future = None;
        Dropped(self.task)
    }

    /// Goes on with it in the task of the test.
    pub(crate) async fn end(self) -> T {
        match self.future {
            Some(future) => future.await,
            None => self.output.expect("it has not panicked"),
        }
    }
}

/// What is left of a call that was dropped.
pub(crate) struct Dropped(Arc<Task>);

impl Dropped {
    /// Whether anybody would still wake it.
    pub(crate) fn is_known(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
