//! Threads that share a handle, under schedules of `shuttle`: at every lock another thread may continue. A lost wake-up becomes
//! a deadlock.
//!
//! `IDEMPOTENCE_SCHEDULES` is the number of schedules of each kind that a test tries. A failing schedule is
//! printed, and `shuttle::replay` runs it again.

use std::collections::HashMap;
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotent_runtime::store::{Bytes, Claim, Entry, Swap, async_trait};
use idempotent_runtime::{
    Error, GuardedCall, Idempotency, MemoryStore, Release, Store, StoreError,
};
use shuttle::future::{block_on, yield_now};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::thread::JoinHandle;
use shuttle::{Runner, thread};

const THREADS: usize = 3;
const LONG: Duration = Duration::from_hours(1);

/// Runs `test` under many schedules.
fn under_many_schedules(test: impl Fn() + Send + Sync + 'static) {
    let schedules = env::var("IDEMPOTENCE_SCHEDULES");
    let schedules = schedules.map_or(2_000, |number| number.parse().expect("a number"));
    // The clock is paused, so no timer fires: only another call can wake a waiting call.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let mut config = shuttle::Config::new();
    // The default stack is too small for a debug build.
    config.stack_size = 1 << 20;
    let test = Arc::new(test);
    let again = Arc::clone(&test);
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(move || test());
    // A few switches at unlikely places find the other kind of race.
    Runner::new(PctScheduler::new(3, schedules), config).run(move || again());
}

/// Runs `call` in several threads at the same time.
fn in_all_threads<R: Send + 'static>(call: impl Fn(usize) -> R + Send + Sync + 'static) -> Vec<R> {
    let call = Arc::new(call);
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let call = Arc::clone(&call);
            thread::spawn(move || call(number))
        })
        .collect();
    let joined = threads.into_iter().map(JoinHandle::join);
    joined.map(|result| result.expect("no panic")).collect()
}

fn pay(idempotency: &Idempotency) -> GuardedCall {
    idempotency.call("orders.pay").key(&7_u64).ttl(LONG)
}

/// Counts running bodies and started bodies.
#[derive(Default)]
struct Bodies {
    running: AtomicUsize,
    started: AtomicUsize,
}

impl Bodies {
    async fn run(&self) -> usize {
        assert_eq!(
            self.running.fetch_add(1, Ordering::SeqCst),
            0,
            "two bodies must not run at once"
        );
        let number = self.started.fetch_add(1, Ordering::SeqCst);
        yield_now().await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        number
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }
}

#[test]
fn every_waiting_call_runs_alone() {
    under_many_schedules(|| {
        let idempotency = Idempotency::new(MemoryStore::new());
        let bodies = Arc::new(Bodies::default());
        let ran = Arc::clone(&bodies);
        let outcomes = in_all_threads(move |_| {
            let call = pay(&idempotency).release(Release::Always).wait(LONG);
            block_on(call.run(async { Ok::<_, Error>(bodies.run().await) }))
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(ran.started(), THREADS);
    });
}

#[test]
fn one_call_runs_and_all_get_its_result() {
    under_many_schedules(|| {
        let idempotency = Idempotency::new(MemoryStore::new());
        let bodies = Arc::new(Bodies::default());
        let outcomes = in_all_threads(move |_| {
            let call = pay(&idempotency).wait(LONG).replay();
            block_on(call.run(async { Ok::<_, Error>(bodies.run().await) }))
        });
        for outcome in outcomes {
            assert_eq!(outcome.expect("the result of the first call"), 0);
        }
    });
}

#[test]
fn one_call_runs_and_the_others_are_refused() {
    under_many_schedules(|| {
        let idempotency = Idempotency::new(MemoryStore::new());
        let bodies = Arc::new(Bodies::default());
        let outcomes = in_all_threads(move |_| {
            let call = pay(&idempotency);
            block_on(call.run(async { Ok::<_, Error>(bodies.run().await) }))
        });
        let refused: Vec<_> = outcomes
            .iter()
            .filter_map(|end| end.as_ref().err())
            .collect();
        assert_eq!(refused.len(), THREADS - 1);
        assert!(
            refused.iter().all(|error| error.is_duplicate()),
            "{refused:?}"
        );
    });
}

#[test]
fn after_a_failure_one_waiting_call_runs() {
    under_many_schedules(|| {
        let idempotency = Idempotency::new(MemoryStore::new());
        let bodies = Arc::new(Bodies::default());
        let ran = Arc::clone(&bodies);
        let outcomes = in_all_threads(move |_| {
            let call = pay(&idempotency).wait(LONG).replay().error(Some);
            block_on(call.run(async {
                match bodies.run().await {
                    0 => Err(None),
                    number => Ok(number),
                }
            }))
        });
        assert_eq!(ran.started(), 2);
        let failed = outcomes
            .iter()
            .filter(|end| matches!(end, Err(None)))
            .count();
        let got = outcomes.iter().filter(|end| matches!(end, Ok(1))).count();
        assert_eq!((failed, got), (1, THREADS - 1), "{outcomes:?}");
    });
}

#[test]
fn one_call_of_several_handles_runs() {
    under_many_schedules(|| {
        let store = MemoryStore::new();
        assert_eq!(bodies_of_several_handles(move || store.clone()), 1);
    });
}

#[test]
#[should_panic(expected = "two bodies")]
fn a_store_that_checks_before_it_inserts_is_found() {
    under_many_schedules(|| {
        let store = Arc::new(ChecksThenInserts::default());
        bodies_of_several_handles(move || Arc::clone(&store));
    });
}

/// The number of bodies that ran after each thread called with its own handle.
fn bodies_of_several_handles<S: Store>(store: impl Fn() -> S + Send + Sync + 'static) -> usize {
    let bodies = Arc::new(Bodies::default());
    let ran = Arc::clone(&bodies);
    in_all_threads(move |_| {
        let call = pay(&Idempotency::new(store()));
        block_on(call.run(async { Ok::<_, Error>(bodies.run().await) })).is_ok()
    });
    ran.started()
}

#[test]
fn concurrent_claims_never_exceed_the_capacity_of_the_store() {
    under_many_schedules(|| {
        let store = MemoryStore::with_capacity(THREADS - 1);
        let held = store.clone();
        let admitted = in_all_threads(move |number| {
            let (key, value) = (number.to_string(), Bytes::from_static(b"x"));
            block_on(store.claim(&key, &value, LONG)).is_ok()
        });
        let admitted = admitted.into_iter().filter(|admitted| *admitted).count();
        assert_eq!((admitted, held.len()), (THREADS - 1, THREADS - 1));
    });
}

/// A store with a mistake: another thread may claim between its check and its insert.
#[derive(Debug, Default)]
struct ChecksThenInserts(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl Store for ChecksThenInserts {
    async fn claim(&self, key: &str, value: &Bytes, _: Duration) -> Result<Claim, StoreError> {
        let stored = self.0.lock().expect("no panic").get(key).cloned();
        if let Some(stored) = stored {
            return Ok(Claim::Taken(stored));
        }
        self.0
            .lock()
            .expect("no panic")
            .insert(key.to_owned(), value.clone());
        Ok(Claim::Claimed)
    }

    async fn replace(
        &self,
        _: &str,
        _: &Bytes,
        _: &Bytes,
        _: Duration,
    ) -> Result<Swap, StoreError> {
        Ok(Swap::Done)
    }

    async fn remove(&self, _: &str, _: &Bytes) -> Result<Swap, StoreError> {
        Ok(Swap::Done)
    }

    async fn get(&self, _: &str) -> Result<Option<Entry>, StoreError> {
        Ok(None)
    }
}
