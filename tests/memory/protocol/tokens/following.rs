//! Equal calls while another call redeems its token. They get "running" only after the redemption.

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, Op};
use tokio::time::{Instant, sleep, timeout};

use super::{Form, nothing, policy};
use crate::protocol::guarded::{millis, secs};
use crate::protocol::observed::Observed;

#[tokio::test(start_paused = true)]
async fn a_follower_continues_if_its_leader_is_refused_for_its_token() {
    for wait in [None, Some(secs(5))] {
        let policy = wait.map_or(policy(), |wait| policy().wait(wait));
        let (store, form) = Form::faulty(policy);
        let (used, good) = (form.issue().await, form.issue().await);
        assert_eq!(form.redeemed(&used).await, "good");
        store.next(Op::Exchange, Fault::Delay(millis(100)));
        let first = form.run(&used, nothing());
        let second = async {
            sleep(millis(10)).await;
            let began = Instant::now();
            form.run(&good, async { Ok(()) }).await.unwrap();
            assert_eq!(began.elapsed(), millis(90));
        };
        let (first, ()) = tokio::join!(first, second);
        assert_eq!(first.unwrap_err().refusal().code(), "token_used");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_refused_when_its_leader_has_redeemed_its_token() {
    let (store, form) = Form::faulty(policy());
    let (first, second) = (form.issue().await, form.issue().await);
    store.next(Op::Exchange, Fault::Delay(millis(100)));
    let body = async {
        sleep(secs(1)).await;
        Ok(())
    };
    let running = form.run(&first, body);
    let refused = async {
        sleep(millis(10)).await;
        let began = Instant::now();
        let refused = form.run(&second, nothing()).await.unwrap_err().refusal();
        assert_eq!(refused.code(), "in_progress");
        assert_eq!(began.elapsed(), millis(90));
    };
    let (ran, ()) = tokio::join!(running, refused);
    ran.unwrap();
    assert_eq!(form.redeemed(&second).await, "good");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_runs_after_a_failed_call_with_a_token() {
    let (store, form) = Form::faulty(policy().wait(secs(5)));
    let (first, second) = (form.issue().await, form.issue().await);
    store.next(Op::Exchange, Fault::Delay(millis(100)));
    let failing = form.run::<()>(&first, async {
        sleep(secs(1)).await;
        Err(())
    });
    let turn = async {
        sleep(millis(10)).await;
        form.run(&second, async { Ok(()) }).await.unwrap();
    };
    let (failed, ()) = tokio::join!(failing, turn);
    failed.unwrap_err();
    assert_eq!(form.redeemed(&first).await, "token_used");
    assert_eq!(form.redeemed(&second).await, "token_used");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_of_another_process_redeems_its_own_token() {
    let (_, form) = Form::faulty(policy().wait(secs(5)));
    let elsewhere = form.elsewhere();
    let (first, second) = (form.issue().await, form.issue().await);
    let failing = form.run::<()>(&first, async {
        sleep(secs(1)).await;
        Err(())
    });
    let turn = async {
        sleep(millis(10)).await;
        elsewhere.run(&second, async { Ok(()) }).await.unwrap();
    };
    let (failed, ()) = tokio::join!(failing, turn);
    failed.unwrap_err();
    assert_eq!(form.redeemed(&second).await, "token_used");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_refused_for_its_token_leaves_the_key_to_the_next() {
    let (_, form) = Form::faulty(policy().wait(secs(5)));
    let (first, used, third) = (form.issue().await, form.issue().await, form.issue().await);
    assert_eq!(form.redeemed(&used).await, "good");
    let failing = form.run::<()>(&first, async {
        sleep(secs(1)).await;
        Err(())
    });
    let refused = async {
        sleep(millis(10)).await;
        let refused = form.run(&used, nothing()).await.unwrap_err().refusal();
        assert_eq!(refused.code(), "token_used");
    };
    let turn = async {
        sleep(millis(20)).await;
        form.run(&third, async { Ok(()) }).await.unwrap();
    };
    let (failed, (), ()) = tokio::join!(failing, refused, turn);
    failed.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_call_frozen_while_redeeming_refuses_others_only_until_its_lease_ends() {
    let (store, form) = Form::faulty(policy());
    let (first, second) = (form.issue().await, form.issue().await);
    store.next(Op::Exchange, Fault::Hang);
    let mut frozen = Box::pin(form.run(&first, nothing()));
    assert!(frozen.as_mut().now_or_never().is_none());
    let began = Instant::now();
    let refused = form.run(&second, nothing()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "in_progress", "its claim is stored");
    assert!(began.elapsed() <= secs(2), "{:?}", began.elapsed());
    sleep(secs(60)).await;
    form.run(&second, async { Ok(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_follower_continues_if_its_leader_is_dropped_while_redeeming() {
    let (store, form) = Form::faulty(policy());
    let (first, second) = (form.issue().await, form.issue().await);
    store.next(Op::Exchange, Fault::Hang);
    let dropped = timeout(millis(100), form.run(&first, nothing()));
    let goes_on = async {
        sleep(millis(10)).await;
        let began = Instant::now();
        form.run(&second, async { Ok(()) }).await.unwrap();
        assert_eq!(began.elapsed(), millis(90));
    };
    let (dropped, ()) = tokio::join!(dropped, goes_on);
    dropped.unwrap_err();
    form.guarded.settled().await;
    assert_eq!(form.redeemed(&first).await, "good");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_dropped_or_refused_while_redeeming_emits_one_end() {
    for (fault, end) in [
        (Fault::Hang, ["operation_cancelled", "cancelled"]),
        (
            Fault::Delay(millis(100)),
            ["token_rejected", "token_refused"],
        ),
    ] {
        let (store, form) = Form::faulty(policy().wait(secs(5)));
        let (first, used, next) = (form.issue().await, form.issue().await, form.issue().await);
        assert_eq!(form.redeemed(&used).await, "good");
        let observed = Observed::default();
        let waiting = Form {
            guarded: observed.on(&form.elsewhere().guarded),
        };
        let failing = form.run::<()>(&first, async {
            sleep(secs(1)).await;
            store.always(Op::Exchange, fault);
            Err(())
        });
        let waits = async {
            sleep(millis(10)).await;
            let _ = timeout(millis(1900), waiting.run(&used, nothing())).await;
        };
        let (failed, ()) = tokio::join!(failing, waits);
        failed.unwrap_err();
        store.heal();
        waiting.guarded.settled().await;
        let [redemption, call] = end;
        assert_eq!(observed.take(), ["waited", redemption, call]);
        form.run(&next, async { Ok(()) }).await.unwrap();
    }
}
