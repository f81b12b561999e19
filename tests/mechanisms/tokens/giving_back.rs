//! A token that is given back.

use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::MemoryStore;
use idempotent_runtime::StoreErrorKind;
use tokio::time::advance;

use crate::tokens::{
    Events, LONG, TTL, assert_accepted, assert_refused, code_of, issue, on, redeem,
};
use support::required_only::RequiredOnly;

#[tokio::test]
async fn a_token_that_was_given_back_can_be_redeemed_once_more() {
    let tokens = on(MemoryStore::new());
    let token = issue(&tokens).await;
    for _ in 0..3 {
        let redeemed = redeem(&tokens, &token).await.unwrap();
        assert_refused(&tokens, &token, "token_used").await;
        assert!(redeemed.give_back().await.unwrap());
    }
    assert_accepted(&tokens, &token).await;
    assert_refused(&tokens, &token, "token_used").await;
}

#[tokio::test]
async fn a_dropped_redeemed_token_stays_used() {
    let tokens = on(MemoryStore::new());
    let token = issue(&tokens).await;
    drop(redeem(&tokens, &token).await.unwrap());
    assert_refused(&tokens, &token, "token_used").await;
}

#[tokio::test(start_paused = true)]
async fn a_token_is_given_back_for_the_rest_of_its_ttl() {
    let store = RequiredOnly(MemoryStore::new());
    for tokens in [on(MemoryStore::new()), on(store)] {
        let (early, late) = (issue(&tokens).await, issue(&tokens).await);
        for token in [&early, &late] {
            advance(TTL / 4).await;
            let redeemed = redeem(&tokens, token).await.unwrap();
            assert!(redeemed.give_back().await.unwrap());
        }
        let tick = Duration::from_millis(1);
        advance((TTL / 2).saturating_sub(tick)).await;
        assert_accepted(&tokens, &early).await;
        advance(tick).await;
        assert_refused(&tokens, &late, "token_unknown").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_not_given_back() {
    let events = Events::default();
    let tokens = events.handle(MemoryStore::new()).tokens();
    let token = issue(&tokens).await;
    let redeemed = redeem(&tokens, &token).await.unwrap();
    advance(TTL).await;
    assert!(!redeemed.give_back().await.unwrap());
    assert_refused(&tokens, &token, "token_unknown").await;
    let expected = [
        "token_issued",
        "token_redeemed",
        "not_there",
        "token_rejected",
    ];
    assert_eq!(events.take(), expected);
}

#[tokio::test]
async fn an_earlier_redeemer_cannot_give_back_the_token_of_a_later_one() {
    let tokens = on(MemoryStore::new());
    let token = issue(&tokens).await;
    let first = redeem(&tokens, &token).await.unwrap();
    assert!(first.give_back().await.unwrap());
    let second = redeem(&tokens, &token).await.unwrap();
    assert!(
        first.give_back().await.unwrap(),
        "the first time it is given back"
    );
    assert_refused(&tokens, &token, "token_used").await;
    assert!(second.give_back().await.unwrap());
    assert_accepted(&tokens, &token).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_giving_back_is_retried() {
    let store = FaultyStore::new(MemoryStore::new());
    let tokens = on(store.clone());
    let token = issue(&tokens).await;
    let redeemed = redeem(&tokens, &token).await.unwrap();
    store.next(Op::Exchange, Fault::LoseReply);
    assert!(redeemed.give_back().await.unwrap());
    assert_accepted(&tokens, &token).await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_could_not_be_given_back_can_be_given_back_later() {
    let store = FaultyStore::new(MemoryStore::new());
    let tokens = on(store.clone());
    let token = issue(&tokens).await;
    let redeemed = redeem(&tokens, &token).await.unwrap();
    for kind in [
        StoreErrorKind::NotApplied,
        StoreErrorKind::Unknown,
        StoreErrorKind::Full,
    ] {
        store.always(Op::Exchange, Fault::Fail(kind));
        assert_eq!(code_of(redeemed.give_back().await), "store_unavailable");
    }
    store.heal();
    assert_refused(&tokens, &token, "token_used").await;
    assert!(redeemed.give_back().await.unwrap());
    assert_accepted(&tokens, &token).await;
}

#[tokio::test(start_paused = true)]
async fn giving_back_continues_in_the_background_after_a_drop() {
    for fault in [
        Fault::Hang,
        Fault::ApplyThenHang,
        Fault::Delay(Duration::from_millis(100)),
        Fault::ApplyLate(Duration::from_millis(100)),
    ] {
        let (events, store) = (Events::default(), FaultyStore::new(MemoryStore::new()));
        let handle = events.handle(store.clone());
        let tokens = handle.tokens();
        let token = issue(&tokens).await;
        let redeemed = redeem(&tokens, &token).await.unwrap();
        events.take();
        store.next(Op::Exchange, fault);
        {
            let mut given_back = std::pin::pin!(redeemed.give_back());
            let polled = given_back.as_mut().now_or_never();
            assert!(polled.is_none(), "{fault:?}");
        }
        handle.drain(LONG).await.unwrap();
        let expected = ["operation_cancelled", "token_given_back"];
        assert_eq!(events.take(), expected, "{fault:?}");
        tokio::time::sleep(LONG).await;
        assert_accepted(&tokens, &token).await;
    }
}
