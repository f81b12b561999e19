//! The token at the end of the call.

use std::panic::resume_unwind;

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, Op};
use idempotent_runtime::private::{Refusal, replaying, returns, returns_with};
use idempotent_runtime::{Error, OnCancel, OnLeaseLost, Policy, Release, StoreErrorKind};
use tokio::time::{sleep, timeout};

use super::{Form, nothing, policy};
use crate::protocol::guarded::{Failed, answered, forever, secs, yielding};
use crate::protocol::observed::Observed;

fn releasing() -> [Policy; 2] {
    [policy(), Policy::new(secs(60)).release(Release::Always)]
}

#[tokio::test(start_paused = true)]
async fn a_success_uses_the_token() {
    for policy in releasing() {
        let (_, form) = Form::counted(policy.give_back());
        let token = form.issue().await;
        form.run(&token, async { Ok(()) }).await.unwrap();
        assert_eq!(form.redeemed(&token).await, "token_used", "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_uses_the_token_unless_give_back_is_set() {
    for policy in releasing() {
        for (policy, expected) in [(policy, "token_used"), (policy.give_back(), "good")] {
            let (_, form) = Form::counted(policy);
            let token = form.issue().await;
            form.run::<()>(&token, yielding(Err(()))).await.unwrap_err();
            assert_eq!(form.redeemed(&token).await, expected, "{policy:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_given_back_keeps_its_expiry() {
    let (store, form) = Form::counted(policy().give_back());
    let token = form.issue().await;
    sleep(secs(300)).await;
    form.run::<()>(&token, async { Err(()) }).await.unwrap_err();
    assert!(form.is_free().await);
    let before = store.counts().exchange;
    form.run(&token, async { Ok(()) }).await.unwrap();
    assert_eq!(
        store.counts().exchange - before,
        2,
        "one exchange is for the check of the token"
    );

    let token = form.issue().await;
    let guarded = &form.guarded;
    let call = guarded.call_with_token(2, token.as_str(), super::USER, guarded.endpoint);
    call.claim().await.unwrap().settle(false).await;
    sleep(super::MINUTES).await;
    assert_eq!(form.redeemed(&token).await, "token_unknown");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_given_back_before_the_key_is_free() {
    let (store, form) = Form::faulty(policy().give_back());
    let token = form.issue().await;
    let held = form.call(&token).claim().await.unwrap();
    store.always(Op::Remove, Fault::Hang);
    let settled = held.settle(false);
    assert!(timeout(secs(3600), settled).await.is_ok());
    assert!(!form.is_free().await);
    assert_eq!(form.redeemed(&token).await, "good");
}

#[tokio::test(start_paused = true)]
async fn a_stored_error_uses_the_token() {
    let (_, form) = Form::counted(policy().replay().give_back());
    let token = form.issue().await;
    let submit = async || {
        let returns = returns_with::<Result<u32, String>, _>(|error| error.to_string());
        let returns = replaying(returns).replay_err(|_: &String| true);
        answered(returns, form.keyed(&token), async { Err("no".to_owned()) }).await
    };
    assert_eq!(submit().await, Err("no".to_owned()));
    assert_eq!(form.redeemed(&token).await, "token_used");
    assert_eq!(submit().await, Err("no".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_uses_the_token() {
    let policy = policy().give_back().on_cancel(OnCancel::Release);
    let (_, form) = Form::counted(policy);
    let token = form.issue().await;
    let body = async { resume_unwind(Box::new("in the body")) };
    let ended = std::panic::AssertUnwindSafe(form.run::<()>(&token, body));
    ended.catch_unwind().await.unwrap_err();
    form.guarded.settled().await;
    assert_eq!(form.redeemed(&token).await, "token_used");
}

#[tokio::test(start_paused = true)]
async fn a_drop_in_the_body_gives_the_token_back_only_if_the_key_is_freed() {
    let give_back = policy().give_back();
    for (policy, expected) in [
        (policy(), "token_used"),
        (give_back, "token_used"),
        (policy().on_cancel(OnCancel::Release), "token_used"),
        (give_back.on_cancel(OnCancel::Release), "good"),
    ] {
        let (_, form) = Form::counted(policy);
        let token = form.issue().await;
        let submit = timeout(secs(1), form.run(&token, forever()));
        submit.await.unwrap_err();
        form.guarded.settled().await;
        let frees = policy == policy.on_cancel(OnCancel::Release);
        assert_eq!(form.is_free().await, frees);
        assert_eq!(form.redeemed(&token).await, expected, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_uses_the_token() {
    for ends in [true, false] {
        let policy = policy().give_back();
        let policy = if ends {
            policy.on_lease_lost(OnLeaseLost::Continue)
        } else {
            policy
        };
        let (store, form) = Form::faulty(policy);
        let token = form.issue().await;
        store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
        let body = async {
            sleep(secs(30)).await;
            Err::<(), _>(())
        };
        form.run(&token, body).await.unwrap_err();
        store.heal();
        form.guarded.settled().await;
        assert_eq!(form.redeemed(&token).await, "token_used");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_finishes_in_the_background_gives_the_token_back_at_its_end() {
    let (_, form) = Form::counted(policy().give_back());
    let token = form.issue().await;
    let submit = async {
        let held = form
            .call(&token)
            .claim()
            .await
            .map_err(Refusal::into_error)?;
        let returns = returns::<Result<(), Failed>>();
        let body = async {
            sleep(secs(100)).await;
            Err(Failed::Body)
        };
        returns.finish(held, Box::pin(body)).await?
    };
    timeout(secs(1), submit).await.unwrap_err();
    assert!(!form.is_free().await);
    form.guarded.idempotency.drain(secs(200)).await.unwrap();
    assert!(form.is_free().await);
    assert_eq!(form.redeemed(&token).await, "good");
}

#[tokio::test(start_paused = true)]
async fn a_failure_dropped_while_settling_gives_the_token_back_in_the_background() {
    let (store, form) = Form::faulty(policy().give_back());
    let observed = Observed::default();
    let form = Form {
        guarded: observed.on(&form.guarded),
    };
    let token = form.issue().await;
    let held = form.call(&token).claim().await.unwrap();
    store.next(Op::Exchange, Fault::ApplyThenHang);
    let settled = held.settle(false);
    assert!(timeout(secs(0), settled).await.is_err());
    form.guarded.settled().await;
    assert!(form.is_free().await);
    assert_eq!(form.redeemed(&token).await, "good");
    let observed = observed.take();
    assert_eq!(
        observed[2..],
        ["failed", "token_given_back"],
        "the failure is emitted once: {observed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_gives_back_needs_a_token() {
    let (store, form) = Form::counted(policy().give_back());
    let refused = form.guarded.run(1, nothing()).await.unwrap_err().refusal();
    assert!(matches!(refused, Error::InvalidPolicy(_)), "{refused}");
    assert_eq!(store.counts().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_given_back_once_even_if_the_removal_of_the_key_is_repeated() {
    let (store, form) = Form::faulty(policy().give_back());
    let observed = Observed::default();
    let form = Form {
        guarded: observed.on(&form.guarded),
    };
    let token = form.issue().await;
    let held = form.call(&token).claim().await.unwrap();
    store.next(Op::Remove, Fault::Fail(StoreErrorKind::NotApplied));
    held.settle(false).await;
    assert!(form.is_free().await);
    let back = observed
        .take()
        .into_iter()
        .filter(|it| it == "token_given_back");
    assert_eq!(back.count(), 1);
}
