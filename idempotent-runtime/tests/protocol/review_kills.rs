//! Review: tests that pass, and that kill mutants.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotent_runtime::store::{Claim, Entry, Swap};
use idempotent_runtime::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{
    Error, Event, EventKind, Idempotency, MemoryStore, OnCancel, OnStoreError, Policy, Release,
    Store, StoreError, StoreErrorKind,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::{Instant, advance, sleep, timeout};

use crate::guarded::{Guarded, forever, millis, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

async fn never() -> Result<u64, Error> {
    panic!("the body of a duplicate ran")
}

/// What the observers of a handle were told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<EventKind>>>);

impl Told {
    /// The same endpoint on another handle that tells.
    fn on(&self, guarded: &Guarded) -> Guarded {
        let told = Arc::clone(&self.0);
        let idempotency = Idempotency::builder(Arc::clone(&guarded.store))
            .observer(move |event: &Event<'_>| told.lock().unwrap().push(event.kind()))
            .build()
            .unwrap();
        Guarded {
            idempotency,
            ..guarded.clone()
        }
    }

    fn all(&self) -> Vec<EventKind> {
        self.0.lock().unwrap().clone()
    }

    fn ends(&self) -> Vec<EventKind> {
        self.all()
            .into_iter()
            .filter(|kind| kind.is_end())
            .collect()
    }
}

/// A store that gives hints, and whose answers can be late.
#[derive(Debug)]
struct Special {
    store: CountingStore<MemoryStore>,
    hints: Mutex<Option<watch::Sender<()>>>,
    listening_takes: Option<Duration>,
    late: AtomicBool,
    claims: Mutex<Vec<Bytes>>,
}

impl Special {
    fn new() -> Self {
        Self {
            store: CountingStore::new(MemoryStore::new()),
            hints: Mutex::new(Some(watch::Sender::new(()))),
            listening_takes: None,
            late: AtomicBool::new(false),
            claims: Mutex::default(),
        }
    }

    fn hint(&self) {
        if let Some(hints) = &*self.hints.lock().unwrap() {
            hints.send_replace(());
        }
    }

    fn hangs(&self) {
        *self.hints.lock().unwrap() = None;
    }

    fn breaks(&self) {
        *self.hints.lock().unwrap() = Some(watch::Sender::new(()));
    }
}

#[async_trait]
impl Store for Special {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.claims.lock().unwrap().push(value.clone());
        let answer = self.store.claim(key, value, ttl).await;
        if self.late.swap(false, Ordering::SeqCst) {
            sleep(millis(100)).await;
        }
        answer
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.store.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.store.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).await
    }

    async fn changed(&self, key: &str) -> Option<watch::Receiver<()>> {
        let _ = self.store.changed(key).await;
        if let Some(takes) = self.listening_takes {
            sleep(takes).await;
        }
        let hints = self
            .hints
            .lock()
            .unwrap()
            .as_ref()
            .map(watch::Sender::subscribe);
        match hints {
            Some(hints) => Some(hints),
            None => std::future::pending().await,
        }
    }
}

fn fault(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..8) {
        0 => Fault::Fail(StoreErrorKind::NotApplied),
        1 => Fault::Fail(StoreErrorKind::Full),
        2 => Fault::LoseReply,
        3 => Fault::ApplyThenHang,
        4 => Fault::Hang,
        5 => Fault::Ghost(millis(rng.random_range(1..600))),
        _ => Fault::Delay(millis(rng.random_range(1..900))),
    }
}

#[test]
fn whatever_happens_bodies_do_not_overlap_and_nobody_waits_for_ever() {
    for seed in 0..300 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(LocalSet::new().run_until(one_round(seed)));
    }
}

async fn one_round(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let store = FaultyStore::new(MemoryStore::new());
    let release = [Release::Always, Release::OnError][rng.random_range(0..2)];
    let mut policy = Policy::new(secs(60)).release(release);
    if release == Release::OnError {
        policy = policy.lease(secs(10));
    }
    if rng.random_bool(0.5) {
        policy = policy.on_cancel(OnCancel::Release);
    }
    let base = Guarded::on(store.clone(), policy);
    let told = Told::default();
    let handles = [told.on(&base), told.on(&base)];
    let running = Rc::new(Cell::new(0));
    let log = Rc::new(RefCell::new(Vec::new()));
    let rng = Rc::new(RefCell::new(rng));
    let tasks: Vec<_> = (0..30)
        .map(|call| {
            let (mut guarded, running, log, rng) = (
                handles[call % 2].clone(),
                Rc::clone(&running),
                Rc::clone(&log),
                Rc::clone(&rng),
            );
            let store = store.clone();
            tokio::task::spawn_local(async move {
                let (start, lasts, drops, fails, wait) = {
                    let mut rng = rng.borrow_mut();
                    if rng.random_bool(0.3) {
                        let op = [Op::Claim, Op::Replace, Op::Remove][rng.random_range(0..3)];
                        let fault = fault(&mut rng);
                        store.next(op, fault);
                    }
                    (
                        rng.random_range(0..3000),
                        rng.random_range(0..200),
                        rng.random_bool(0.2).then(|| rng.random_range(0..1500)),
                        rng.random_bool(0.5),
                        rng.random_bool(0.7).then(|| rng.random_range(1..4000)),
                    )
                };
                if let Some(wait) = wait {
                    guarded.policy = guarded.policy.wait(millis(wait));
                }
                sleep(millis(start)).await;
                let begun = Instant::now();
                let body = async {
                    struct Leaves(Rc<Cell<u32>>);
                    impl Drop for Leaves {
                        fn drop(&mut self) {
                            self.0.set(self.0.get() - 1);
                        }
                    }
                    assert_eq!(running.replace(1), 0, "seed {seed}: two bodies");
                    let _leaves = Leaves(running.clone());
                    sleep(millis(lasts)).await;
                    if fails { Err(()) } else { Ok(()) }
                };
                let run = guarded.run(1, body);
                let ended = match drops {
                    Some(drops) => timeout(millis(drops), run).await.map_err(|_| ()),
                    None => Ok(run.await),
                };
                let took = begun.elapsed();
                let most = millis(wait.unwrap_or(0) + 1300 + lasts + 1100);
                assert!(took <= most, "seed {seed}: {took:?} of {most:?}: {ended:?}");
                log.borrow_mut().push(format!("{call} {ended:?}"));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(told.ends().len(), 30, "seed {seed}: {:?}", told.ends());
    store.heal();
    for guarded in &handles {
        guarded.settled().await;
    }
    sleep(secs(12)).await;
    let stands = base.stands(1).await;
    for guarded in &handles {
        let ended = guarded.call(1).claim().await;
        match &stands {
            Some(entry) if entry.value.starts_with(b"idem1 D") => {
                assert_eq!(ended.unwrap_err().code(), "already_done", "seed {seed}");
            }
            Some(_) => assert_eq!(ended.unwrap_err().code(), "in_progress", "seed {seed}"),
            None => ended.expect("the key is free").settle(false).await,
        }
    }
}

struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn among_threads_nobody_who_waits_is_forgotten() {
    for round in 0..20 {
        let policy = Policy::new(secs(600))
            .release(Release::Always)
            .on_cancel(OnCancel::Release)
            .wait(secs(600));
        let here = Guarded::in_memory(policy);
        let running = Arc::new(AtomicUsize::new(0));
        let calls = (0..200).map(|call| {
            let guarded = here.clone();
            let running = Arc::clone(&running);
            tokio::spawn(async move {
                let body = async {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                    let _leaves = Leaves(&running);
                    for _ in 0..call % 3 {
                        tokio::task::yield_now().await;
                    }
                    if call % 5 == 0 { Err(()) } else { Ok(()) }
                };
                let run = guarded.run(1, body);
                if call % 7 == 0 {
                    // Dropped while it waits.
                    let _ = timeout(std::time::Duration::from_micros(call * 10), run).await;
                } else {
                    let _ = run.await;
                }
            })
        });
        let all = async {
            for call in calls.collect::<Vec<_>>() {
                call.await.unwrap();
            }
        };
        timeout(secs(60), all)
            .await
            .unwrap_or_else(|_| panic!("round {round}: somebody is forgotten"));
        here.settled().await;
        here.call(1).claim().await.unwrap().settle(true).await;
    }
}

/// W8, W12.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_older_than_a_call_does_not_refuse_it() {
    let store = Arc::new(Special::new());
    let there = Guarded::on(Arc::clone(&store), policy());
    let here = there.elsewhere();
    let held = there.call(1).claim().await.unwrap();
    store.late.store(true, Ordering::SeqCst);
    let mut first = pin!(here.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    // From here on nobody has the key, and the first one is about to be told that it is taken.
    held.settle(false).await;
    let second = here.run(1, async { Ok(()) });
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap_err().code(), "in_progress");
    second.unwrap();
}

/// W14.
#[tokio::test(start_paused = true)]
async fn who_can_wait_longer_than_the_one_before_it_waits_longer() {
    let there = Guarded::in_memory(policy().wait(secs(1)));
    let here = there.elsewhere();
    let held = there.call(1).claim().await.unwrap();
    let second = async {
        sleep(millis(500)).await;
        here.run(1, async { Ok(()) }).await
    };
    let ends = async {
        sleep(millis(1200)).await;
        held.settle(false).await;
    };
    let (first, second, ()) = tokio::join!(here.call(1).claim(), second, ends);
    assert_eq!(first.unwrap_err().code(), "in_progress");
    second.unwrap();
}

/// W15.
#[tokio::test(start_paused = true)]
async fn who_goes_on_waiting_for_another_does_not_ask_what_it_has_just_been_told() {
    let store = CountingStore::new(MemoryStore::new());
    let there = Guarded::on(store.clone(), policy().wait(millis(475)));
    let here = there.elsewhere();
    let _held = there.call(1).claim().await.unwrap();
    let mut hasty = pin!(here.call(1).claim());
    assert!(hasty.as_mut().now_or_never().is_none());
    sleep(millis(10)).await;
    let mut second = pin!(here.call(1).claim());
    assert!(second.as_mut().now_or_never().is_none());
    tokio::select! {
        refused = &mut hasty => assert_eq!(refused.unwrap_err().code(), "in_progress"),
        _ = &mut second => panic!("it has 10 ms left"),
    }
    store.reset();
    assert_eq!(second.await.unwrap_err().code(), "in_progress");
    assert_eq!(store.counts().claim, 0);
}

/// W16, E2.
#[tokio::test(start_paused = true)]
async fn that_a_call_here_runs_is_known_also_when_nothing_is_released() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).release(Release::Never));
    let _held = guarded.call(1).claim().await.unwrap();
    let refused = guarded.call(1).claim().await.unwrap_err();
    assert_eq!(refused.code(), "in_progress");
    let refused = guarded.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(refused.code(), "taken");
}

/// W17.
#[tokio::test(start_paused = true)]
async fn of_those_who_wait_here_the_next_one_asks_for_all() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let failing = async {
        sleep(secs(1)).await;
        Err::<(), _>(())
    };
    let body = || async {
        sleep(secs(1)).await;
        Ok(())
    };
    let waiting = join_all((0..20).map(|_| guarded.run(1, body())));
    let (_, ended) = tokio::join!(guarded.run(1, failing), waiting);
    assert_eq!(ended.iter().filter(|end| end.is_ok()).count(), 1);
    assert_eq!(store.counts().claim, 2);
}

/// W18.
#[tokio::test(start_paused = true)]
async fn who_is_answered_with_the_first_call_has_not_waited() {
    let store = FaultyStore::new(MemoryStore::new());
    let told = Told::default();
    let guarded = told.on(&Guarded::on(store.clone(), policy().wait(secs(5))));
    store.next(Op::Claim, Fault::Delay(millis(10)));
    store.next(Op::Replace, Fault::Delay(millis(10)));
    let mut first = pin!(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = pin!(guarded.call(1).claim());
    assert!(second.as_mut().now_or_never().is_none());
    // It is answered and over before the second one looks again.
    let held = first.await.unwrap();
    held.settle(true).await;
    assert_eq!(second.await.unwrap_err().code(), "already_done");
    assert_eq!(told.all(), [EventKind::Executed, EventKind::Done]);
}

/// W19, W20, W35, W36, E3.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_tells_so_once_and_ends_once() {
    for elsewhere in [false, true] {
        let (told, first) = (Told::default(), Guarded::in_memory(policy().wait(secs(5))));
        let here = told.on(&first);
        let first = if elsewhere { first } else { here.clone() };
        let body = async {
            sleep(secs(1)).await;
            Ok(7_u64)
        };
        let (_, second) = tokio::join!(first.replaying(1, body), here.replaying(1, never()));
        assert_eq!(second.unwrap(), 7);
        let mut all = told.all();
        all.retain(|kind| *kind != EventKind::Executed);
        assert_eq!(all, [EventKind::Waited, EventKind::Replayed], "{elsewhere}");
    }
}

/// E4, E5.
#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_given_is_told_once_and_not_kept_in_the_error() {
    let told = Told::default();
    let guarded = told.on(&Guarded::in_memory(policy()));
    guarded.replaying(1, yielding(Ok(7_u64))).await.unwrap();
    let body = async { Ok(String::new()) };
    let refused = guarded.replaying(1, body).await.unwrap_err();
    assert_eq!(refused.code(), "result_unavailable");
    assert_eq!(
        told.all(),
        [EventKind::Executed, EventKind::ResultUnavailable]
    );
}

/// W22.
#[tokio::test(start_paused = true)]
async fn when_its_time_is_up_a_call_asks_a_last_time() {
    for _ in 0..20 {
        let there = Guarded::in_memory(policy().wait(millis(476)));
        let held = there.call(1).claim().await.unwrap();
        let ends = async {
            // The try before the last one is at 375 ms at the latest.
            sleep(millis(400)).await;
            held.settle(false).await;
        };
        let here = there.elsewhere();
        let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
        ended.unwrap();
    }
}

/// W23.
#[tokio::test(start_paused = true)]
async fn who_has_asked_a_moment_ago_does_not_ask_again_when_its_time_is_up() {
    let store = CountingStore::new(MemoryStore::new());
    let there = Guarded::on(store.clone(), policy().wait(millis(20)));
    let _held = there.call(1).claim().await.unwrap();
    store.reset();
    there.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(store.counts().claim, 1);
}

/// W29.
#[tokio::test(start_paused = true)]
async fn without_release_a_call_elsewhere_is_waited_for_if_it_leaves_its_result() {
    let there = Guarded::in_memory(Policy::new(secs(60)).release(Release::Never).wait(secs(5)));
    let here = there.elsewhere();
    let body = async {
        sleep(secs(1)).await;
        Ok(7_u64)
    };
    let (first, second) = tokio::join!(there.replaying(1, body), here.replaying(1, never()));
    assert_eq!((first.unwrap(), second.unwrap()), (7, 7));
}

/// W30, W31.
#[test]
fn outside_of_a_runtime_nobody_waits() {
    let there = Guarded::in_memory(policy().wait(secs(5)));
    let _held = there.call(1).claim().now_or_never().unwrap().unwrap();
    for guarded in [&there, &there.elsewhere()] {
        let refused = guarded
            .call(1)
            .claim()
            .now_or_never()
            .expect("it is told at once");
        assert_eq!(refused.unwrap_err().code(), "in_progress");
    }
}

/// W31, C-series: a duplicate outside of a runtime asks beside one that is not answered.
#[test]
fn outside_of_a_runtime_a_claim_on_its_way_is_not_waited_for() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Hang);
    let mut first = Box::pin(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    guarded
        .run(1, async { Ok(()) })
        .now_or_never()
        .expect("it asks at once")
        .unwrap();
}

/// W32.
#[tokio::test(start_paused = true)]
async fn a_try_of_one_that_has_waited_has_its_whole_time() {
    let store = FaultyStore::new(MemoryStore::new());
    let there = Guarded::on(store.clone(), policy().wait(secs(10)));
    let held = there.call(1).claim().await.unwrap();
    let here = there.elsewhere();
    let ends = async {
        sleep(secs(3)).await;
        store.always(Op::Claim, Fault::Delay(millis(800)));
        held.settle(false).await;
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
}

/// W34, C5, C6.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_claims_or_waits_is_told_as_cancelled_once() {
    let store = FaultyStore::new(MemoryStore::new());
    let told = Told::default();
    let there = Guarded::on(store.clone(), policy().wait(secs(5)));
    let here = told.on(&there);
    // Behind another one here, behind one elsewhere, and alone.
    store.next(Op::Claim, Fault::Delay(millis(10)));
    let mut alone = Box::pin(here.call(2).claim());
    assert!(alone.as_mut().now_or_never().is_none());
    drop(alone);
    assert_eq!(told.all(), [EventKind::Cancelled]);
    let _held = there.call(1).claim().await.unwrap();
    let mut first = Box::pin(here.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(here.call(1).claim());
    assert!(second.as_mut().now_or_never().is_none());
    drop(second);
    assert_eq!(told.all(), [EventKind::Cancelled; 2]);
    drop(first);
    assert_eq!(told.all(), [EventKind::Cancelled; 3]);
}

/// W37.
#[tokio::test(start_paused = true)]
async fn what_changes_while_listening_begins_is_not_missed() {
    let store = Special {
        listening_takes: Some(millis(40)),
        ..Special::new()
    };
    let there = Guarded::on(store, policy().wait(secs(5)));
    let held = there.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let here = there.elsewhere();
    let ends = async {
        sleep(millis(20)).await;
        held.settle(false).await;
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 40);
}

/// W38, W39 are shapes of a distribution: a bound is enough.
#[tokio::test(start_paused = true)]
async fn who_waits_for_long_asks_less_and_less_and_never_in_step() {
    let store = CountingStore::new(MemoryStore::new());
    let policy = Policy::new(secs(60)).lease(secs(30)).wait(secs(30));
    let guarded = Guarded::on(store.clone(), policy);
    let there = guarded.call(1).claim().await.unwrap();
    store.reset();
    let here = guarded.elsewhere();
    let mut waiting = pin!(here.call(1).claim());
    let mut asked = Vec::new();
    let begun = Instant::now();
    for _ in 0..15_000 {
        assert!(waiting.as_mut().now_or_never().is_none());
        if store.counts().claim > asked.len() {
            asked.push(begun.elapsed());
        }
        advance(millis(1)).await;
    }
    drop(there);
    let pauses: Vec<_> = asked
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_millis())
        .collect();
    assert!(
        pauses.iter().all(|pause| (100..=752).contains(pause)),
        "{pauses:?}"
    );
    assert!(pauses[8..].iter().all(|pause| *pause >= 500), "{pauses:?}");
    let mut late = pauses[8..].to_vec();
    late.sort_unstable();
    late.dedup();
    assert!(late.len() > 3, "{pauses:?}");
}

/// W40, W45, W46.
#[tokio::test(start_paused = true)]
async fn a_key_that_changes_all_the_time_is_not_asked_for_all_the_time() {
    let store = Arc::new(Special::new());
    let guarded = Guarded::on(Arc::clone(&store), policy().wait(secs(9)));
    let _held = guarded.call(1).claim().await.unwrap();
    store.store.reset();
    let elsewhere = guarded.elsewhere();
    let waits = elsewhere.call(1).claim();
    let changes = async {
        let mut before = 0;
        for second in 0..8 {
            for _ in 0..200 {
                sleep(millis(5)).await;
                store.hint();
            }
            let total = store.store.counts().claim;
            let most = if second == 0 { 18 } else { 11 };
            assert!(
                total - before <= most,
                "{} in second {second}",
                total - before
            );
            before = total;
        }
    };
    tokio::select! {
        _ = waits => panic!("it waits longer"),
        () = changes => {}
    }
}

/// Hints wake at once.
#[tokio::test(start_paused = true)]
async fn a_hint_wakes_who_waits_at_once() {
    let store = Arc::new(Special::new());
    let there = Guarded::on(Arc::clone(&store), policy().wait(secs(5)));
    let held = there.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let here = there.elsewhere();
    let ends = async {
        sleep(millis(2005)).await;
        held.settle(false).await;
        store.hint();
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 2005);
}

/// W41, W42.
#[tokio::test(start_paused = true)]
async fn when_hints_end_the_store_is_asked_and_listened_to_again() {
    let store = Arc::new(Special::new());
    let there = Guarded::on(Arc::clone(&store), policy().wait(secs(9)));
    let held = there.call(1).claim().await.unwrap();
    store.store.reset();
    let begun = Instant::now();
    let here = there.elsewhere();
    let ends = async {
        sleep(secs(1)).await;
        store.breaks();
        sleep(secs(2)).await;
        assert_eq!(store.store.counts().changed, 2);
        held.settle(false).await;
        store.hint();
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 3000);
}

/// W43.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_when_asked_for_hints_is_polled() {
    let store = Arc::new(Special::new());
    store.hangs();
    let there = Guarded::on(Arc::clone(&store), policy().wait(secs(5)));
    let held = there.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let here = there.elsewhere();
    let ends = async {
        sleep(secs(2)).await;
        held.settle(false).await;
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
    assert!(begun.elapsed() < millis(2751), "{:?}", begun.elapsed());
}

/// W44, W48.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_to_the_millisecond() {
    for wait in [30, 90, 130, 290, 475, 1111, 2222] {
        for _ in 0..5 {
            let there = Guarded::in_memory(policy().wait(millis(wait)));
            let _held = there.call(1).claim().await.unwrap();
            for guarded in [&there, &there.elsewhere()] {
                let begun = Instant::now();
                guarded.call(1).claim().await.unwrap_err();
                assert_eq!(begun.elapsed().as_millis(), u128::from(wait));
            }
        }
    }
}

/// W49.
#[tokio::test(start_paused = true)]
async fn those_who_come_together_are_told_of_a_foreign_record_as_one() {
    let slow = FaultyStore::new(MemoryStore::new());
    let store = CountingStore::new(slow.clone());
    let guarded = Guarded::on(store.clone(), policy());
    let foreign = Bytes::from_static(b"somebody else's");
    let put = store.claim(&guarded.key(1), &foreign, secs(9)).await;
    put.unwrap();
    store.reset();
    slow.always(Op::Claim, Fault::Delay(millis(1)));
    for refused in join_all((0..10).map(|_| guarded.run(1, forever()))).await {
        assert_eq!(refused.unwrap_err().refusal().code(), "foreign_record");
    }
    assert_eq!(store.counts().claim, 1);
}

/// F4.
#[tokio::test(start_paused = true)]
async fn who_waits_here_is_woken_when_an_operator_frees_the_key() {
    let guarded = Guarded::in_memory(policy().wait(secs(5)));
    let _held = guarded.call(1).claim().await.unwrap();
    let mut waits = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(waits.as_mut().now_or_never().is_none());
    let peek = guarded.idempotency.peek("test.pay", &(1_u64,)).await;
    let peek = peek.unwrap().unwrap();
    assert!(guarded.idempotency.forget(&peek).await.unwrap());
    let begun = Instant::now();
    waits.await.unwrap();
    assert_eq!(begun.elapsed(), secs(0));
}

/// F3.
#[tokio::test(start_paused = true)]
async fn who_asked_beside_another_does_not_end_it() {
    let there = Guarded::in_memory(policy());
    let here = there.elsewhere();
    let mut patient = here.clone();
    patient.policy = policy().wait(secs(5));
    let held = there.call(1).claim().await.unwrap();
    let mut waits = Box::pin(patient.run(1, async { Ok(()) }));
    assert!(waits.as_mut().now_or_never().is_none());
    let mut second = Box::pin(patient.run(1, async { Err::<(), _>(()) }));
    assert!(second.as_mut().now_or_never().is_none());
    here.run(1, forever()).await.unwrap_err();
    // The second one goes on following: it does not ask by itself.
    assert!(second.as_mut().now_or_never().is_none());
    held.settle(false).await;
    let (first, second) = tokio::join!(waits, second);
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "already_done");
}

/// C9, H1.
#[tokio::test(start_paused = true)]
async fn an_unguarded_body_is_still_the_only_one_here() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().on_store_error(OnStoreError::Run));
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let first = guarded.run(1, async {
        sleep(secs(5)).await;
        Ok(())
    });
    let second = async {
        sleep(secs(2)).await;
        guarded.run(1, forever()).await
    };
    let (first, second) = tokio::join!(first, second);
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "in_progress");
    guarded.run(1, async { Ok(()) }).await.unwrap();
}

/// S3.
#[tokio::test(start_paused = true)]
async fn a_result_that_did_not_get_into_the_store_is_shared_with_nobody() {
    let guarded = Guarded::in_memory(policy().wait(secs(5)));
    let body = async {
        sleep(millis(100)).await;
        // An operator frees the key, and somebody else has it.
        let entry = guarded.stands(1).await.unwrap();
        let key = guarded.key(1);
        guarded.store.remove(&key, &entry.value).await.unwrap();
        let other = Bytes::from_static(b"somebody else's");
        guarded.store.claim(&key, &other, secs(60)).await.unwrap();
        Ok(7_u64)
    };
    let (first, second) = tokio::join!(guarded.replaying(1, body), guarded.replaying(1, never()));
    assert_eq!(first.unwrap(), 7);
    assert_eq!(second.unwrap_err().code(), "foreign_record");
}

/// S5.
#[tokio::test(start_paused = true)]
async fn a_result_that_is_recorded_without_its_caller_is_shared_without_asking() {
    let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    store.next(Op::Replace, Fault::Hang);
    let first = timeout(millis(100), guarded.replaying(1, async { Ok(7_u64) }));
    let (first, second) = tokio::join!(first, guarded.replaying(1, never()));
    first.unwrap_err();
    assert_eq!(second.unwrap(), 7);
    assert_eq!(store.inner().counts().claim, 1);
}

/// S8.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_tell_of_their_end_and_others_do_not() {
    #[derive(Debug, Default)]
    struct Telling(MemoryStore, AtomicUsize);
    #[async_trait]
    impl Store for Telling {
        async fn claim(
            &self,
            key: &str,
            value: &Bytes,
            ttl: Duration,
        ) -> Result<Claim, StoreError> {
            self.0.claim(key, value, ttl).await
        }
        async fn replace(
            &self,
            key: &str,
            expected: &Bytes,
            value: &Bytes,
            ttl: Duration,
        ) -> Result<Swap, StoreError> {
            self.0.replace(key, expected, value, ttl).await
        }
        async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
            self.0.remove(key, expected).await
        }
        async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
            self.0.get(key).await
        }
        async fn replace_and_tell(
            &self,
            key: &str,
            expected: &Bytes,
            value: &Bytes,
            ttl: Duration,
        ) -> Result<Swap, StoreError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.replace(key, expected, value, ttl).await
        }
        async fn remove_and_tell(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.remove(key, expected).await
        }
    }
    for (policy, told) in [(policy().wait(secs(5)), 2), (policy(), 0)] {
        let store = Arc::new(Telling::default());
        let guarded = Guarded::on(Arc::clone(&store), policy);
        guarded.run(1, async { Ok(()) }).await.unwrap();
        guarded
            .run(2, async { Err::<(), _>(()) })
            .await
            .unwrap_err();
        assert_eq!(store.1.load(Ordering::SeqCst), told);
    }
}

/// H3.
#[tokio::test(start_paused = true)]
async fn that_a_result_is_not_kept_is_told() {
    let told = Told::default();
    let guarded = told.on(&Guarded::in_memory(policy()));
    let large = "x".repeat(2 * 1024 * 1024);
    guarded.replaying(1, async { Ok(large) }).await.unwrap();
    assert_eq!(told.all(), [EventKind::Executed, EventKind::NotKept]);
}

/// W27.
#[tokio::test(start_paused = true)]
async fn every_claim_of_a_call_that_waits_has_an_owner_of_its_own() {
    let store = Arc::new(Special::new());
    let there = Guarded::on(Arc::clone(&store), policy().wait(secs(3)));
    let _held = there.call(1).claim().await.unwrap();
    there.elsewhere().call(1).claim().await.unwrap_err();
    let mut claims = store.claims.lock().unwrap().clone();
    let all = claims.len();
    claims.sort();
    claims.dedup();
    assert_eq!((claims.len(), all > 5), (all, true));
}

/// W33.
#[tokio::test(start_paused = true)]
async fn who_was_not_polled_for_long_still_asks_the_store() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Hang);
    store.always(Op::Claim, Fault::Delay(millis(100)));
    let mut silent = Box::pin(guarded.call(1).claim());
    assert!(silent.as_mut().now_or_never().is_none());
    let mut late = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(late.as_mut().now_or_never().is_none());
    advance(secs(5)).await;
    late.await.unwrap();
}
