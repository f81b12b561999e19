//! The numbers of runs: each is larger than the numbers of all runs before, whatever happened to those runs.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::private::{Fenced, OneIntent, Refusal};
use idempotent_runtime::store::{Bytes, Claim, Entry, FencedClaim, Swap};
use idempotent_runtime::{
    IdempotencyContext, MemoryStore, OnLeaseLost, OnStoreError, Policy, Release, Renew, Store,
    StoreError, StoreErrorKind,
};
use tokio::time::{sleep, timeout};

use crate::protocol::guarded::{Failed, Guarded, forever, secs};

pub(crate) type FencedContext = IdempotencyContext<Fenced<OneIntent>>;

/// The fence, the attempt, and whether the call took over.
pub(crate) type Facts = (i64, u32, bool);

pub(crate) fn policy() -> Policy {
    Policy::new(secs(60)).release(Release::Always).fence()
}

/// Runs a body that gets the context of its call.
pub(crate) async fn run<R>(
    guarded: &Guarded,
    body: impl AsyncFnOnce(FencedContext) -> Result<R, ()>,
) -> Result<R, Failed> {
    let held = guarded.call(1).claim().await.map_err(Refusal::into_error)?;
    let mut held = held;
    let body = body(held.context());
    let outcome = {
        let mut body = std::pin::pin!(body);
        std::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
    };
    let outcome = outcome.map_err(Failed::Refused)?;
    held.settle(outcome.is_ok()).await;
    outcome.map_err(|()| Failed::Body)
}

pub(crate) async fn facts(guarded: &Guarded) -> Facts {
    run(guarded, async |cx| Ok(read(&cx))).await.unwrap()
}

fn read(cx: &FencedContext) -> Facts {
    assert_eq!(cx.try_fence().unwrap(), cx.fence());
    (cx.fence(), cx.attempt().unwrap(), cx.took_over().unwrap())
}

#[tokio::test(start_paused = true)]
async fn each_run_has_a_larger_number_and_a_success_resets_the_attempts() {
    let guarded = Guarded::in_memory(policy());
    let mut last = 0;
    for _ in 0..10 {
        let (fence, attempt, took_over) = facts(&guarded).await;
        assert!(fence > last && fence < 1 << 53);
        assert_eq!((attempt, took_over), (1, false));
        last = fence;
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_counted_as_attempts_until_a_success() {
    let guarded = Guarded::in_memory(policy());
    for number in 1..=3 {
        let failed = run(&guarded, async |cx| {
            assert_eq!((cx.attempt(), cx.took_over()), (Some(number), Some(false)));
            Err::<(), ()>(())
        });
        assert!(matches!(failed.await, Err(Failed::Body)));
    }
    for attempt in [4, 1] {
        let (_, number, took_over) = facts(&guarded).await;
        assert_eq!((number, took_over), (attempt, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_over_from_a_dropped_call_and_from_a_panicked_call() {
    let guarded = Guarded::in_memory(policy());
    let dropped = timeout(secs(1), guarded.run(1, forever())).await;
    assert!(dropped.is_err());
    sleep(secs(70)).await;
    let panicked = guarded.run(1, async { panic!("in the body") as Result<(), ()> });
    assert!(
        std::panic::AssertUnwindSafe(panicked)
            .catch_unwind()
            .await
            .is_err()
    );
    sleep(secs(70)).await;
    let (_, attempt, took_over) = facts(&guarded).await;
    assert_eq!((attempt, took_over), (3, true));
    let (_, attempt, took_over) = facts(&guarded).await;
    assert_eq!((attempt, took_over), (1, false));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_the_first_does_not_take_over() {
    let guarded = Guarded::in_memory(policy().wait(secs(30)));
    for second in [guarded.clone(), guarded.elsewhere()] {
        let first = run(&guarded, async |cx| {
            sleep(secs(3)).await;
            Ok(cx.fence())
        });
        let waited = async {
            sleep(secs(1)).await;
            facts(&second).await
        };
        let (first, (fence, attempt, took_over)) = tokio::join!(first, waited);
        assert!(fence > first.unwrap());
        assert_eq!((attempt, took_over), (1, false));
    }
}

#[tokio::test(start_paused = true)]
async fn the_fence_is_ended_under_every_release() {
    for release in [Release::Always, Release::OnError, Release::Never] {
        let guarded = Guarded::in_memory(policy().release(release));
        let first = facts(&guarded).await;
        let line = guarded.fence_line(1).await.unwrap();
        let ended = format!("idem1 F fence={} attempt=0 ended", first.0);
        assert_eq!(line, ended, "{release:?}");
        sleep(secs(100)).await;
        assert!(guarded.entry(1).await.is_none());
        let second = facts(&guarded).await;
        assert!(
            second.0 > first.0 && second.1 == 1 && !second.2,
            "{release:?}"
        );
    }
}

/// A row of a table that another program changes, too.
#[derive(Default)]
struct Stock(Mutex<(i64, Vec<&'static str>)>);

impl Stock {
    /// `UPDATE … SET fence = $1 WHERE fence <= $1`.
    fn write(&self, fence: i64, by: &'static str) -> bool {
        let mut row = self.0.lock().unwrap();
        if row.0 > fence {
            return false;
        }
        row.0 = fence;
        row.1.push(by);
        true
    }
}

/// The first holder is paused for longer than its lease, for example by the pause of its virtual machine. The second has taken
/// over and written when the first continues. Without a number the first would overwrite the second.
#[tokio::test(start_paused = true)]
async fn a_resource_refuses_the_write_of_a_paused_holder() {
    let policy = policy()
        .renew(Renew::No)
        .on_lease_lost(OnLeaseLost::Continue);
    let (first, stock) = (Guarded::in_memory(policy), Stock::default());
    let second = first.elsewhere();
    let paused = run(&first, async |cx| {
        assert!(stock.write(cx.fence(), "first"));
        sleep(secs(100)).await;
        assert!(!stock.write(cx.fence(), "first, late"));
        // The negative control: the lock alone does not stop it.
        assert!(stock.write(i64::MAX - 1, "first, without its number"));
        Ok(())
    });
    let taken_over = async {
        sleep(secs(80)).await;
        run(&second, async |cx| {
            assert_eq!((cx.attempt(), cx.took_over()), (Some(2), Some(true)));
            assert!(stock.write(cx.fence(), "second"));
            Ok(())
        })
        .await
    };
    let (paused, taken_over) = tokio::join!(paused, taken_over);
    paused.unwrap();
    taken_over.unwrap();
    let written = stock.0.into_inner().unwrap().1;
    assert_eq!(written, ["first", "second", "first, without its number"]);
}

/// The end of a call that lost its lease does not end the fence of the call that took over.
#[tokio::test(start_paused = true)]
async fn a_late_end_does_not_end_the_fence_of_the_next_call() {
    let policy = policy()
        .renew(Renew::No)
        .on_lease_lost(OnLeaseLost::Continue);
    let first = Guarded::in_memory(policy);
    let second = first.elsewhere();
    let late = run(&first, async |_| {
        sleep(secs(100)).await;
        Ok(())
    });
    let dies = async {
        sleep(secs(80)).await;
        assert!(
            timeout(secs(30), run(&second, async |_| forever().await))
                .await
                .is_err()
        );
    };
    tokio::join!(late, dies).0.unwrap();
    sleep(secs(70)).await;
    let (_, attempt, took_over) = facts(&first).await;
    assert_eq!((attempt, took_over), (3, true));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_changes_no_number() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    for fault in [Fault::LoseReply, Fault::ApplyThenHang] {
        store.next(Op::ClaimFenced, fault);
        let line = run(&guarded, async |cx| {
            let line = guarded.fence_line(1).await.unwrap();
            assert_eq!(line, format!("idem1 F fence={} attempt=1 open", cx.fence()));
            Ok(())
        });
        line.await.unwrap();
    }
    for fault in [Fault::LoseReply, Fault::Fail(StoreErrorKind::NotApplied)] {
        store.next(Op::Replace, fault);
        facts(&guarded).await;
        assert_eq!(store.remaining_faults(), 0);
        assert!(!facts(&guarded).await.2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_no_attempt() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::ClaimFenced, Fault::LoseReply);
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "store_unavailable");
    store.heal();
    guarded.settled().await;
    let (_, attempt, took_over) = facts(&guarded).await;
    assert_eq!((attempt, took_over), (1, false));
    // The withdrawn claim took over, so the dead call is still reported.
    assert!(timeout(secs(1), guarded.run(1, forever())).await.is_err());
    sleep(secs(70)).await;
    store.always(Op::ClaimFenced, Fault::LoseReply);
    assert!(guarded.run(1, forever()).await.is_err());
    store.heal();
    guarded.settled().await;
    let (_, attempt, took_over) = facts(&guarded).await;
    assert_eq!((attempt, took_over), (2, true));
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_a_claim_without_a_number() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::ClaimFenced, Fault::LoseReply);
    store.always(Op::ClaimFenced, Fault::Fail(StoreErrorKind::Full));
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "store_unavailable");
    guarded.settled().await;
    assert!(guarded.entry(1).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_body_without_a_guard_has_the_number_zero() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let guarded = Guarded::on(store, policy().on_store_error(OnStoreError::Run));
    let unguarded = run(&guarded, async |cx| {
        assert_eq!((cx.fence(), cx.attempt(), cx.took_over()), (0, None, None));
        Ok(())
    });
    unguarded.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_without_the_option_sends_what_it_sent_before_and_has_no_fence() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(
        store.clone(),
        Policy::new(secs(60)).release(Release::Always),
    );
    let plain = run(&guarded, async |cx| {
        assert_eq!(cx.try_fence().unwrap_err().code(), "invalid_policy");
        Ok(cx.attempt())
    });
    assert_eq!(plain.await.unwrap(), None);
    assert_eq!((store.counts().claim, store.counts().total()), (1, 2));
    store.reset();
    let fenced = Guarded::on(store.clone(), policy());
    facts(&fenced).await;
    // The end, and the end of its fence.
    assert_eq!(
        (store.counts().claim_fenced, store.counts().total()),
        (1, 3)
    );
}

#[tokio::test(start_paused = true)]
async fn peek_shows_the_fence() {
    let guarded = Guarded::in_memory(policy().release(Release::OnError));
    let (fence, ..) = facts(&guarded).await;
    let peek = guarded.idempotency.peek("test.pay", &(1_u64,)).await;
    let peek = peek.unwrap().unwrap();
    assert_eq!(peek.fence(), Some(fence));
    assert!(format!("{peek:?}").contains(&fence.to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_fence_does_not_go_with_a_transaction() {
    let guarded = Guarded::in_memory(policy().release(Release::OnError).tx());
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "invalid_policy");
    assert!(refused.to_string().contains("`fence`"), "{refused}");
}

/// A store with the four operations, whose fences take several steps.
#[derive(Debug, Clone)]
struct Four(FaultyStore<MemoryStore>);

#[async_trait]
impl Store for Four {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        Store::claim(&self.0, key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        Store::replace(&self.0, key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        Store::remove(&self.0, key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        Store::get(&self.0, key).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_of_four_operations_may_fail_at_every_step() {
    let faults = [
        Fault::LoseReply,
        Fault::ApplyThenHang,
        Fault::Hang,
        Fault::Fail(StoreErrorKind::NotApplied),
        Fault::Fail(StoreErrorKind::Unknown),
    ];
    for fault in faults {
        for (op, step) in [
            (Op::Claim, 0),
            (Op::Claim, 1),
            (Op::Replace, 0),
            (Op::Get, 0),
        ] {
            let store = FaultyStore::new(MemoryStore::new());
            let guarded = Guarded::on(Four(store.clone()), policy());
            let (first, ..) = facts(&guarded).await;
            for _ in 0..step {
                store.next(op, Fault::Delay(Duration::ZERO));
            }
            store.next(op, fault);
            let (second, attempt, took_over) = facts(&guarded).await;
            assert!(second > first, "{op:?} {step} {fault:?}");
            assert_eq!((attempt, took_over), (1, false), "{op:?} {step} {fault:?}");
            guarded.settled().await;
            assert_eq!(store.remaining_faults(), 0);
            let third = facts(&guarded).await;
            assert!(third.0 > second && !third.2, "{op:?} {step} {fault:?}");
        }
    }
}

/// The first claim expires while its number is drawn. Its number may be larger than the number of the next holder, so the first
/// must not run.
#[tokio::test(start_paused = true)]
async fn a_number_that_was_drawn_after_the_claim_was_lost_is_not_used() {
    let (key, fence_key) = ("key", "fence:{key}");
    let (one, two) = (Bytes::from_static(b"one"), Bytes::from_static(b"two"));
    for (held, ends) in [(secs(60), false), (secs(1), true)] {
        let faulty = FaultyStore::new(MemoryStore::new());
        let store = Four(faulty.clone());
        faulty.next(Op::Claim, Fault::Delay(Duration::ZERO));
        // The request for the number arrives late.
        faulty.next(Op::Claim, Fault::Delay(secs(10)));
        let slow = store.claim_fenced(key, fence_key, &one, secs(5));
        let quick = async {
            sleep(secs(6)).await;
            store.claim_fenced(key, fence_key, &two, held).await
        };
        let (slow, quick) = tokio::join!(slow, quick);
        assert!(matches!(quick.unwrap(), FencedClaim::Claimed(_)));
        if ends {
            assert_eq!(slow.unwrap_err().kind(), StoreErrorKind::Unknown);
        } else {
            assert_eq!(slow.unwrap(), FencedClaim::Taken(two.clone()));
        }
    }
}
