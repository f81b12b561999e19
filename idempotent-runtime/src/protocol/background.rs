//! Work for the store that no caller waits for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::retry::{Sending, Tries};
use crate::protocol::scheduler::Keeper;
use crate::protocol::shared::Shared;
use crate::protocol::tracker::Piece;

/// What an operation leaves to be done when its caller waits no more.
pub(crate) trait Job: Send + 'static {
    /// The handle whose store does it.
    fn shared(&self) -> &Arc<Shared>;

    /// Does the job. The error says why the job stays undone.
    fn run(&mut self) -> impl Future<Output = Result<(), &'static str>> + Send;

    /// Is called once: after [`run`](Self::run), or in its place, with the reason why the job stays undone, if so.
    fn end(&mut self, undone: Option<&'static str>);
}

/// Why a job stays undone whose store gave no answer.
pub(crate) const NO_ANSWER: &str = "the store did not answer in time";

/// Runs `job` on `keeper`. A shutdown waits for it.
///
/// Without a keeper, with a runtime that ends, or with a store that panics, the job stays undone.
pub(crate) fn start(job: impl Job, keeper: Option<Arc<Keeper>>) {
    let started = Started {
        _piece: job.shared().unattended().begin(),
        job,
        undone: Some("it was dropped before it was sent"),
    };
    if let Some(keeper) = keeper {
        keeper.run(started.finish());
    }
}

/// The same for what takes something back: no more of these wait for the store than the handle allows.
pub(crate) fn start_cleanup(mut job: impl Job, keeper: Option<Arc<Keeper>>) {
    if job.shared().is_crowded() {
        job.end(Some(
            "as much as `cleanup_limit` allows is waiting for the store already",
        ));
    } else {
        start(job, keeper);
    }
}

/// Sends until the store answers or the time is up, each try under `limit`.
pub(crate) async fn answered<'a, T>(
    until: Instant,
    limit: Duration,
    mut send: impl FnMut() -> Sending<'a, T>,
) -> Result<T, &'static str> {
    let mut tries = Tries::until(until, limit);
    loop {
        match tries.once(send()).await {
            Ok(answer) => return Ok(answer),
            Err(_) if tries.again().await => {}
            Err(_) => return Err(NO_ANSWER),
        }
    }
}

struct Started<J: Job> {
    job: J,
    undone: Option<&'static str>,
    _piece: Piece,
}

impl<J: Job> Started<J> {
    async fn finish(mut self) {
        self.undone = self.job.run().await.err();
    }
}

impl<J: Job> Drop for Started<J> {
    fn drop(&mut self) {
        self.job.end(self.undone);
    }
}
