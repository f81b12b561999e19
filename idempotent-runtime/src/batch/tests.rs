//! What a batch must keep. Each rule has a broken variant of the engine, and its test must find the mistake.

mod drops;
mod limits;
mod order;
mod overdue;
mod server;

use std::cell::RefCell;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use crate::mutation::{self, Mutation};

thread_local! {
    static TASKS: RefCell<Vec<AbortHandle>> = const { RefCell::new(Vec::new()) };
}

/// Notes a task that sends batches, on the thread that started the task.
pub(super) fn note_task(task: &JoinHandle<()>) {
    TASKS.with_borrow_mut(|tasks| {
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.abort_handle());
    });
}

/// Drops all tasks of this thread that send batches, as the end of their runtime does.
pub(crate) fn end_tasks() {
    for task in TASKS.take() {
        task.abort();
    }
}

/// Checks that the engine keeps a rule and that its broken variant does not.
pub(crate) fn assert_kept<F: Future<Output = bool>>(rule: impl Fn() -> F, broken: Mutation) {
    let in_runtime = || {
        paused().block_on(async {
            // A broken variant may wait forever.
            timeout(HOUR, rule()).await.unwrap_or(false)
        })
    };
    mutation::assert_kept(in_runtime, &[broken]);
}

fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_time().start_paused(true);
    builder.build().unwrap()
}

const HOUR: Duration = Duration::from_hours(1);
