//! A call that is dropped while an equal second call runs.

use std::time::Duration;

use idempotent_runtime::Release;
use tokio::time::{Instant, timeout};

use super::case::{Case, End, Progress, RESULT, Stage, nothing_holds, with_context};
use super::leftover::Leftover;
use super::polled::Polled;
use crate::protocol::guarded::{Guarded, millis, secs};

/// The caller of the second call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecondCaller {
    /// The same process, without waiting.
    Here,
    /// The same process, waiting.
    WaitingHere,
    /// Another process, waiting.
    WaitingElsewhere,
}

/// The outcome of the second call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecondOutcome {
    /// Its body ran this long after the drop of the first call.
    Run(Duration),
    Replayed,
    Refused(&'static str),
}

/// Longer than any key stays taken.
const MAX_WAIT: Duration = secs(1000);
/// The longest pause of a call that waits for another process.
const PAUSE: Duration = millis(750);
/// What the body of the second call returns.
const SECOND: u32 = RESULT + 1;

impl SecondCaller {
    const ALL: [Self; 3] = [Self::Here, Self::WaitingHere, Self::WaitingElsewhere];

    fn guarded(self, first: &Guarded) -> Guarded {
        let policy = match self {
            Self::Here => first.policy,
            Self::WaitingHere | Self::WaitingElsewhere => first.policy.wait(MAX_WAIT),
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

    /// Whether the second call may have this outcome, after the first was dropped in this stage.
    fn allows(
        self,
        outcome_of_second: SecondOutcome,
        case: Case,
        stage: Stage,
        leftover: Leftover,
    ) -> bool {
        let refused = |code| outcome_of_second == SecondOutcome::Refused(code);
        // Without replay, `release = false` does not record the end of a call, so the second call does not wait.
        let unmarked = case.release == Release::Never && !case.replay;
        match (self, leftover) {
            // The claim of the first call was stored when the second call claimed.
            (Self::WaitingElsewhere, _) if unmarked && refused("taken") => true,
            (_, Leftover::Nothing) if stage == Stage::Claiming => {
                self.is_run_after(outcome_of_second, Duration::ZERO)
            }
            // It was refused while the first call held the key.
            (Self::Here, _) if refused("in_progress") => true,
            (Self::Here, Leftover::Claim(_)) => refused("taken"),
            (_, Leftover::Nothing) => self.is_run_after(outcome_of_second, Duration::ZERO),
            (_, Leftover::Claim(_)) if unmarked => refused("taken"),
            (_, Leftover::Claim(remaining)) => self.is_run_after(outcome_of_second, remaining),
            (_, Leftover::Done(_)) if case.replay => outcome_of_second == SecondOutcome::Replayed,
            (_, Leftover::Done(_)) => refused("already_done"),
        }
    }

    fn is_run_after(self, outcome_of_second: SecondOutcome, free: Duration) -> bool {
        let late = match self {
            // The end of the first call wakes it.
            Self::Here | Self::WaitingHere if free.is_zero() => Duration::ZERO,
            Self::Here | Self::WaitingHere | Self::WaitingElsewhere => PAUSE,
        };
        matches!(outcome_of_second, SecondOutcome::Run(after) if after >= free && after <= free + late)
    }
}

/// Drops the first call after `polls` polls. The second call starts after `made` of these polls. From then on both are polled
/// alternately.
async fn dropped_with_second(
    case: Case,
    second_caller: SecondCaller,
    made: usize,
    polls: usize,
) -> bool {
    let first = case.guarded();
    let second = second_caller.guarded(&first);
    let progress = Progress::default();
    let mut call = Polled::new(case.call(&first, &progress));
    let mut other = Polled::new(case.with_body(&second, async { Ok(SECOND) }));
    let mut ended = call.poll_times(made).await;
    let mut second_ended = false;
    for _ in made..polls {
        second_ended = other.poll().await;
        ended = call.poll().await;
    }
    let stage = progress.stage();
    call.drop();

    let dropped = Instant::now();
    let outcome = timeout(2 * MAX_WAIT, other.finish()).await;
    let outcome_of_second = match outcome.expect("the second call ends") {
        Ok(SECOND) => SecondOutcome::Run(dropped.elapsed()),
        Ok(result) => {
            assert_eq!(result, RESULT);
            SecondOutcome::Replayed
        }
        Err(failed) => SecondOutcome::Refused(failed.refusal().code()),
    };
    first.settled().await;
    second.settled().await;
    let waited = dropped.elapsed();

    let leftover = case.leaves(stage);
    // Its end is then stored in the background, and the first call waited for this.
    let ran_before = second_ended && matches!(outcome_of_second, SecondOutcome::Run(_));
    assert!(
        ran_before || second_caller.allows(outcome_of_second, case, stage, leftover),
        "the second call got {outcome_of_second:?}, but the first call, dropped {stage:?}, has left {leftover:?}"
    );
    let expected = match outcome_of_second {
        SecondOutcome::Run(_) if !ran_before || stage == Stage::Claiming => case.leaves_by(End::Ok),
        _ => leftover.after(waited),
    };
    assert_eq!(Leftover::read(&first).await, expected);
    drop(second);
    nothing_holds(first, 0);
    ended
}

/// Tests all cases and polls with one second caller.
async fn gets_the_key_when_it_is_free(second_caller: SecondCaller) {
    for case in Case::all() {
        for polls in 1.. {
            let mut ended = false;
            for made in 0..=polls {
                let what = format!(
                    "{second_caller:?} after {made}, dropped after {polls} polls: {case:?}"
                );
                ended =
                    with_context(what, dropped_with_second(case, second_caller, made, polls)).await;
            }
            if ended {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_drop_at_any_poll_a_call_gets_the_key_if_it_is_free() {
    gets_the_key_when_it_is_free(SecondCaller::Here).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_drop_at_any_poll_a_waiting_call_gets_the_key_when_it_is_free() {
    gets_the_key_when_it_is_free(SecondCaller::WaitingHere).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_drop_at_any_poll_a_waiting_call_of_another_process_gets_the_key() {
    gets_the_key_when_it_is_free(SecondCaller::WaitingElsewhere).await;
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_dropped_after_any_poll_does_not_affect_the_holder() {
    let whole = Case::all();
    for case in whole.iter().filter(|case| case.end == End::Ok) {
        for second_caller in SecondCaller::ALL {
            for polls in 0..=FOLLOWED {
                let first = case.guarded();
                let second = second_caller.guarded(&first);
                let held = first.call(1).claim().await.unwrap();
                let before = first.entry(1).await.unwrap();
                let body = async { panic!("the body of a duplicate ran") };
                let mut other = Polled::new(case.with_body(&second, body));
                other.poll_times(polls).await;
                let dropped = other.drop();
                second.settled().await;
                let what = format!("{second_caller:?}, dropped after {polls} polls: {case:?}");
                assert!(!dropped.has_waker(), "{what}");
                assert_eq!(first.entry(1).await.unwrap(), before, "{what}");

                held.settle(true).await;
                first.settled().await;
                assert_eq!(
                    Leftover::read(&first).await,
                    case.leaves_by(End::Ok),
                    "{what}"
                );
                drop(second);
                nothing_holds(first, 0);
            }
        }
    }
}

/// After this many polls a waiting call has claimed, has been refused, and sleeps.
const FOLLOWED: usize = 12;
