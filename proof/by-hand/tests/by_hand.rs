//! Each scenario with short times.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use idempotence_by_hand::scenarios::{Answers, Design, Scenario, Times, other_users, run};

const GUARDED: Times = Times {
    unit: Duration::from_millis(400),
    acquire: Duration::from_mins(1),
};
/// Callers that wait for each other give up soon.
const BY_HAND: Times = Times {
    acquire: Duration::from_secs(2),
    ..GUARDED
};

async fn guarded(scenario: Scenario) -> (usize, usize, usize, usize) {
    counts(&run(scenario, Design::Guarded, GUARDED).await.unwrap())
}

async fn by_hand(scenario: Scenario) -> (usize, usize, usize, usize) {
    counts(&run(scenario, Design::ByHand, BY_HAND).await.unwrap())
}

/// Receipts, refusals, failures, and keys that were paid twice.
fn counts(answers: &Answers) -> (usize, usize, usize, usize) {
    let Answers {
        receipts,
        refused,
        failed,
        paid_twice,
        ..
    } = *answers;
    (receipts, refused, failed, paid_twice)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_equal_posts_gets_one_receipt() {
    assert_eq!(guarded(Scenario::FiftyEqual).await, (50, 0, 0, 0));
    assert_eq!(guarded(Scenario::ElevenEqual).await, (11, 0, 0, 0));
}

/// Each duplicate has one connection of the pool and waits for a second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_hand_a_crowd_of_equal_posts_blocks_itself() {
    let mut runs = Vec::new();
    // On a machine that stands still the posts may not meet, so then the scenario is repeated.
    while runs.last().is_none_or(|failed| *failed < 9) {
        assert!(runs.len() < 10, "{runs:?} failed");
        let (_, _, failed, paid_twice) = by_hand(Scenario::FiftyEqual).await;
        assert_eq!(paid_twice, 0);
        runs.push(failed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_answered_beside_a_crowd() {
    assert_eq!(guarded(Scenario::Strangers).await, (4, 0, 0, 0));
}

/// The duplicates of this process hold no connection while they wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_users_do_not_wait_for_a_hundred_duplicates() {
    let mut unit = GUARDED.unit;
    loop {
        let times = Times { unit, ..GUARDED };
        let others = other_users(Design::Guarded, times).await.unwrap();
        if others.beside < unit {
            break;
        }
        // A machine that stands still also delays the other users, and for no longer than before if the crowd works for longer.
        unit *= 4;
        assert!(unit < Duration::from_secs(30), "{others:?}");
    }
    let blocked = other_users(Design::ByHand, BY_HAND).await;
    assert!(blocked.is_err(), "{blocked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_sessions_change_no_answer() {
    assert_eq!(guarded(Scenario::RepeatableRead).await, (5, 0, 0, 0));
    assert_eq!(guarded(Scenario::LockTimeout).await, (5, 0, 0, 0));
    for scenario in [Scenario::RepeatableRead, Scenario::LockTimeout] {
        let mut runs = Vec::new();
        // On a machine that stands still the five posts may not meet, so then the scenario is repeated.
        while runs.last() != Some(&(1, 0, 4, 0)) {
            assert!(runs.len() < 10, "{runs:?}");
            runs.push(by_hand(scenario).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_amount_under_a_key_is_refused() {
    assert_eq!(guarded(Scenario::OtherAmount).await, (1, 1, 0, 0));
    // By hand the second amount gets the receipt of the first one, and nobody knows.
    let by_hand = run(Scenario::OtherAmount, Design::ByHand, GUARDED).await;
    assert_eq!(counts(&by_hand.unwrap()), (2, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_of_the_server_each_key_is_paid_once() {
    let (receipts, refused, _, paid_twice) = guarded(Scenario::Restart).await;
    assert_eq!((receipts, refused, paid_twice), (400, 0, 0));
}
