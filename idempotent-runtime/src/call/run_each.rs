//! Runs a call for each item of a batch, several at a time.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, FuturesUnordered};
use futures_util::{Stream, StreamExt as _};

use crate::call::builder::GuardedCall;

/// The outcomes of the calls of [`GuardedCall::run_each`], in the order in which the calls end: a [`Stream`] with its own
/// [`next`](Self::next), so that no other crate is needed.
///
/// The calls run only while the stream is polled. Do slow work on an outcome in another task: else the running calls wait for it, and
/// their duplicates, too.
#[must_use = "the calls run only while their outcomes are awaited"]
pub struct RunEach<S>(Pin<Box<S>>);

impl<A: Clone, K, T> GuardedCall<A, K, T> {
    /// Runs a call for each item, at most `limit` at a time. `run` gets a copy of this call and an item. It gives the copy its key, and
    /// runs it.
    ///
    /// The result is a stream of what `run` returns, in the order in which the calls end. So a slow call delays no other outcome, and
    /// `run` usually returns the item, or its number, together with the outcome. The calls are ordinary calls, each with its own claim,
    /// lease, events and outcome. An error of one call stops no other. Items with equal keys are duplicates of each other.
    ///
    /// Operations of calls that run at the same time go together to a Redis or a database (see `RedisOptions::batch` and
    /// `SqlStore::batch`), so a batch is much faster than a loop that awaits each call.
    ///
    /// An item is taken from `items` when its call begins, so `items` may be a long iterator that reads a file. Items and `run` may
    /// borrow. A `limit` of 0 is 1: the calls run one after another. A body that needs its context is run by
    /// [`run_with`](Self::run_with).
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use idempotence::{Error, Idempotency, MemoryStore};
    ///
    /// let rows = [(1, "tea"), (2, "milk"), (1, "tea")];
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let import = idempotency.call("import.row").ttl(Duration::from_hours(24));
    /// let mut outcomes = import.run_each(rows, 64, |call, (number, article)| async move {
    ///     let outcome = call.key(&number).run(async { Ok::<_, Error>(article.len()) });
    ///     (number, outcome.await)
    /// });
    ///
    /// let (mut imported, mut duplicates) = (0, 0);
    /// while let Some((number, outcome)) = outcomes.next().await {
    ///     match outcome {
    ///         Ok(_) => imported += 1,
    ///         Err(error) if error.is_duplicate() => duplicates += 1,
    ///         Err(error) => eprintln!("row {number}: {error}"),
    ///     }
    /// }
    /// assert_eq!((imported, duplicates), (2, 1));
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// A panic of a body unwinds out of the stream, as with `buffer_unordered`. The key of its call stays taken until the lease
    /// ends. If the panic goes on, it drops the stream, and with it the running calls, as below. If it is caught, the next poll
    /// of the stream continues the other calls, and no outcome of theirs is lost. To keep a panic inside its
    /// call, return `tokio::spawn(call.key(&number).run(import(row)))` from `run`: its outcome is then a `JoinError`, and a drop
    /// of the stream does not stop the call.
    ///
    /// # Cancellation
    ///
    /// If the stream is dropped, the running calls are dropped: [`on_cancel`](Self::on_cancel) decides about their keys, and each
    /// has its event. The calls of later items never begin.
    pub fn run_each<I, F, R>(
        self,
        items: I,
        limit: usize,
        run: F,
    ) -> RunEach<impl Stream<Item = R::Output>>
    where
        I: IntoIterator,
        F: FnMut(Self, I::Item) -> R,
        R: Future,
    {
        self.run_each_of(stream::iter(items), limit, run)
    }

    /// Does the same as [`run_each`](Self::run_each), with items from a stream: from a consumer of messages, or from a query of a
    /// database. The next item is awaited only while fewer than `limit` calls run.
    pub fn run_each_of<I, F, R>(
        self,
        items: I,
        limit: usize,
        run: F,
    ) -> RunEach<impl Stream<Item = R::Output>>
    where
        I: Stream,
        F: FnMut(Self, I::Item) -> R,
        R: Future,
    {
        RunEach(Box::pin(RunningBatch {
            call: self,
            items: Some(Box::pin(items)),
            run,
            limit: limit.max(1),
            running: FuturesUnordered::new(),
        }))
    }
}

/// The calls of a batch.
struct RunningBatch<C, I, F, R> {
    call: C,
    /// `None` after the last item.
    items: Option<Pin<Box<I>>>,
    run: F,
    limit: usize,
    running: FuturesUnordered<R>,
}

/// Nothing in it is pinned in place: the items and the futures are on the heap.
impl<C, I, F, R> Unpin for RunningBatch<C, I, F, R> {}

impl<A: Clone, K, T, I, F, R> RunningBatch<GuardedCall<A, K, T>, I, F, R>
where
    I: Stream,
    F: FnMut(GuardedCall<A, K, T>, I::Item) -> R,
    R: Future,
{
    /// Begins calls until `limit` calls run or no item is ready.
    fn begin_calls(&mut self, context: &mut Context<'_>) {
        while self.running.len() < self.limit
            && let Some(items) = &mut self.items
        {
            match items.as_mut().poll_next(context) {
                Poll::Ready(Some(item)) => {
                    let call = self.call.copied();
                    self.running.push((self.run)(call, item));
                }
                Poll::Ready(None) => self.items = None,
                Poll::Pending => break,
            }
        }
    }
}

impl<A: Clone, K, T, I, F, R> Stream for RunningBatch<GuardedCall<A, K, T>, I, F, R>
where
    I: Stream,
    F: FnMut(GuardedCall<A, K, T>, I::Item) -> R,
    R: Future,
{
    type Item = R::Output;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R::Output>> {
        self.begin_calls(context);
        match self.running.poll_next_unpin(context) {
            // No call runs, but more items may come.
            Poll::Ready(None) if self.items.is_some() => Poll::Pending,
            polled => polled,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let items = self.items.as_ref();
        let (least, most) = items.map_or((0, Some(0)), Stream::size_hint);
        let running = self.running.len();
        (
            least.saturating_add(running),
            most.and_then(|most| most.checked_add(running)),
        )
    }
}

impl<S: Stream> RunEach<S> {
    /// Runs the calls until one of them ends, and returns its outcome. `None` after the last outcome.
    ///
    /// # Cancellation
    ///
    /// If this future is dropped, no call is dropped, and no outcome is lost: the calls continue with the next poll of the stream.
    pub async fn next(&mut self) -> Option<S::Item> {
        poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl<S: Stream> Stream for RunEach<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.0.as_mut().poll_next(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<S> fmt::Debug for RunEach<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEach").finish_non_exhaustive()
    }
}
