//! The variants of calls that are dropped.

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::FutureExt as _;
use idempotent_runtime::private::{ReplayMode, Returns, replaying, returns};
use idempotent_runtime::{Error, OnCancel, Policy, Release, Settle};
use tokio::runtime::Handle;

use super::leftover::{LEASE, TTL};
use super::slow::Slow;
use crate::protocol::guarded::{Failed, Guarded, answered, yielding};

/// One combination of options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) release: Release,
    pub(super) cancel: Cancel,
    pub(super) replay: bool,
    pub(super) end: End,
    pub(super) fence: bool,
    pub(super) settle: Settle,
}

/// The option `on_cancel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancel {
    Keep,
    Release,
    Finish,
}

/// How the body ends, unless the call is dropped earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Ok,
    Err,
    Panic,
}

/// The stage of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Claiming,
    InTheBody,
    AfterTheBody,
}

/// The stage of a call. Its body updates it.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<AtomicU8>);

/// What the body returns.
pub(super) const RESULT: u32 = 7;

type Outcome = Result<u32, Failed>;

impl Case {
    /// Every valid combination.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (release, replay) in [
            (Release::Always, false),
            (Release::OnError, false),
            (Release::OnError, true),
            (Release::Never, false),
            (Release::Never, true),
        ] {
            for cancel in [Cancel::Keep, Cancel::Release, Cancel::Finish] {
                for end in [End::Ok, End::Err, End::Panic] {
                    let variants = [
                        (false, Settle::Await),
                        (true, Settle::Await),
                        (false, Settle::Background),
                        (true, Settle::Background),
                    ];
                    all.extend(variants.map(|(fence, settle)| Self {
                        release,
                        cancel,
                        replay,
                        end,
                        fence,
                        settle,
                    }));
                }
            }
        }
        all
    }

    pub(super) fn guarded(self) -> Guarded {
        let policy = match self.release {
            Release::OnError => Policy::new(TTL).lease(LEASE),
            release => Policy::new(TTL).release(release),
        };
        let policy = match self.cancel {
            Cancel::Release => policy.on_cancel(OnCancel::Release),
            Cancel::Keep | Cancel::Finish => policy,
        };
        let policy = if self.replay { policy.replay() } else { policy };
        let policy = if self.fence { policy.fence() } else { policy };
        Guarded::on(Slow::default(), policy.settle(self.settle))
    }

    /// Calls `guarded` with a body that is pending a few times.
    pub(super) fn call(
        self,
        guarded: &Guarded,
        progress: &Progress,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let progress = progress.clone();
        self.with_body(guarded, async move {
            progress.reach(Stage::InTheBody);
            yielding(()).await;
            progress.reach(Stage::AfterTheBody);
            match self.end {
                End::Ok => Ok(RESULT),
                End::Err => Err(Failed::Body),
                // `panic!` would print hundreds of messages.
                End::Panic => resume_unwind(Box::new("in the body")),
            }
        })
    }

    /// The code that the attribute writes around `body`.
    pub(super) fn with_body(
        self,
        guarded: &Guarded,
        body: impl Future<Output = Outcome> + Send + 'static,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let guarded = guarded.clone();
        async move {
            let returns = returns::<Outcome>();
            match (self.cancel, self.replay) {
                (Cancel::Finish, true) => finished(&guarded, replaying(returns), body).await,
                (Cancel::Finish, false) => finished(&guarded, returns, body).await,
                (_, true) => answered(replaying(returns), guarded.call(1), body).await,
                (_, false) => answered(returns, guarded.call(1), body).await,
            }
        }
    }
}

/// The code that the attribute writes with `on_cancel = "finish"`.
async fn finished<E: 'static, K: ReplayMode<Outcome> + Send + Sync + 'static>(
    guarded: &Guarded,
    returns: Returns<Outcome, E, K>,
    body: impl Future<Output = Outcome> + Send + 'static,
) -> Outcome {
    let held = match guarded.call(1).claim().await {
        Ok(held) => held,
        Err(error) => return returns.refused(error),
    };
    match returns.finish(held, Box::pin(body)).await {
        Ok(outcome) => outcome,
        Err(error) => returns.refused(error),
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Stage {
    pub(super) const ALL: [Self; 3] = [Self::Claiming, Self::InTheBody, Self::AfterTheBody];
}

impl Progress {
    pub(super) fn stage(&self) -> Stage {
        Stage::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }

    pub(super) fn reach(&self, stage: Stage) {
        self.0.store(stage as u8, Ordering::Relaxed);
    }
}

/// Drops the handle at the end of a case and checks that no call, lease or task still has it.
pub(super) fn nothing_holds(guarded: Guarded, others: usize) {
    let store = Arc::clone(&guarded.store);
    drop(guarded);
    // Timers, jobs, in-flight calls and tasks own the handle, and the handle owns the store.
    assert_eq!(
        Arc::strong_count(&store),
        1 + others,
        "something still has the handle"
    );
    let tasks = Handle::current().metrics().num_alive_tasks();
    assert!(
        tasks <= 1,
        "there are more tasks than the scheduler: {tasks}"
    );
}

/// Prints `what` if the test panics.
pub(super) async fn with_context<T>(what: String, test: impl Future<Output = T>) -> T {
    AssertUnwindSafe(test)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| {
            eprintln!("{what}");
            resume_unwind(panic)
        })
}
