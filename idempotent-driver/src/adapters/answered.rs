//! A `BEGIN` of sqlx that gets its answer, even if its caller is gone.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Waits for a transaction that begins. If it is dropped before, the transaction begins in a task of its own, and is dropped there, which
/// rolls it back.
///
/// sqlx counts a transaction of PostgreSQL only after the answer to `BEGIN` (<https://github.com/transact-rs/sqlx/issues/4393>). A connection
/// whose `BEGIN` is given up would return to the pool in a transaction that nobody ends, and the next statements of the pool would not be
/// committed.
pub(crate) struct Answered<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Answered<T> {
    pub(crate) fn new(begin: BoxFuture<'static, T>) -> Self {
        Self(Some(begin))
    }
}

impl<T: Send + 'static> Future for Answered<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(begin) = &mut self.0 else {
            return Poll::Pending;
        };
        let answer = begin.as_mut().poll(cx);
        if answer.is_ready() {
            self.0 = None;
        }
        answer
    }
}

impl<T: Send + 'static> Drop for Answered<T> {
    fn drop(&mut self) {
        if let Some(begin) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            drop(runtime.spawn(begin));
        }
    }
}
