//! A call that is dropped while an equal one is made beside it.

use std::time::Duration;

use idempotent_runtime::Release;
use tokio::time::{Instant, timeout};

use super::case::{Case, End, Progress, RESULT, Stage, nothing_holds, told};
use super::left::Left;
use super::polled::Polled;
use crate::guarded::{Guarded, millis, secs};

/// Who makes the second call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// The same process, and does not wait.
    Here,
    /// The same process, and waits.
    WaitingHere,
    /// Another process, and waits.
    WaitingElsewhere,
}

/// What became of the second call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    /// Its body ran, so long after the first was dropped.
    Run(Duration),
    Replayed,
    Refused(&'static str),
}

/// Longer than any key stays taken.
const PATIENCE: Duration = secs(1000);
/// The longest pause of a call that waits for another process.
const PAUSE: Duration = millis(750);
/// What the body of the second call returns.
const SECOND: u32 = RESULT + 1;

impl Beside {
    const ALL: [Self; 3] = [Self::Here, Self::WaitingHere, Self::WaitingElsewhere];

    fn guarded(self, first: &Guarded) -> Guarded {
        let policy = match self {
            Self::Here => first.policy,
            Self::WaitingHere | Self::WaitingElsewhere => first.policy.wait(PATIENCE),
        };
        match self {
            Self::Here | Self::WaitingHere => Guarded {
                policy,
                ..first.clone()
            },
            Self::WaitingElsewhere => Guarded {
                policy,
                ..first.elsewhere()
            },
        }
    }

    /// Whether this may become of a call whose first was dropped in this stage and has left that.
    fn allows(self, became: Became, case: Case, stage: Stage, left: Left) -> bool {
        let refused = |code| became == Became::Refused(code);
        // Nobody can tell it of the end, so it does not wait for it.
        let unmarked = case.release == Release::Never && !case.replay;
        match (self, left) {
            // The claim of the first stood when it asked, whatever came of it then.
            (Self::WaitingElsewhere, _) if unmarked && refused("taken") => true,
            (_, Left::Nothing) if stage == Stage::Claiming => {
                self.is_run_after(became, Duration::ZERO)
            }
            // It was told of the first while that had the key, or comes after it.
            (Self::Here, _) if refused("in_progress") => true,
            (Self::Here, Left::Claim(_)) => refused("taken"),
            (_, Left::Nothing) => self.is_run_after(became, Duration::ZERO),
            (_, Left::Claim(_)) if unmarked => refused("taken"),
            (_, Left::Claim(lasts)) => self.is_run_after(became, lasts),
            (_, Left::Done(_)) if case.replay => became == Became::Replayed,
            (_, Left::Done(_)) => refused("already_done"),
        }
    }

    fn is_run_after(self, became: Became, free: Duration) -> bool {
        let late = match self {
            // It is told of the end.
            Self::Here | Self::WaitingHere if free.is_zero() => Duration::ZERO,
            Self::Here | Self::WaitingHere | Self::WaitingElsewhere => PAUSE,
        };
        matches!(became, Became::Run(after) if after >= free && after <= free + late)
    }
}

/// Drops the first call after so many polls. The second is made after fewer, and then both are polled in turn.
async fn dropped_beside(case: Case, beside: Beside, made: usize, polls: usize) -> bool {
    let first = case.guarded();
    let second = beside.guarded(&first);
    let progress = Progress::default();
    let mut call = Polled::new(case.call(&first, &progress));
    let mut other = Polled::new(case.with_body(&second, async { Ok(SECOND) }));
    let mut ended = call.poll_times(made).await;
    for _ in made..polls {
        other.poll().await;
        ended = call.poll().await;
    }
    let stage = progress.stage();
    call.drop();

    let dropped = Instant::now();
    let outcome = timeout(2 * PATIENCE, other.end()).await;
    let became = match outcome.expect("it ends") {
        Ok(SECOND) => Became::Run(dropped.elapsed()),
        Ok(result) => {
            assert_eq!(result, RESULT);
            Became::Replayed
        }
        Err(failed) => Became::Refused(failed.refusal().code()),
    };
    first.settled().await;
    second.settled().await;
    let waited = dropped.elapsed();

    let left = case.leaves(stage);
    assert!(
        beside.allows(became, case, stage, left),
        "{became:?} although the first, dropped {stage:?}, has left {left:?}"
    );
    let stands = match became {
        Became::Run(_) => case.leaves_by(End::Ok),
        _ => left.after(waited),
    };
    assert_eq!(Left::by(&first).await, stands);
    drop(second);
    nothing_holds(first, 0);
    ended
}

/// Exhausts a row of [`Beside`].
async fn gets_the_key_when_it_is_free(beside: Beside) {
    for case in Case::all() {
        for polls in 1.. {
            let mut ended = false;
            for made in 0..=polls {
                let what =
                    format!("{beside:?} after {made}, dropped after {polls} polls: {case:?}");
                ended = told(what, dropped_beside(case, beside, made, polls)).await;
            }
            if ended {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn beside_one_that_is_dropped_after_any_poll_a_call_gets_the_key_if_it_is_free() {
    gets_the_key_when_it_is_free(Beside::Here).await;
}

#[tokio::test(start_paused = true)]
async fn beside_one_that_is_dropped_after_any_poll_a_waiting_call_gets_the_key_when_it_is_free() {
    gets_the_key_when_it_is_free(Beside::WaitingHere).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_elsewhere_gets_the_key_of_one_that_is_dropped_after_any_poll() {
    gets_the_key_when_it_is_free(Beside::WaitingElsewhere).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_after_any_poll_a_duplicate_leaves_the_holder_alone() {
    let whole = Case::all();
    for case in whole.iter().filter(|case| case.end == End::Ok) {
        for beside in Beside::ALL {
            for polls in 0..=FOLLOWED {
                let first = case.guarded();
                let second = beside.guarded(&first);
                let held = first.call(1).claim().await.unwrap();
                let before = first.stands(1).await.unwrap();
                let body = async { panic!("the body of a duplicate ran") };
                let mut other = Polled::new(case.with_body(&second, body));
                other.poll_times(polls).await;
                let dropped = other.drop();
                second.settled().await;
                let what = format!("{beside:?}, dropped after {polls} polls: {case:?}");
                assert!(!dropped.is_known(), "{what}");
                assert_eq!(first.stands(1).await.unwrap(), before, "{what}");

                held.settle(true).await;
                assert_eq!(Left::by(&first).await, case.leaves_by(End::Ok), "{what}");
                drop(second);
                nothing_holds(first, 0);
            }
        }
    }
}

/// After so many polls a call that waits has asked, has heard that the key is taken, and sleeps.
const FOLLOWED: usize = 12;
