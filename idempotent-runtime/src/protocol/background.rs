//! Background jobs on the store. No caller waits for them.

use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;

use crate::protocol::retry::{Backoff, StoreFuture};
use crate::protocol::scheduler::Scheduler;
use crate::protocol::shared::Shared;
use crate::protocol::tracker::TrackerToken;

/// A job that an operation leaves to the background when its caller stops waiting.
pub(crate) trait Job: Send + 'static {
    /// The handle whose store does the job.
    fn shared(&self) -> &Arc<Shared>;

    /// Does the job. The error says why the job was not done.
    fn run(&mut self) -> impl Future<Output = Result<(), &'static str>> + Send;

    /// Is called once, after [`run`](Self::run) or instead of it. `undone` says why the job was not done; `None` if it was
    /// done.
    fn on_end(&mut self, undone: Option<&'static str>);
}

/// Why a job was not done if no attempt succeeded.
pub(crate) const NOT_CONFIRMED: &str = "the store did not confirm it in time";

/// Runs `job` on `scheduler`. A shutdown waits for it.
///
/// The job is not done if there is no scheduler, if the runtime ends, or if the store panics.
pub(crate) fn start(job: impl Job, scheduler: Option<Arc<Scheduler>>) {
    let started = Started {
        _token: job.shared().tracker().track(),
        job,
        undone: Some("the runtime ended before the store confirmed it"),
    };
    if let Some(scheduler) = scheduler {
        scheduler.spawn(started.run());
    }
}

/// Does the same as [`start`], for a job that undoes a request. Above the `cleanup_limit` of the handle the job is not started.
pub(crate) fn start_cleanup(mut job: impl Job, scheduler: Option<Arc<Scheduler>>) {
    if job.shared().has_too_many_cleanups() {
        job.on_end(Some(
            "as many clean-ups as `cleanup_limit` allows wait for the store already",
        ));
    } else {
        start(job, scheduler);
    }
}

/// The operation of a clean-up. It waits for its turn, so that the clean-ups of a handle have a bounded part of the queue and of
/// each batch of the store: the callers that wait come before most of them.
pub(crate) fn in_turn<'a, T: 'a>(
    shared: &'a Shared,
    operation: StoreFuture<'a, T>,
) -> StoreFuture<'a, T> {
    Box::pin(async move {
        let _turn = shared.cleanup_turn().await;
        operation.await
    })
}

/// Sends a clean-up until the store answers, or until no time remains.
pub(crate) async fn retry_until<'a, T: 'a>(
    shared: &'a Shared,
    until: Instant,
    mut send: impl FnMut() -> StoreFuture<'a, T>,
) -> Result<T, &'static str> {
    let mut backoff = Backoff::until(until, shared.deadline());
    loop {
        match backoff.attempt(in_turn(shared, send())).await {
            Ok(answer) => return Ok(answer),
            Err(_) if backoff.pause().await => {}
            Err(_) => return Err(NOT_CONFIRMED),
        }
    }
}

struct Started<J: Job> {
    job: J,
    undone: Option<&'static str>,
    _token: TrackerToken,
}

impl<J: Job> Started<J> {
    async fn run(mut self) {
        self.undone = self.job.run().await.err();
    }
}

impl<J: Job> Drop for Started<J> {
    fn drop(&mut self) {
        self.job.on_end(self.undone);
    }
}
