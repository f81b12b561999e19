//! A call with a token is dropped after every poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotent_runtime::private::{replaying, returns};
use idempotent_runtime::{OnCancel, Policy, Token};

use super::{Form, policy};
use crate::protocol::drops::polled::Polled;
use crate::protocol::drops::slow::Slow;
use crate::protocol::guarded::{Failed, answered, yielding};

/// The progress of the body.
#[derive(Clone, Default)]
struct Body {
    begun: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Body {
    async fn run(self, succeeds: bool) -> Result<u32, Failed> {
        self.begun.store(true, Ordering::Relaxed);
        yielding(()).await;
        self.ended.store(true, Ordering::Relaxed);
        if succeeds { Ok(1) } else { Err(Failed::Body) }
    }
}

fn submit(form: &Form, token: &Token, body: &Body, succeeds: bool) -> Polled<Result<u32, Failed>> {
    let (call, body) = (form.call(token), body.clone().run(succeeds));
    let returns = replaying(returns::<Result<u32, Failed>>());
    Polled::new(answered(returns, call, body))
}

/// Drops the call after `polls` polls. Returns the progress, whether the key is free, and the state of the token. `None` if the
/// call ended earlier.
async fn leftover_after(
    policy: Policy,
    polls: usize,
    succeeds: bool,
) -> Option<(Body, bool, &'static str)> {
    let form = Form::on(Slow::default(), policy.replay());
    let token = form.issue().await;
    let body = Body::default();
    let mut call = submit(&form, &token, &body, succeeds);
    if call.poll_times(polls).await {
        return None;
    }
    let dropped = call.drop();
    form.guarded.settled().await;
    assert!(
        !dropped.has_waker(),
        "something still has the waker of the dropped call"
    );
    let free = form.is_free().await;
    Some((body, free, form.redeemed(&token).await))
}

#[tokio::test(start_paused = true)]
async fn a_drop_at_any_poll_leaves_key_and_token_as_the_tables_say() {
    let policies = [
        policy(),
        policy().give_back(),
        policy().on_cancel(OnCancel::Release),
        policy().on_cancel(OnCancel::Release).give_back(),
    ];
    for policy in policies {
        let frees = policy == policy.on_cancel(OnCancel::Release);
        let gives_back = policy == policy.give_back();
        for succeeds in [true, false] {
            let (mut before, mut within, mut after) = (0, 0, 0);
            for polls in 0.. {
                let Some((body, free, token)) = leftover_after(policy, polls, succeeds).await
                else {
                    break;
                };
                let begun = body.begun.load(Ordering::Relaxed);
                let ended = body.ended.load(Ordering::Relaxed);
                let (count, expected) = match (begun, ended) {
                    (false, _) => (&mut before, (true, "good")),
                    (true, false) if frees && gives_back => (&mut within, (true, "good")),
                    (true, false) => (&mut within, (frees, "token_used")),
                    (true, true) if succeeds => (&mut after, (false, "token_used")),
                    (true, true) if gives_back => (&mut after, (true, "good")),
                    (true, true) => (&mut after, (true, "token_used")),
                };
                *count += 1;
                assert_eq!(
                    (free, token),
                    expected,
                    "{policy:?} {succeeds} after {polls} polls"
                );
            }
            // The claim, the redemption and the command at the end are each pending twice.
            assert!(
                before >= 5 && within >= 3 && after >= 2,
                "{before} {within} {after}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_drop_of_a_refused_call_leaves_nothing() {
    for polls in 0.. {
        let form = Form::on(Slow::default(), policy());
        let token = form.issue().await;
        assert_eq!(form.redeemed(&token).await, "good");
        let body = Body::default();
        let mut call = submit(&form, &token, &body, true);
        if call.poll_times(polls).await {
            assert!(polls > 6, "the call awaits the withdrawal");
            break;
        }
        drop(call.drop());
        form.guarded.settled().await;
        assert!(!body.begun.load(Ordering::Relaxed));
        assert!(form.is_free().await);
        assert_eq!(form.redeemed(&token).await, "token_used");
    }
}

/// The page of the attribute warns of this: a client that closes its connection decides how often the start of the body runs.
#[tokio::test(start_paused = true)]
async fn dropping_calls_with_release_and_give_back_repeats_the_start_of_the_body() {
    for (policy, effects) in [
        (policy(), 1),
        (policy().give_back(), 1),
        // The token remains used.
        (policy().on_cancel(OnCancel::Release), 1),
        (policy().on_cancel(OnCancel::Release).give_back(), 5),
    ] {
        let form = Form::on(Slow::default(), policy);
        let token = form.issue().await;
        let mut begun = 0;
        for _ in 0..5 {
            let body = Body::default();
            let mut call = submit(&form, &token, &body, true);
            while !body.begun.load(Ordering::Relaxed) && !call.poll().await {}
            drop(call.drop());
            form.guarded.settled().await;
            begun += u32::from(body.begun.load(Ordering::Relaxed));
        }
        assert_eq!(begun, effects, "{policy:?}");
    }
}
