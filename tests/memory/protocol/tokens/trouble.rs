//! Outages while a token is redeemed.

use idempotence::testkit::{Fault, Op};
use idempotent_runtime::{Error, OnStoreError, StoreErrorKind};
use tokio::time::{Instant, sleep};

use super::{Form, nothing, patient, policy};
use crate::protocol::guarded::{millis, secs};

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_any_command_changes_nothing() {
    for success in [true, false] {
        for lost in [Op::Claim, Op::Exchange, Op::Replace, Op::Remove] {
            let (store, form) = Form::faulty(policy().give_back());
            let token = form.issue().await;
            store.next(lost, Fault::LoseReply);
            let body = async {
                // The reply of the give-back.
                store.next(Op::Exchange, Fault::LoseReply);
                if success { Ok(()) } else { Err(()) }
            };
            assert_eq!(form.run(&token, body).await.is_ok(), success);
            form.guarded.settled().await;
            let expected = if success { "token_used" } else { "good" };
            store.heal();
            assert_eq!(form.is_free().await, !success);
            assert_eq!(form.redeemed(&token).await, expected, "{lost:?} {success}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_after_the_claim_refuses_the_call_and_leaves_no_record() {
    for fault in [
        Fault::Fail(StoreErrorKind::NotApplied),
        Fault::Fail(StoreErrorKind::Unknown),
        Fault::LoseReply,
        Fault::Hang,
        Fault::ApplyThenHang,
    ] {
        for on_store_error in [OnStoreError::Refuse, OnStoreError::Run] {
            let (store, form) = Form::faulty(policy().on_store_error(on_store_error));
            let token = form.issue().await;
            store.always(Op::Exchange, fault);
            let began = Instant::now();
            let refused = form.run(&token, nothing()).await.unwrap_err().refusal();
            assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
            assert!(began.elapsed() <= secs(1), "{:?}", began.elapsed());
            store.heal();
            form.guarded.settled().await;
            assert!(form.is_free().await, "{fault:?}");
            assert_eq!(form.redeemed(&token).await, "good", "{fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_key_is_not_free_before_the_token_can_be_redeemed_again() {
    let (store, form) = Form::faulty(policy());
    let token = form.issue().await;
    store.always(Op::Exchange, Fault::ApplyThenHang);
    let refused = form.run(&token, nothing()).await.unwrap_err().refusal();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    // The token is redeemed but no body uses it, so the key must stay taken: an equal call would be refused for the token.
    sleep(secs(3)).await;
    assert!(!form.is_free().await);
    store.heal();
    form.guarded.settled().await;
    assert!(form.is_free().await);
    assert_eq!(form.redeemed(&token).await, "good");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_no_token_back_still_frees_the_key() {
    for kind in [StoreErrorKind::Full, StoreErrorKind::Misconfigured] {
        let (store, form) = Form::faulty(policy().give_back());
        let token = form.issue().await;
        let body = async {
            store.always(Op::Exchange, Fault::Fail(kind));
            Err::<(), _>(())
        };
        form.run(&token, body).await.unwrap_err();
        assert!(form.is_free().await, "before the answer");
        store.heal();
        form.guarded.settled().await;
        assert_eq!(form.redeemed(&token).await, "token_used");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_misconfigured_for_tokens_refuses_the_call_and_leaves_no_record() {
    let (store, form) = Form::faulty(policy());
    let token = form.issue().await;
    store.always(Op::Exchange, Fault::Fail(StoreErrorKind::Misconfigured));
    let refused = form.run(&token, nothing()).await.unwrap_err().refusal();
    assert!(matches!(refused, Error::Misconfigured(_)), "{refused}");
    assert!(form.is_free().await, "before it answers");
    store.heal();
    assert_eq!(form.redeemed(&token).await, "good");
}

#[tokio::test(start_paused = true)]
async fn on_store_error_run_never_runs_a_call_with_a_token_unguarded() {
    for ops in [&Op::ALL[..], &[Op::Claim]] {
        let (store, form) = Form::faulty(policy().on_store_error(OnStoreError::Run));
        let token = form.issue().await;
        for op in ops {
            store.always(*op, Fault::Fail(StoreErrorKind::NotApplied));
        }
        let refused = form.run(&token, nothing()).await.unwrap_err().refusal();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        store.heal();
        assert_eq!(form.redeemed(&token).await, "good");
    }
}

#[tokio::test(start_paused = true)]
async fn with_on_store_error_run_a_body_with_a_redeemed_token_survives_an_outage() {
    for (policy, end) in [
        (policy().on_store_error(OnStoreError::Run), "done"),
        (policy(), "lease_lost"),
    ] {
        let (store, form) = Form::faulty(policy.lease(secs(5)));
        let token = form.issue().await;
        let body = async {
            store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
            sleep(secs(60)).await;
            store.heal();
            Ok(())
        };
        let ended = form.run(&token, body).await;
        let ended = ended.map_or_else(|failed| failed.refusal().code(), |()| "done");
        assert_eq!(ended, end);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_redeemed_after_the_lease_is_given_back_and_no_body_runs() {
    for on_lease_lost in [
        idempotent_runtime::OnLeaseLost::Stop,
        idempotent_runtime::OnLeaseLost::Continue,
    ] {
        let (store, form) = Form::faulty(policy().lease(millis(500)).on_lease_lost(on_lease_lost));
        let form = patient(&form, secs(8));
        let token = form.issue().await;
        store.next(Op::Exchange, Fault::Delay(millis(501)));
        let refused = form.run(&token, nothing()).await.unwrap_err().refusal();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        form.guarded.settled().await;
        assert!(form.is_free().await);
        assert_eq!(form.redeemed(&token).await, "good");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_lasts_until_the_token_is_redeemed_is_enough() {
    let (store, form) = Form::faulty(policy().lease(millis(500)));
    let form = patient(&form, secs(8));
    let token = form.issue().await;
    store.next(Op::Exchange, Fault::Delay(millis(499)));
    let body = async {
        sleep(secs(5)).await;
        Ok(())
    };
    form.run(&token, body).await.unwrap();
    assert_eq!(form.redeemed(&token).await, "token_used");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_token_text_refuses_the_call() {
    let (_, form) = Form::faulty(policy());
    let token = form.issue().await;
    let refused = form
        .run("0".repeat(64), nothing())
        .await
        .unwrap_err()
        .refusal();
    assert!(matches!(refused, Error::TokenUnknown(_)), "{refused}");
    assert_eq!(form.redeemed(&token).await, "good");
}
