//! `release = false`: the key is taken until ttl after the claim, however the call ends.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, Policy, Release, StoreErrorKind};
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, secs};

const TTL: Duration = secs(30);
const GRACE: Duration = secs(3);
/// The time of the first renewal.
const RENEWED: Duration = secs(20);

fn policy() -> Policy {
    Policy::new(TTL).release(Release::Never)
}

#[derive(Debug, Clone, Copy)]
enum End {
    Ok,
    Err,
    Dropped,
    Panic,
}

const ENDS: [End; 4] = [End::Ok, End::Err, End::Dropped, End::Panic];

async fn lasting(guarded: &Guarded, lasts: Duration, end: End) {
    let body = async {
        sleep(lasts).await;
        match end {
            End::Ok => Ok(()),
            End::Err => Err(()),
            End::Dropped => forever().await,
            End::Panic => panic!("in the body"),
        }
    };
    let call = AssertUnwindSafe(guarded.run(1, body)).catch_unwind();
    match end {
        End::Dropped => drop(timeout(lasts, call).await.unwrap_err()),
        End::Panic => drop(call.await.unwrap_err()),
        End::Ok | End::Err => drop(call.await.unwrap()),
    }
}

/// Whether the key becomes free between ttl and ttl + grace after the claim.
async fn ends_in_time(guarded: &Guarded, claimed: Instant) -> bool {
    let taken = guarded.taken_for(1).await;
    let end = claimed.elapsed() + taken.unwrap_or_default();
    (TTL..=TTL + GRACE + millis(10)).contains(&end)
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_reply_was_lost_does_not_prolong_the_claim() {
    for end in ENDS {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy());
        store.next(Op::Replace, Fault::LoseReply);
        let claimed = Instant::now();
        lasting(&guarded, RENEWED + millis(500), end).await;
        guarded.settled().await;
        assert_eq!(store.remaining_faults(), 0, "the claim was renewed");
        assert!(ends_in_time(&guarded, claimed).await, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_applied_after_the_end_does_not_prolong_the_claim() {
    for end in ENDS {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy());
        store.next(Op::Replace, Fault::Delay(millis(500)));
        let claimed = Instant::now();
        lasting(&guarded, RENEWED + millis(100), end).await;
        sleep(secs(2)).await;
        guarded.settled().await;
        assert_eq!(store.remaining_faults(), 0, "the claim was renewed");
        assert!(ends_in_time(&guarded, claimed).await, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_sent_late_ends_the_claim_at_the_same_time() {
    for end in ENDS {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy());
        let claimed = Instant::now();
        let outage = async {
            sleep(RENEWED + millis(500)).await;
            store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
            sleep(secs(7)).await;
            store.heal();
        };
        let call = lasting(&guarded, RENEWED + secs(1), end);
        tokio::join!(call, outage);
        guarded.settled().await;
        assert!(ends_in_time(&guarded, claimed).await, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_longer_than_the_ttl_frees_the_key_at_any_end() {
    for end in ENDS {
        let guarded = Guarded::in_memory(policy());
        lasting(&guarded, TTL + GRACE + secs(1), end).await;
        guarded.settled().await;
        assert_eq!(guarded.taken_for(1).await, None, "{end:?}");
    }
    // A known end needs no grace.
    for end in [End::Ok, End::Err] {
        let guarded = Guarded::in_memory(policy());
        lasting(&guarded, TTL + secs(1), end).await;
        assert_eq!(guarded.taken_for(1).await, None, "{end:?}");
    }
}
