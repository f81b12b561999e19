//! One call, which is dropped.

use std::time::Duration;

use idempotent_runtime::{OnCancel, Release};
use tokio::time::advance;

use super::case::{Case, Progress, RESULT, Stage, nothing_holds, told};
use super::left::Left;
use super::polled::Polled;
use crate::guarded::{Guarded, millis};

/// Asks for the key with a second call, which frees it again if it gets it.
async fn asks(case: Case, guarded: &Guarded, left: Left) {
    let second = Guarded {
        policy: guarded.policy.on_cancel(OnCancel::Release),
        ..guarded.clone()
    };
    match (second.call(1).claim().await, left) {
        (Ok(held), Left::Nothing) => drop(held),
        (Err(error), Left::Claim(_)) if case.release == Release::Never => {
            assert_eq!(error.error().code(), "taken");
        }
        (Err(error), Left::Claim(_)) => assert_eq!(error.error().code(), "in_progress"),
        (Err(error), Left::Done(_)) => {
            assert_eq!(error.error().code(), "already_done");
            if case.replay {
                let replayed = case.with_body(guarded, async { panic!("it ran again") });
                assert_eq!(replayed.await.unwrap(), RESULT);
            }
        }
        (answer, left) => panic!("{answer:?} although there is {left:?}"),
    }
    second.settled().await;
}

/// When the handle of the first call is asked; another process is, too.
#[derive(Debug, Clone, Copy)]
enum Asks {
    AtOnce,
    Later,
}

async fn dropped_after(case: Case, polls: usize, here: Asks) -> (Stage, bool) {
    let guarded = case.guarded();
    let progress = Progress::default();
    let mut call = Polled::new(case.call(&guarded, &progress));
    let ended = call.poll_times(polls).await;
    // How far it has come by now decides, whatever a task goes on with.
    let stage = progress.stage();
    let expected = case.leaves(stage);
    let dropped = call.drop();
    guarded.settled().await;
    assert!(!dropped.is_known(), "somebody would wake it");
    assert_eq!(Left::by(&guarded).await, expected);

    let elsewhere = guarded.elsewhere();
    match here {
        Asks::AtOnce => {
            asks(case, &guarded, expected).await;
            nothing_holds(guarded, 2);
            asks(case, &elsewhere, expected).await;
            until_free(case, &elsewhere, expected).await;
            nothing_holds(elsewhere, 0);
        }
        Asks::Later => {
            asks(case, &elsewhere, expected).await;
            nothing_holds(elsewhere, 2);
            until_free(case, &guarded, expected).await;
            nothing_holds(guarded, 0);
        }
    }
    (stage, ended)
}

/// Asks in the last millisecond of what is left, and after it.
async fn until_free(case: Case, guarded: &Guarded, left: Left) {
    const LAST: Duration = millis(1);
    if let Some(lasts) = left.lasts() {
        advance(lasts.saturating_sub(LAST)).await;
        asks(case, guarded, left).await;
        advance(LAST).await;
    }
    asks(case, guarded, Left::Nothing).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_after_any_poll_the_key_is_as_the_table_says_and_nothing_is_left_of_the_call() {
    for case in Case::all() {
        for asks in [Asks::AtOnce, Asks::Later] {
            let mut seen = Vec::new();
            for polls in 0.. {
                let what = format!("dropped after {polls} polls, asked {asks:?}: {case:?}");
                let (stage, ended) = told(what, dropped_after(case, polls, asks)).await;
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
