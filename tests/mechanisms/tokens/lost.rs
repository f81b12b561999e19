//! Lost replies, and an unavailable store.

use std::time::Duration;

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, StoreErrorKind};
use tokio::time::{Instant, sleep};

use crate::tokens::{
    Events, LONG, OPERATION, TTL, USER, assert_accepted, assert_refused, code_of, issue, on, redeem,
};

const UNANSWERED: [Fault; 7] = [
    Fault::LoseReply,
    Fault::ApplyThenHang,
    Fault::Hang,
    Fault::Delay(Duration::from_millis(100)),
    Fault::ApplyLate(Duration::from_millis(5)),
    Fault::ApplyLate(Duration::from_secs(5)),
    Fault::Fail(StoreErrorKind::NotApplied),
];

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_an_issue_costs_one_more_round_trip() {
    for fault in UNANSWERED {
        let store = FaultyStore::new(MemoryStore::new());
        let tokens = on(store.clone());
        store.next(Op::Claim, fault);
        let token = issue(&tokens).await;
        assert_eq!(store.remaining_faults(), 0);
        assert_accepted(&tokens, &token).await;
        assert_eq!(store.inner().len(), 1, "one token");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_redemption_does_not_refuse_it() {
    for fault in UNANSWERED {
        let store = FaultyStore::new(MemoryStore::new());
        let tokens = on(store.clone());
        let token = issue(&tokens).await;
        store.next(Op::Exchange, fault);
        let redeemed = redeem(&tokens, &token).await.unwrap();
        assert_refused(&tokens, &token, "token_used").await;
        // A late request does not change the token.
        assert!(redeemed.give_back().await.unwrap());
        sleep(LONG).await;
        assert_accepted(&tokens, &token).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_request_of_one_redeemer_does_not_use_the_token_of_another() {
    let store = FaultyStore::new(MemoryStore::new());
    let tokens = on(store.clone());
    let token = issue(&tokens).await;
    // The first time the token is fresh; the second time it was given back.
    for _ in 0..2 {
        store.next(Op::Exchange, Fault::ApplyLate(Duration::from_secs(5)));
        let first = redeem(&tokens, &token).await.unwrap();
        assert!(first.give_back().await.unwrap());
        let second = redeem(&tokens, &token).await.unwrap();
        sleep(LONG).await;
        assert!(second.give_back().await.unwrap());
    }
    assert_accepted(&tokens, &token).await;
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_refuses_within_the_deadline() {
    for fault in [
        Fault::Hang,
        Fault::ApplyThenHang,
        Fault::LoseReply,
        Fault::Fail(StoreErrorKind::NotApplied),
        Fault::Fail(StoreErrorKind::Unknown),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let tokens = on(store.clone());
        let token = issue(&tokens).await;
        store.always_all(fault);
        let begun = Instant::now();
        assert_refused(&tokens, &token, "store_unavailable").await;
        let issued = tokens.issue(&USER, OPERATION, TTL).await;
        assert_eq!(code_of(issued), "store_unavailable");
        assert!(begun.elapsed() <= Duration::from_millis(2010), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_without_an_accepted_redemption_becomes_valid_again() {
    for fault in [
        Fault::LoseReply,
        Fault::ApplyThenHang,
        Fault::Hang,
        Fault::Delay(Duration::from_secs(2)),
        Fault::ApplyLate(Duration::from_secs(5)),
        Fault::Fail(StoreErrorKind::Unknown),
    ] {
        let (events, store) = (Events::default(), FaultyStore::new(MemoryStore::new()));
        let handle = events.handle(store.clone());
        let tokens = handle.tokens();
        let token = issue(&tokens).await;
        events.take();
        store.always(Op::Exchange, fault);
        assert_refused(&tokens, &token, "store_unavailable").await;
        store.heal();
        handle.drain(LONG).await.unwrap();
        assert_eq!(events.take(), ["operation_failed"], "{fault:?}");
        // Now every delayed request has arrived.
        sleep(LONG).await;
        assert_accepted(&tokens, &token).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_given_back_before_also_becomes_valid_again() {
    for fault in [
        Fault::ApplyThenHang,
        Fault::ApplyLate(Duration::from_secs(5)),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let tokens = on(store.clone());
        let token = issue(&tokens).await;
        let redeemed = redeem(&tokens, &token).await.unwrap();
        redeemed.give_back().await.unwrap();
        // The first exchange finds that the token was given back.
        store.next(Op::Exchange, Fault::Delay(Duration::ZERO));
        store.always(Op::Exchange, fault);
        assert_refused(&tokens, &token, "store_unavailable").await;
        store.heal();
        sleep(LONG).await;
        assert_accepted(&tokens, &token).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_lost_reply_is_enough_to_give_a_token_back() {
    let store = FaultyStore::new(MemoryStore::new());
    let tokens = on(store.clone());
    let token = issue(&tokens).await;
    for first in [Fault::LoseReply, Fault::ApplyThenHang] {
        store.next(Op::Exchange, first);
        store.always(Op::Exchange, Fault::Fail(StoreErrorKind::NotApplied));
        assert_refused(&tokens, &token, "store_unavailable").await;
        store.heal();
        sleep(LONG).await;
        let redeemed = redeem(&tokens, &token).await.unwrap();
        redeemed.give_back().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_redemption_that_was_not_applied_is_not_given_back() {
    let store = FaultyStore::new(MemoryStore::new());
    let counted = CountingStore::new(store.clone());
    let tokens = on(counted.clone());
    let token = issue(&tokens).await;
    for kind in [
        StoreErrorKind::NotApplied,
        StoreErrorKind::Full,
        StoreErrorKind::Misconfigured,
    ] {
        store.always(Op::Exchange, Fault::Fail(kind));
        redeem(&tokens, &token).await.unwrap_err();
        counted.reset();
        sleep(LONG).await;
        assert_eq!(counted.counts().total(), 0, "{kind:?}");
    }
    store.heal();
    assert_accepted(&tokens, &token).await;
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_is_retried_for_a_minute_and_then_reported() {
    let (events, store) = (Events::default(), FaultyStore::new(MemoryStore::new()));
    let handle = events.handle(store.clone());
    let tokens = handle.tokens();
    let token = issue(&tokens).await;
    events.take();
    store.always(Op::Exchange, Fault::Hang);
    assert_refused(&tokens, &token, "store_unavailable").await;
    let begun = Instant::now();
    handle.drain(LONG).await.unwrap();
    let lasted = begun.elapsed();
    assert!(
        lasted > Duration::from_secs(50) && lasted < Duration::from_secs(70),
        "{lasted:?}"
    );
    assert_eq!(events.take(), ["operation_failed", "not_withdrawn"]);
}
