//! The line of the calls of one process that wait for a permit of one key.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{
    Idempotency, MemoryStore, OnStoreError, Policy, Release, Renew, StoreErrorKind,
};
use support::required_only::RequiredOnly;
use tokio::time::{Instant, sleep, timeout};

use super::{free, held, holders, nothing, policy, two_processes};
use crate::protocol::guarded::{Failed, Guarded, millis, secs};

/// Lets `calls` calls wait, one made each millisecond. Returns their numbers in the order of their bodies.
async fn order(here: &Guarded, calls: usize) -> Vec<usize> {
    let order = RefCell::default();
    let waiting = (0..calls).map(async |number| {
        sleep(millis(1) * u32::try_from(number).unwrap()).await;
        let body = async {
            RefCell::<Vec<_>>::borrow_mut(&order).push(number);
            sleep(millis(30)).await;
            Ok(())
        };
        here.run(1, body).await.unwrap();
    });
    join_all(waiting).await;
    order.take()
}

fn without_wait(guarded: &Guarded) -> Guarded {
    Guarded {
        policy: policy(),
        ..guarded.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn the_waiting_calls_of_one_process_get_permits_in_the_order_in_which_they_were_made() {
    let [here, there] = two_processes(policy().wait(secs(60)));
    let all = [held(&there).await, held(&there).await, held(&there).await];
    let ends = async {
        sleep(secs(2)).await;
        for permit in all {
            permit.settle(true).await;
        }
    };
    let (order, ()) = tokio::join!(order(&here, 32), ends);
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn of_the_waiting_calls_of_one_process_one_asks_the_store() {
    let store = CountingStore::new(MemoryStore::new());
    let here = Guarded::on(store.clone(), policy().wait(secs(5)));
    let _all = [held(&here).await, held(&here).await, held(&here).await];
    store.reset();
    let began = Instant::now();
    let waiting = (0..64).map(|_| holders(&here));
    assert_eq!(join_all(waiting).await, [3; 64]);
    let waited = began.elapsed();
    assert!((secs(5)..millis(5100)).contains(&waited), "{waited:?}");
    let polls = store.counts().claim_any;
    assert!((20..100).contains(&polls), "{polls}");
    // The others are renewals, and a question whether each holder renews.
    assert!(store.counts().total() < polls + 20, "{:?}", store.counts());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_asks_the_store_also_behind_a_line() {
    let here = Guarded::in_memory(policy().wait(secs(60)));
    let all = [held(&here).await, held(&here).await, held(&here).await];
    let mut waiting = Box::pin(here.run(1, nothing()));
    assert!(waiting.as_mut().now_or_never().is_none());
    let now = without_wait(&here);
    assert_eq!(holders(&now).await, 3);
    for permit in all {
        permit.settle(true).await;
    }
    now.run(1, nothing()).await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_does_not_hold_up_the_calls_behind_it() {
    for unpolled in [1, 3, 50] {
        let here = Guarded::in_memory(policy().wait(secs(60)));
        let all = [held(&here).await, held(&here).await, held(&here).await];
        let mut calls: Vec<_> = (0..unpolled)
            .map(|_| Box::pin(here.run(1, nothing())))
            .collect();
        for call in &mut calls {
            assert!(call.as_mut().now_or_never().is_none());
        }
        let ends = async {
            sleep(millis(10)).await;
            for permit in all {
                permit.settle(true).await;
            }
        };
        let (ran, ()) = tokio::join!(timeout(secs(5), here.run(1, nothing())), ends);
        ran.expect("the line moves on").unwrap();
        for ran in join_all(calls).await {
            ran.unwrap();
        }
        assert_eq!(free(&without_wait(&here)).await, 3);
    }
}

/// Five calls of one process wait for a permit, which becomes free after 300 ms. The call with this number waits only until `after`, or
/// is dropped then. Checks that the others run, and that all permits are free afterwards.
async fn all_run_but(number: usize, after: Duration, is_dropped: bool) {
    let [here, there] = two_processes(policy().wait(secs(60)));
    let all = [held(&there).await, held(&there).await, held(&there).await];
    let calls = (0..5).map(async |call| {
        let short = Guarded {
            policy: policy().wait(after),
            ..here.clone()
        };
        match call == number {
            true if is_dropped => drop(timeout(after, here.run(1, nothing())).await),
            true => drop(short.run(1, nothing()).await),
            false => here.run(1, nothing()).await.unwrap(),
        }
    });
    let ends = async {
        sleep(millis(300)).await;
        for permit in all {
            permit.settle(true).await;
        }
    };
    let began = Instant::now();
    tokio::join!(join_all(calls), ends);
    let took = began.elapsed();
    assert!(took < secs(2), "{number}, {after:?}: {took:?}");
    here.settled().await;
    let free = free(&without_wait(&there)).await;
    assert_eq!(free, 3, "{number}, {after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_or_waits_no_longer_leaves_no_gap() {
    for is_dropped in [true, false] {
        for number in [0, 1, 4] {
            for after in (1..30).chain((30..700).step_by(11)) {
                all_run_but(number, millis(after), is_dropped).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_in_a_line_do_not_wait_for_the_deadline_of_each_other() {
    let store = FaultyStore::new(MemoryStore::new());
    let here = Guarded::on(store.clone(), policy().wait(secs(120)).renew(Renew::No));
    let _all = [held(&here).await, held(&here).await, held(&here).await];
    let there = here.elsewhere();
    let calls = (0..16).map(|_| there.run(1, nothing()));
    let outage = async {
        sleep(secs(1)).await;
        store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    };
    let began = Instant::now();
    let (ended, ()) = tokio::join!(join_all(calls), outage);
    let codes = ended.into_iter().map(|end| end.map_err(Failed::refusal));
    assert!(
        codes
            .map(|end| end.unwrap_err().code())
            .all(|code| code == "store_unavailable")
    );
    let took = began.elapsed();
    assert!((secs(8)..secs(20)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_behind_in_a_line_wait_on_in_an_outage_while_the_leases_of_the_holders_last() {
    for on_store_error in [OnStoreError::Refuse, OnStoreError::Run] {
        let store = FaultyStore::new(MemoryStore::new());
        let policy = policy().on_store_error(on_store_error).wait(secs(60));
        let here = Guarded::on(store.clone(), policy);
        let all = [held(&here).await, held(&here).await, held(&here).await];
        let there = here.elsewhere();
        let bodies = Cell::new(0);
        let run = async |wait| {
            let policy = policy.wait(secs(wait));
            let body = async {
                bodies.set(bodies.get() + 1);
                Ok(())
            };
            let guarded = Guarded {
                policy,
                ..there.clone()
            };
            guarded.run(1, body).await.map_err(Failed::refusal)
        };
        let outage = async {
            sleep(secs(1)).await;
            store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
            sleep(secs(4)).await;
            assert_eq!(bodies.get(), 0, "{on_store_error:?}");
            store.heal();
            for permit in all {
                permit.settle(true).await;
            }
        };
        // The time of the first call, and of one behind it, ends in the outage.
        let ended = tokio::join!(run(2), run(60), run(3), run(60), outage);
        for ended in [ended.0, ended.2] {
            assert_eq!(ended.unwrap_err().code(), "in_progress");
        }
        ended.1.unwrap();
        ended.3.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_call_of_a_line_stays_the_first_while_the_store_hangs() {
    let faulty = FaultyStore::new(MemoryStore::new());
    let store = CountingStore::new(faulty.clone());
    let policy = Policy::new(secs(120)).release(Release::Always).permits(3);
    let here = Guarded::on(store.clone(), policy.wait(secs(60)));
    let all = [held(&here).await, held(&here).await, held(&here).await];
    let patient = Idempotency::builder(here.store.clone()).deadline(secs(8));
    let there = Guarded {
        idempotency: patient.build().unwrap(),
        ..here.clone()
    };
    let outage = async {
        sleep(secs(1)).await;
        faulty.always_all(Fault::Hang);
        store.reset();
        sleep(secs(25)).await;
        assert_eq!(store.counts().claim_any, 1, "a call sends it once");
        faulty.heal();
        for permit in all {
            permit.settle(true).await;
        }
    };
    let (first, second, ()) =
        tokio::join!(there.run(1, nothing()), there.run(1, nothing()), outage);
    first.unwrap();
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_with_different_numbers_of_permits_do_not_wait_for_each_other() {
    let here = Guarded::in_memory(policy().wait(secs(60)));
    let all = [held(&here).await, held(&here).await, held(&here).await];
    let mut waiting = Box::pin(here.run(1, nothing()));
    assert!(waiting.as_mut().now_or_never().is_none());
    let more = Guarded {
        policy: policy().permits(5).wait(secs(60)),
        ..here.clone()
    };
    let ran = timeout(secs(1), more.run(1, nothing())).await;
    ran.expect("two permits are free for it").unwrap();
    for permit in all {
        permit.settle(true).await;
    }
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_claim_may_have_a_permit_does_not_wait_for_its_turn() {
    let store = FaultyStore::new(MemoryStore::new());
    let policy = policy().permits(1).wait(secs(60));
    let here = Guarded::on(RequiredOnly(store.clone()), policy);
    let permit = held(&here.elsewhere()).await;
    let mut unpolled = Box::pin(here.run(1, nothing()));
    timeout(secs(1), &mut unpolled).await.unwrap_err();
    let network = async {
        // Meanwhile the other call becomes the first of the line.
        sleep(secs(4)).await;
        permit.settle(true).await;
        store.next(Op::Claim, Fault::ApplyThenHang);
        while store.remaining_faults() > 0 {
            assert!(unpolled.as_mut().now_or_never().is_none());
            sleep(millis(1)).await;
        }
        store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
        let heals = async {
            sleep(secs(2)).await;
            store.heal();
        };
        tokio::join!(unpolled, heals).0.unwrap();
    };
    let began = Instant::now();
    let (ran, ()) = tokio::join!(here.run(1, nothing()), network);
    ran.unwrap();
    // The lease of the claim lasts for five seconds more.
    let took = began.elapsed();
    assert!(took < secs(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_wait_ends_is_not_refused_by_an_old_answer() {
    let here = Guarded::in_memory(policy().wait(secs(60)));
    let all = [held(&here).await, held(&here).await, held(&here).await];
    let mut unpolled = Box::pin(here.run(1, nothing()));
    let short = Guarded {
        policy: policy().wait(millis(2500)),
        ..here.clone()
    };
    let mut waiting = Box::pin(short.run(1, nothing()));
    // The answers after the first are younger than the call that waits.
    for _ in 0..8 {
        assert!(unpolled.as_mut().now_or_never().is_none());
        assert!(waiting.as_mut().now_or_never().is_none());
        sleep(millis(150)).await;
    }
    for permit in all {
        permit.settle(true).await;
    }
    waiting.await.unwrap();
    unpolled.await.unwrap();
}
