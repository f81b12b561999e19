//! Duplicates with `wait`, which wait for the end of the call that holds the key.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::store::Store as _;
use idempotent_runtime::{Error, MemoryStore, OnStoreError, Policy, Release, StoreErrorKind};
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, never, secs};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10)).wait(secs(5))
}

async fn after(millis_: u64) -> Result<u64, Error> {
    sleep(millis(millis_)).await;
    Ok(millis_)
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_gets_the_result_when_the_first_call_ends_here() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let begun = Instant::now();
    let (first, second) = tokio::join!(
        guarded.replaying(1, after(2000)),
        guarded.replaying(1, never::<u64>())
    );
    assert_eq!((first.unwrap(), second.unwrap()), (2000, 2000));
    assert_eq!(
        begun.elapsed().as_millis(),
        2000,
        "the duplicate is woken at the end of the first call"
    );
    assert_eq!(store.counts().claim, 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_gets_the_result_when_the_first_call_ends_elsewhere() {
    let guarded = Guarded::in_memory(policy());
    let elsewhere = guarded.elsewhere();
    let begun = Instant::now();
    let (first, second) = tokio::join!(
        guarded.replaying(1, after(2000)),
        elsewhere.replaying(1, never::<u64>())
    );
    assert_eq!((first.unwrap(), second.unwrap()), (2000, 2000));
    assert!(begun.elapsed() < millis(2751), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_is_refused_after_its_wait_and_changes_no_record() {
    let guarded = Guarded::in_memory(policy().renew(idempotent_runtime::Renew::No));
    let _held = guarded.call(1).claim().await.unwrap();
    let stored = guarded.entry(1).await.unwrap().value;
    for guarded in [&guarded, &guarded.elsewhere()] {
        let begun = Instant::now();
        let refused = guarded.call(1).claim().await.unwrap_err();
        assert_eq!(refused.error().code(), "in_progress");
        assert_eq!(begun.elapsed().as_secs(), 5);
        assert_eq!(guarded.entry(1).await.unwrap().value, stored);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_exactly_at_its_end() {
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

#[test]
fn outside_a_runtime_no_call_waits() {
    let there = Guarded::in_memory(policy());
    let _held = there.call(1).claim().now_or_never().unwrap().unwrap();
    for guarded in [&there, &there.elsewhere()] {
        let refused = guarded
            .call(1)
            .claim()
            .now_or_never()
            .expect("the call is refused at once");
        assert_eq!(refused.unwrap_err().error().code(), "in_progress");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_exactly_one_waiting_call_runs() {
    for elsewhere in [false, true] {
        let first = Guarded::in_memory(policy());
        let others = if elsewhere {
            first.elsewhere()
        } else {
            first.clone()
        };
        let ran = Cell::new(0);
        let failing = async {
            sleep(secs(1)).await;
            Err::<(), _>(())
        };
        let waiting = join_all((0..20).map(|_| {
            let body = async {
                ran.set(ran.get() + 1);
                sleep(secs(1)).await;
                Ok(())
            };
            others.run(1, body)
        }));
        let (failed, ended) = tokio::join!(first.run(1, failing), waiting);
        assert!(failed.is_err());
        assert_eq!(ran.get(), 1);
        let won = ended.iter().filter(|end| end.is_ok()).count();
        assert_eq!(won, 1);
        for refused in ended.into_iter().filter_map(Result::err) {
            assert_eq!(refused.refusal().code(), "already_done");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_get_a_released_key_one_after_another() {
    let guarded = Guarded::in_memory(
        Policy::new(secs(10))
            .release(Release::Always)
            .wait(secs(30)),
    );
    let elsewhere = guarded.elsewhere();
    let running = Cell::new(0);
    let body = || async {
        assert_eq!(running.replace(1), 0, "two bodies must not run at once");
        sleep(secs(1)).await;
        running.set(0);
        Ok(())
    };
    let calls = (0..10).map(|call| {
        let guarded = if call % 2 == 0 { &guarded } else { &elsewhere };
        guarded.run(1, body())
    });
    for ended in join_all(calls).await {
        ended.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_dropped_keeps_the_key_until_its_lease_ends() {
    let guarded = Guarded::in_memory(policy().wait(secs(30)));
    let begun = Instant::now();
    let (dropped, next) = tokio::join!(
        timeout(secs(1), guarded.run(1, forever())),
        guarded.run(1, async { Ok(()) })
    );
    assert!(dropped.is_err());
    next.unwrap();
    let took = begun.elapsed();
    assert!((secs(11)..secs(12)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_wait_is_not_delayed_by_a_waiting_call() {
    let guarded = Guarded::in_memory(policy());
    let _held = guarded.call(1).claim().await.unwrap();
    let patient = guarded.elsewhere();
    let mut hasty = patient.clone();
    hasty.policy = Policy::new(secs(60)).lease(secs(10));
    let mut waiting = std::pin::pin!(patient.call(1).claim());
    assert!(waiting.as_mut().now_or_never().is_none());
    let begun = Instant::now();
    assert_eq!(
        hasty.call(1).claim().await.unwrap_err().error().code(),
        "in_progress"
    );
    assert_eq!(begun.elapsed(), secs(0));
}

#[tokio::test(start_paused = true)]
async fn with_release_false_and_no_replay_a_call_does_not_wait_for_another_process() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).release(Release::Never).wait(secs(5)));
    let _held = guarded.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let refused = guarded.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(
        (refused.error().code(), begun.elapsed()),
        ("taken", secs(0))
    );
}

#[tokio::test(start_paused = true)]
async fn with_release_false_and_replay_a_call_waits_for_another_process() {
    let there = Guarded::in_memory(Policy::new(secs(60)).release(Release::Never).wait(secs(5)));
    let here = there.elsewhere();
    let body = async {
        sleep(secs(1)).await;
        Ok(7_u64)
    };
    let (first, second) = tokio::join!(there.replaying(1, body), here.replaying(1, never::<u64>()));
    assert_eq!((first.unwrap(), second.unwrap()), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_reports_the_holder_rather_than_a_later_outage() {
    for on_store_error in [OnStoreError::Refuse, OnStoreError::Run] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy().on_store_error(on_store_error));
        let _held = guarded.call(1).claim().await.unwrap();
        let elsewhere = guarded.elsewhere();
        let begun = Instant::now();
        let away = async {
            sleep(millis(50)).await;
            store.always(Op::Claim, Fault::Hang);
        };
        let (refused, ()) = tokio::join!(elsewhere.call(1).claim(), away);
        assert_eq!(refused.unwrap_err().error().code(), "in_progress");
        assert!(begun.elapsed() < secs(5) + secs(1), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_does_not_run_unguarded_while_a_holder_is_known() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().on_store_error(OnStoreError::Run));
    let running = Cell::new(0);
    let first = async {
        running.set(running.get() + 1);
        sleep(millis(50)).await;
        store.always(Op::Claim, Fault::Hang);
        sleep(secs(4)).await;
        running.set(running.get() - 1);
        Ok(())
    };
    let elsewhere = guarded.elsewhere();
    let second = async {
        assert_eq!(running.get(), 0, "two bodies must not run at once");
        Ok(())
    };
    let (first, second) = tokio::join!(guarded.run(1, first), elsewhere.run(1, second));
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "in_progress");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_continues_after_an_outage() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let elsewhere = guarded.elsewhere();
    let first = async {
        sleep(millis(50)).await;
        store.always(Op::Claim, Fault::Hang);
        sleep(secs(2)).await;
        store.heal();
        Ok(7)
    };
    let (first, second) = tokio::join!(
        guarded.replaying(1, first),
        elsewhere.replaying(1, never::<i32>())
    );
    assert_eq!((first.unwrap(), second.unwrap()), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_dropped_waiting_call_is_removed() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let held = guarded.call(1).claim().await.unwrap();
    let elsewhere = guarded.elsewhere();
    let waiting = async {
        // The next claim is applied, but its answer is lost.
        store.always(Op::Claim, Fault::LoseReply);
        held.settle(false).await;
        sleep(millis(300)).await;
    };
    {
        let mut call = std::pin::pin!(elsewhere.call(1).claim());
        assert!(call.as_mut().now_or_never().is_none());
        tokio::select! {
            _ = call => panic!("the claim has no answer"),
            () = waiting => {}
        }
    }
    store.heal();
    elsewhere.settled().await;
    assert_eq!(guarded.entry(1).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_threads_and_handles_bodies_never_overlap_and_all_run() {
    let policy = Policy::new(secs(60))
        .release(Release::Always)
        .wait(secs(60));
    let here = Guarded::in_memory(policy);
    let elsewhere = here.elsewhere();
    let running = Arc::new(AtomicUsize::new(0));
    let calls = (0..40).map(|call| {
        let guarded = if call % 2 == 0 {
            here.clone()
        } else {
            elsewhere.clone()
        };
        let running = Arc::clone(&running);
        tokio::spawn(async move {
            let body = async {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            };
            guarded.run(1, body).await.unwrap();
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_forgets_the_holder_after_its_lease() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(60)));
    let _held = guarded.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let away = async {
        sleep(millis(50)).await;
        store.always(Op::Claim, Fault::Hang);
    };
    let elsewhere = guarded.elsewhere();
    let (refused, ()) = tokio::join!(elsewhere.call(1).claim(), away);
    assert_eq!(refused.unwrap_err().error().code(), "store_unavailable");
    // The lease, its grace and one attempt.
    assert!(begun.elapsed() < secs(13), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_is_not_blocked_by_its_own_stray_claim() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let elsewhere = Guarded::on(
        store.inner().clone(),
        Policy::new(secs(10)).release(Release::Always),
    );
    let begun = Instant::now();
    // The first send arrives after the end of the other call, when no caller awaits its answer any more.
    store.next(Op::Claim, Fault::ApplyLate(millis(2010)));
    let (first, second) = tokio::join!(
        elsewhere.run(1, async {
            sleep(millis(2000)).await;
            Ok(())
        }),
        guarded.run(1, async { Ok(()) }),
    );
    first.unwrap();
    second.unwrap();
    assert!(begun.elapsed() < secs(3), "{:?}", begun.elapsed());
    assert_eq!(store.remaining_faults(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_lease_counts_from_the_first_send_even_if_a_later_round_is_answered() {
    let store = FaultyStore::new(MemoryStore::new());
    let policy = Policy::new(secs(60)).lease(secs(1)).wait(secs(5));
    let guarded = Guarded::on(store.clone(), policy);
    let other = Guarded::in_memory(Policy::new(secs(60)).lease(secs(3)));
    let _held = other.call(1).claim().await.unwrap();
    let running = other.entry(1).await.unwrap().value;
    let key = guarded.key(1);
    let stored = store.inner().claim(&key, &running, millis(100)).await;
    stored.unwrap();
    // At first the key is taken. Then a send is applied a second late. Then claims are refused until the second round.
    store.next(Op::Claim, Fault::Delay(millis(1)));
    store.next(Op::Claim, Fault::ApplyLate(secs(1)));
    store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    let heal = async {
        sleep(millis(1750)).await;
        store.heal();
    };
    let (refused, ()) = tokio::join!(guarded.run(1, never_in_time()), heal);
    assert!(refused.unwrap_err().refusal().is_unavailable());
}

async fn never_in_time() -> Result<(), ()> {
    sleep(Duration::ZERO).await;
    panic!("the lease ended before the answer")
}
