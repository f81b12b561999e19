//! The order of claim, redemption, body and end, and the cost of each.

use idempotence::testkit::Counts;
use idempotent_runtime::private::{replaying, returns};
use idempotent_runtime::{Error, Token};

use super::{Form, USER, nothing, policy};
use crate::protocol::guarded::{answered, never, secs};
use crate::protocol::observed::Observed;

/// How many times each operation was sent.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    claim: usize,
    exchange: usize,
    replace: usize,
    remove: usize,
}

fn sent(counts: Counts) -> Sent {
    let sent = Sent {
        claim: counts.claim,
        exchange: counts.exchange,
        replace: counts.replace,
        remove: counts.remove,
    };
    let each = sent.claim + sent.exchange + sent.replace + sent.remove;
    assert_eq!(counts.total(), each, "{counts:?}");
    sent
}

#[tokio::test(start_paused = true)]
async fn the_first_call_costs_three_round_trips_and_a_duplicate_one() {
    let (store, form) = Form::counted(policy().replay());
    let token = form.issue().await;
    let before = store.counts().claim;
    let submit = async |body: u32| {
        let returns = replaying(returns::<Result<u32, Error>>());
        answered(returns, form.keyed(&token), async move { Ok(body) }).await
    };
    assert_eq!(submit(1).await.unwrap(), 1);
    let first = Sent {
        claim: 1,
        exchange: 1,
        replace: 1,
        remove: 0,
    };
    let mut now = sent(store.counts());
    now.claim -= before;
    assert_eq!(now, first);
    assert_eq!(submit(2).await.unwrap(), 1, "the result of the first");
    let mut now = sent(store.counts());
    now.claim -= before;
    assert_eq!(now, Sent { claim: 2, ..first });
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_withdraws_its_claim_before_it_answers() {
    let (store, form) = Form::counted(policy());
    let token = form.issue().await;
    form.run(&token, async { Ok(()) }).await.unwrap();
    // The record of the first call is removed, but the used token remains.
    form.guarded
        .store
        .remove(&form.key(), &form.entry().await.unwrap().value)
        .await
        .unwrap();
    let before = store.counts();
    let refused = form.run(&token, nothing()).await.unwrap_err().refusal();
    assert!(matches!(refused, Error::TokenUsed(_)), "{refused}");
    assert_eq!(store.counts().claim - before.claim, 1);
    assert_eq!(store.counts().exchange - before.exchange, 1);
    assert_eq!(store.counts().remove - before.remove, 1);
    assert_eq!(store.counts().total() - before.total(), 3);
    assert!(form.is_free().await);
    let other = form.issue().await;
    form.run(&other, async { Ok(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_malformed_token_is_refused_before_anything_is_sent() {
    let (store, form) = Form::counted(policy());
    for text in ["", "12", "session:42", &"x".repeat(64), &"a".repeat(65)] {
        let refused = form.run(text, nothing()).await.unwrap_err().refusal();
        assert!(matches!(refused, Error::TokenMalformed(_)), "{refused}");
        assert_eq!(refused.endpoint(), "test.pay");
    }
    assert_eq!(store.counts().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_token_is_refused_and_leaves_no_record() {
    let (_, form) = Form::counted(policy());
    let refused = form.run("a".repeat(64), nothing()).await;
    let refused = refused.unwrap_err().refusal();
    assert!(matches!(refused, Error::TokenUnknown(_)), "{refused:?}");
    assert!(form.is_free().await);
}

#[tokio::test(start_paused = true)]
async fn the_token_of_another_user_is_refused_and_remains_redeemable() {
    let (_, form) = Form::counted(policy());
    let token = form.issue().await;
    let endpoint = form.guarded.endpoint;
    for call in [
        form.guarded
            .call_with_token(1, token.as_str(), USER + 1, endpoint),
        form.guarded
            .call_with_token(1, token.as_str(), USER, "test.other"),
    ] {
        let refused = call.claim().await.unwrap_err();
        assert!(
            matches!(refused.error(), Error::TokenUnknown(_)),
            "{refused:?}"
        );
        assert_eq!(refused.error().endpoint(), endpoint);
    }
    assert!(form.is_free().await);
    form.run(&token, async { Ok(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_does_not_redeem_its_token() {
    let (store, form) = Form::counted(policy());
    let (first, second) = (form.issue().await, form.issue().await);
    let held = form.call(&first).claim().await.unwrap();
    for process in [form.clone(), form.elsewhere()] {
        let refused = process.call(&second).claim().await.unwrap_err();
        assert_eq!(refused.error().code(), "in_progress");
    }
    held.settle(true).await;
    let refused = form.call(&second).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "already_done");
    assert_eq!(store.counts().exchange, 1);
    assert_eq!(form.redeemed(&second).await, "good");
}

#[tokio::test(start_paused = true)]
async fn a_used_token_gets_the_first_result_while_it_is_stored() {
    let (_, form) = Form::counted(policy().replay());
    let token = form.issue().await;
    let submit = async || {
        let returns = replaying(returns::<Result<u32, Error>>());
        answered(returns, form.keyed(&token), never()).await
    };
    let returns = replaying(returns::<Result<u32, Error>>());
    let first = answered(returns, form.keyed(&token), async { Ok(1) }).await;
    assert_eq!(first.unwrap(), 1);
    tokio::time::advance(secs(59)).await;
    assert_eq!(submit().await.unwrap(), 1);
    tokio::time::advance(secs(1)).await;
    let refused = submit().await.unwrap_err();
    assert!(matches!(refused, Error::TokenUsed(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn without_a_key_two_tokens_are_two_calls() {
    let (_, form) = Form::counted(policy());
    let (first, second) = (form.issue().await, form.issue().await);
    let held = form.keyed(&first).claim().await.unwrap();
    form.keyed(&second)
        .claim()
        .await
        .unwrap()
        .settle(true)
        .await;
    let refused = form.keyed(&first).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "in_progress");
    held.settle(true).await;
}

#[tokio::test(start_paused = true)]
async fn each_call_with_a_token_emits_one_end() {
    let observed = Observed::default();
    let (_, form) = Form::counted(policy());
    let guarded = observed.on(&form.guarded);
    let form = Form { guarded };
    let (token, other) = (form.issue().await, form.issue().await);
    form.run(&token, async { Ok(()) }).await.unwrap();
    let events = ["token_issued", "token_issued", "token_redeemed", "executed"];
    assert_eq!(observed.take(), events);
    form.run(&other, nothing()).await.unwrap_err();
    assert_eq!(observed.take(), ["done"]);
    let another_key = |token: &Token| {
        let endpoint = form.guarded.endpoint;
        form.guarded
            .call_with_token(2, token.as_str(), USER, endpoint)
    };
    another_key(&token).claim().await.unwrap_err();
    assert_eq!(observed.take(), ["token_rejected", "token_refused"]);
    another_key(&other)
        .claim()
        .await
        .unwrap()
        .settle(true)
        .await;
    assert_eq!(observed.take(), ["token_redeemed", "executed"]);
    form.run("no token", nothing()).await.unwrap_err();
    assert_eq!(observed.take(), ["token_rejected", "token_refused"]);
}
