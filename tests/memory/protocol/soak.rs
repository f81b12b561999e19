//! Many concurrent calls with random faults: in seeded rounds, and on threads.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, OnCancel, Policy, Release, StoreErrorKind};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use support::dropping::victims_of_drops;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Guarded, millis, secs};
use crate::protocol::observed::Observed;

#[test]
fn with_random_faults_bodies_do_not_overlap_and_every_call_ends() {
    for seed in 0..300 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(LocalSet::new().run_until(one_round(seed)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_drop_their_calls_refuse_no_other_caller() {
    victims_of_drops(MemoryStore::new()).await.assert_well();
}

async fn one_round(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let store = FaultyStore::new(MemoryStore::new());
    let base = Guarded::on(store.clone(), any_policy(&mut rng));
    let observed = Observed::default();
    let handles = [observed.on(&base), observed.on(&base)];
    let running = Rc::new(AtomicUsize::new(0));
    let rng = Rc::new(RefCell::new(rng));
    let calls: Vec<_> = (0..30)
        .map(|call| {
            let guarded = handles[call % 2].clone();
            let (running, rng, store) = (Rc::clone(&running), Rc::clone(&rng), store.clone());
            tokio::task::spawn_local(async move {
                let call = {
                    let mut rng = rng.borrow_mut();
                    if rng.random_bool(0.3) {
                        let op = [Op::Claim, Op::Replace, Op::Remove][rng.random_range(0..3)];
                        store.next(op, any_fault(&mut rng));
                    }
                    AnyCall::random(&mut rng)
                };
                call.run(guarded, &running, seed).await;
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(
        observed.ends().len(),
        30,
        "seed {seed}: {:?}",
        observed.ends()
    );
    store.heal();
    for guarded in &handles {
        guarded.settled().await;
    }
    // Every remaining lease expires.
    sleep(secs(12)).await;
    let stored = base.entry(1).await;
    for guarded in &handles {
        let ended = guarded.call(1).claim().await;
        match &stored {
            Some(entry) if entry.value.starts_with(b"idem2 D") => {
                assert_eq!(
                    ended.unwrap_err().error().code(),
                    "already_done",
                    "seed {seed}"
                );
            }
            Some(_) => assert_eq!(
                ended.unwrap_err().error().code(),
                "in_progress",
                "seed {seed}"
            ),
            None => {
                ended.expect("the key is free").settle(false).await;
            }
        }
    }
}

fn any_policy(rng: &mut StdRng) -> Policy {
    let release = [Release::Always, Release::OnError][rng.random_range(0..2)];
    let mut policy = Policy::new(secs(60)).release(release);
    if release == Release::OnError {
        policy = policy.lease(secs(10));
    }
    if rng.random_bool(0.5) {
        policy = policy.on_cancel(OnCancel::Release);
    }
    policy
}

fn any_fault(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..8) {
        0 => Fault::Fail(StoreErrorKind::NotApplied),
        1 => Fault::Fail(StoreErrorKind::Full),
        2 => Fault::LoseReply,
        3 => Fault::ApplyThenHang,
        4 => Fault::Hang,
        5 => Fault::ApplyLate(millis(rng.random_range(1..600))),
        _ => Fault::Delay(millis(rng.random_range(1..900))),
    }
}

struct AnyCall {
    starts: Duration,
    lasts: Duration,
    drops: Option<Duration>,
    fails: bool,
    waits: Option<Duration>,
}

impl AnyCall {
    fn random(rng: &mut StdRng) -> Self {
        Self {
            starts: millis(rng.random_range(0..3000)),
            lasts: millis(rng.random_range(0..200)),
            drops: rng
                .random_bool(0.2)
                .then(|| millis(rng.random_range(0..1500))),
            fails: rng.random_bool(0.5),
            waits: rng
                .random_bool(0.7)
                .then(|| millis(rng.random_range(1..4000))),
        }
    }

    async fn run(self, mut guarded: Guarded, running: &AtomicUsize, seed: u64) {
        if let Some(waits) = self.waits {
            guarded.policy = guarded.policy.wait(waits);
        }
        sleep(self.starts).await;
        let begun = Instant::now();
        let body = async {
            let others = running.fetch_add(1, Ordering::SeqCst);
            let _guard = RunningGuard(running);
            assert_eq!(others, 0, "seed {seed}: two bodies run at once");
            sleep(self.lasts).await;
            if self.fails { Err(()) } else { Ok(()) }
        };
        let run = guarded.run(1, body);
        let ended = match self.drops {
            Some(drops) => timeout(drops, run).await.map_err(|_| ()),
            None => Ok(run.await),
        };
        let took = begun.elapsed();
        let most = self.waits.unwrap_or_default() + millis(1300) + self.lasts + millis(1100);
        assert!(took <= most, "seed {seed}: {took:?} of {most:?}: {ended:?}");
    }
}

/// Counts down when a body ends or is dropped.
struct RunningGuard<'a>(&'a AtomicUsize);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_waiting_call_ends_on_several_threads() {
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
                    let _guard = RunningGuard(&running);
                    for _ in 0..call % 3 {
                        tokio::task::yield_now().await;
                    }
                    if call % 5 == 0 { Err(()) } else { Ok(()) }
                };
                let run = guarded.run(1, body);
                if call % 7 == 0 {
                    // Dropped while waiting.
                    let _ = timeout(Duration::from_micros(call * 10), run).await;
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
            .unwrap_or_else(|_| panic!("round {round}: a waiting call never ended"));
        here.settled().await;
        here.call(1).claim().await.unwrap().settle(true).await;
    }
}
