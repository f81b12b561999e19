//! Many calls at the same time, and the assertion that one body ran.

use std::future::Future;
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::Idempotency;
use idempotent_runtime::port::testkit::record;

use super::report::StormReport;

/// How long a storm waits for work in the background.
const BACKGROUND: Duration = Duration::from_secs(10);

/// Makes `calls` calls at the same time, and reports how many bodies ran. `call` gets the number of its call, from 0.
///
/// All calls are made before the first is polled, and are then polled together in the task of the test. They run in the
/// [scope](Idempotency::scope) of `idempotency`, so functions with the attribute use this handle. After the last answer the storm waits up
/// to 10 s for work of the handle in the background.
///
/// The counts are the events of this handle, so a call that uses another handle, or none, is reported as
/// [unguarded](StormReport::unguarded). Other calls of the handle during the storm are counted, too. A call may borrow what it needs.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use idempotence::testkit::{assert_ran_once, storm};
/// use idempotence::{Error, Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let pay = |_| {
///     let call = idempotency.call("orders.pay").key("2026-11-21/42").ttl(Duration::from_hours(24));
///     call.run(async { Ok::<_, Error>("paid") })
/// };
/// let report = storm(&idempotency, 50, pay).await;
/// assert_ran_once(&report);
/// assert_eq!(report.refused(), 49);
/// # }
/// ```
///
/// # Threads
///
/// For calls on several threads, spawn each call, in a test with `flavor = "multi_thread"`. A task is outside of the scope of the storm, so
/// give it the handle:
///
/// ```
/// # use std::time::Duration;
/// # use idempotence::testkit::{assert_ran_once, storm};
/// # use idempotence::{Error, Idempotency, MemoryStore};
/// # async fn pay() -> Result<(), Error> {
/// #     let idempotency = Idempotency::current().unwrap();
/// #     idempotency.call("orders.pay").key(&1).ttl(Duration::from_mins(1)).run(async { Ok(()) }).await
/// # }
/// # #[tokio::main]
/// # async fn main() {
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let on_a_thread = |_| {
///     let idempotency = idempotency.clone();
///     tokio::spawn(async move { idempotency.scope(pay()).await })
/// };
/// assert_ran_once(&storm(&idempotency, 50, on_a_thread).await);
/// # }
/// ```
///
/// # Panics
///
/// If a call panics.
pub async fn storm<C, F>(idempotency: &Idempotency, calls: usize, call: C) -> StormReport<F::Output>
where
    C: FnMut(usize) -> F,
    F: Future,
{
    let recording = record(idempotency);
    let all = async { join_all((0..calls).map(call)).await };
    let results = idempotency.scope(all).await;
    // Work that still runs is missing in the counts, and the assertion names its calls.
    let _ = idempotency.drain(BACKGROUND).await;
    StormReport::new(results, recording.events())
}

/// Asserts that all calls of a [`storm`] were guarded, that exactly one body ran, with success, and that all other calls were refused as
/// duplicates or got its result. If the calls are of several endpoints, for example because one guarded function calls another, exactly
/// one body of each endpoint must have run.
///
/// # Panics
///
/// If not. The message has the counts, and says what to look at.
#[track_caller]
pub fn assert_ran_once<R>(report: &StormReport<R>) {
    if let Some(why) = report.why_not_once() {
        panic!("exactly one body must run: {report}\n{why}");
    }
}
