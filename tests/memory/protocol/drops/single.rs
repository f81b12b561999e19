//! A single call that is dropped after every poll.

use std::time::Duration;

use idempotent_runtime::{OnCancel, Release};
use tokio::time::advance;

use super::case::{Case, Progress, RESULT, Stage, nothing_holds, with_context};
use super::leftover::Leftover;
use super::polled::Polled;
use crate::protocol::guarded::{Guarded, millis};

/// Makes a second call and checks its outcome. If the second call gets the key, it frees the key again.
async fn check_second_call(case: Case, guarded: &Guarded, leftover: Leftover) {
    let second = Guarded {
        policy: guarded.policy.on_cancel(OnCancel::Release),
        ..guarded.clone()
    };
    match (second.call(1).claim().await, leftover) {
        (Ok(held), Leftover::Nothing) => drop(held),
        (Err(error), Leftover::Claim(_)) if case.release == Release::Never => {
            assert_eq!(error.error().code(), "taken");
        }
        (Err(error), Leftover::Claim(_)) => assert_eq!(error.error().code(), "in_progress"),
        (Err(error), Leftover::Done(_)) => {
            assert_eq!(error.error().code(), "already_done");
            if case.replay {
                let replayed =
                    case.with_body(guarded, async { panic!("the body of the duplicate ran") });
                assert_eq!(replayed.await.unwrap(), RESULT);
            }
        }
        (answer, leftover) => {
            panic!("the second call got {answer:?} although the store has {leftover:?}")
        }
    }
    second.settled().await;
}

/// When a second call is made on the handle of the first call. A second call is also made in another process.
#[derive(Debug, Clone, Copy)]
enum SecondCallTime {
    AtOnce,
    Later,
}

async fn dropped_after(case: Case, polls: usize, here: SecondCallTime) -> (Stage, bool) {
    let guarded = case.guarded();
    let progress = Progress::default();
    let mut call = Polled::new(case.call(&guarded, &progress));
    let ended = call.poll_times(polls).await;
    // The stage at the drop decides, even if a background task continues.
    let stage = progress.stage();
    let expected = case.leaves(stage);
    let dropped = call.drop();
    guarded.settled().await;
    assert!(
        !dropped.has_waker(),
        "something still has the waker of the dropped call"
    );
    assert_eq!(Leftover::read(&guarded).await, expected);
    let fence = guarded.fence_line(1).await;
    let is_open = fence.is_some_and(|line| !line.ends_with("ended"));
    assert_eq!(is_open, case.leaves_open_fence(stage));

    let elsewhere = guarded.elsewhere();
    match here {
        SecondCallTime::AtOnce => {
            check_second_call(case, &guarded, expected).await;
            nothing_holds(guarded, 2);
            check_second_call(case, &elsewhere, expected).await;
            until_free(case, &elsewhere, expected).await;
            nothing_holds(elsewhere, 0);
        }
        SecondCallTime::Later => {
            check_second_call(case, &elsewhere, expected).await;
            nothing_holds(elsewhere, 2);
            until_free(case, &guarded, expected).await;
            nothing_holds(guarded, 0);
        }
    }
    (stage, ended)
}

/// Makes a call in the last millisecond of the record, and a call after its expiry.
async fn until_free(case: Case, guarded: &Guarded, leftover: Leftover) {
    const LAST: Duration = millis(1);
    if let Some(remaining) = leftover.remaining() {
        advance(remaining.saturating_sub(LAST)).await;
        check_second_call(case, guarded, leftover).await;
        advance(LAST).await;
    }
    check_second_call(case, guarded, Leftover::Nothing).await;
}

#[tokio::test(start_paused = true)]
async fn a_drop_after_any_poll_leaves_the_key_as_the_release_table_says() {
    for case in Case::all() {
        for when in [SecondCallTime::AtOnce, SecondCallTime::Later] {
            let mut seen = Vec::new();
            for polls in 0.. {
                let what = format!("dropped after {polls} polls, second call {when:?}: {case:?}");
                let (stage, ended) = with_context(what, dropped_after(case, polls, when)).await;
                seen.push(stage);
                if ended {
                    break;
                }
            }
            for stage in Stage::ALL {
                assert!(
                    seen.contains(&stage),
                    "{case:?} was never dropped {stage:?}"
                );
            }
        }
    }
}
