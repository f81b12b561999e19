//! Lost leases: when and why they are lost, and which commands follow.

use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::store::Store as _;
use idempotent_runtime::{
    MemoryStore, OnCancel, OnLeaseLost, Policy, Release, Renew, StoreErrorKind,
};
use tokio::time::{Instant, sleep};

use crate::protocol::guarded::{Guarded, forever, millis, secs};
use support::log_capture::LogCapture;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(3))
}

async fn remove(guarded: &Guarded) {
    let entry = guarded.entry(1).await.unwrap();
    let removed = guarded.store.remove(&guarded.key(1), &entry.value).await;
    removed.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_error_says_that_the_record_was_removed() {
    let guarded = Guarded::in_memory(policy());
    let body = async {
        remove(&guarded).await;
        forever().await
    };
    let refused = guarded.run(1, body).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    assert!(refused.to_string().contains("was removed"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_error_says_that_another_record_is_stored() {
    let guarded = Guarded::in_memory(policy());
    let body = async {
        remove(&guarded).await;
        let other = guarded.elsewhere().call(1).claim().await.unwrap();
        let outcome = forever().await;
        other.settle(false).await;
        outcome
    };
    let refused = guarded.run(1, body).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    assert!(refused.to_string().contains("another"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_error_says_that_the_claim_was_not_renewed_in_time() {
    let guarded = Guarded::in_memory(policy().renew(Renew::No));
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    assert!(refused.to_string().contains("in time"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_counts_from_the_send_of_the_renewal() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().lease(secs(30)));
    store.next(Op::Replace, Fault::Delay(millis(800)));
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let begun = Instant::now();
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    let lasted = begun.elapsed();
    assert!(
        lasted >= secs(10 + 30) && lasted <= secs(10 + 30) + millis(50),
        "{lasted:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_a_body_was_stopped() {
    let store = CountingStore::new(MemoryStore::new());
    let policy = policy().renew(Renew::No).on_cancel(OnCancel::Release);
    let guarded = Guarded::on(store.clone(), policy);
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    sleep(secs(60)).await;
    guarded.settled().await;
    assert_eq!(store.counts().total(), 1, "the claim alone");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_a_call_was_dropped_that_had_lost_its_lease() {
    for on_lease_lost in [OnLeaseLost::Stop, OnLeaseLost::Continue] {
        let store = CountingStore::new(MemoryStore::new());
        let policy = policy()
            .renew(Renew::No)
            .on_cancel(OnCancel::Release)
            .on_lease_lost(on_lease_lost);
        let guarded = Guarded::on(store.clone(), policy);
        let mut call = Box::pin(guarded.run(1, forever()));
        assert!(call.as_mut().now_or_never().is_none());
        // The lease is lost, and the caller drops the call without polling it again.
        sleep(secs(10)).await;
        drop(call);
        guarded.settled().await;
        assert_eq!(store.counts().total(), 1, "the claim alone");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_success_is_sent_after_a_body_that_continued_without_lease() {
    for (release, outcome, sent) in [
        (Release::OnError, Err(()), 1),
        (Release::Always, Ok(()), 1),
        (Release::Always, Err(()), 1),
        (Release::Never, Ok(()), 1),
        (Release::Never, Err(()), 1),
        // The work is done, and no record is stored, so the done record is stored.
        (Release::OnError, Ok(()), 3),
    ] {
        let store = CountingStore::new(MemoryStore::new());
        let policy = Policy::new(secs(3))
            .release(release)
            .renew(Renew::No)
            .on_lease_lost(OnLeaseLost::Continue);
        let guarded = Guarded::on(store.clone(), policy);
        let body = async {
            sleep(secs(10)).await;
            outcome
        };
        assert_eq!(guarded.run(1, body).await.is_ok(), outcome.is_ok());
        guarded.settled().await;
        assert_eq!(store.counts().total(), sent, "{release:?}, {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_the_done_record_is_not_a_lost_lease() {
    let log = LogCapture::start();
    let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
    let guarded = Guarded::on(store.clone(), policy());
    let body = async {
        sleep(millis(900)).await;
        // The done record is stored, but its reply has not arrived when the renewal is due.
        store.next(Op::Replace, Fault::ApplyThenHang);
        Ok(7)
    };
    assert_eq!(guarded.run(1, body).await.unwrap(), 7);
    assert_eq!(
        store.inner().counts().replace,
        3,
        "a completion, a renewal that missed, a completion"
    );
    guarded.settled().await;
    assert_eq!(log.errors(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_logged_as_an_error() {
    let log = LogCapture::start();
    let guarded = Guarded::in_memory(policy().renew(Renew::No));
    guarded.run(1, forever()).await.unwrap_err();
    let errors = log.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("the lease was lost"), "{errors:?}");
}
