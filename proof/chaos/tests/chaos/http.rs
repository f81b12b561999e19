//! Storms of HTTP requests within a minute. The long mode is in the README.

use std::time::{Duration, Instant};

use idempotence_chaos::http::check::{Figures, Rule};
use idempotence_chaos::http::storm::{Mistake, Setup, storm};
use tokio::sync::Mutex;

/// One storm at a time on this machine.
static MACHINE: Mutex<()> = Mutex::const_new(());

fn setup(waves: u64, clients: usize, mistake: Mistake) -> Setup {
    Setup {
        program: env!("CARGO_BIN_EXE_idempotence-chaos").into(),
        seed: 1,
        waves,
        clients,
        mistake,
    }
}

/// On a slow machine less happens and fewer keys are judged, so there the storm is repeated with other seeds, until enough happened in
/// all of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_equal_requests_to_two_services_run_one_body() {
    let _machine = MACHINE.lock().await;
    let minimums = Figures {
        clients: 6000,
        keys: 24,
        requests: 8000,
        disconnected: 500,
        lost: 100,
        in_progress: 1000,
        unavailable: 500,
        replays: 6000,
        bodies: 24,
        effects: 24,
        killed_bodies: 1,
        kills: 3,
        restarts: 2,
        ..Figures::default()
    };
    let (mut figures, begun) = (Figures::default(), Instant::now());
    for seed in 1.. {
        let setup = Setup {
            seed,
            ..setup(6, 1000, Mistake::None)
        };
        let outcome = storm(setup).await.unwrap();
        println!("{outcome}");
        assert!(outcome.verdict.violations.is_empty(), "{outcome}");
        figures.add(&outcome.verdict.figures);
        let below = figures.below(&minimums);
        outcome.remove_histories().unwrap();
        if below.is_empty() && figures.keys - figures.not_judged >= 14 {
            return;
        }
        assert!(
            begun.elapsed() < LONGEST,
            "too little happened, so the storms prove nothing: {below:?}, {figures}"
        );
    }
}

/// How long a test repeats storms on a busy machine.
const LONGEST: Duration = Duration::from_mins(20);

#[tokio::test(flavor = "multi_thread")]
async fn services_without_the_layer_are_found() {
    let rules = [
        Rule::OneBody,
        Rule::NoSecondRun,
        Rule::EqualBytes,
        Rule::Stored,
    ];
    assert_found(1, Mistake::NoLayer, &rules).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_run_in_an_outage_are_found() {
    let rules = [Rule::OneBody, Rule::EqualBytes];
    assert_found(1, Mistake::RunsInOutage, &rules).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_loses_its_data_is_found_by_http_requests() {
    // The second wave is the first wave that restarts the store.
    let rules = [Rule::OneBody, Rule::NoSecondRun, Rule::Stored];
    assert_found(2, Mistake::LosesData, &rules).await;
}

/// Runs until these rules are broken. When the faults of a storm come depends on its seed, so some storms may break fewer rules. On a busy
/// machine the store may be silent so long that keys are not judged, and such a storm does not count.
async fn assert_found(waves: u64, mistake: Mistake, rules: &[Rule]) {
    let _machine = MACHINE.lock().await;
    let (mut judged, begun) = (0, Instant::now());
    for seed in 1.. {
        let setup = Setup {
            seed,
            ..setup(waves, 50, mistake)
        };
        let outcome = storm(setup).await.unwrap();
        println!("{outcome}");
        outcome.remove_histories().unwrap();
        let violations = &outcome.verdict.violations;
        let is_broken = |rule: &Rule| violations.iter().any(|broken| broken.rule == *rule);
        if rules.iter().all(is_broken) {
            return;
        }
        judged += u32::from(outcome.verdict.figures.not_judged == 0);
        let is_over = judged == MOST_JUDGED || begun.elapsed() > LONGEST;
        assert!(!is_over, "the check did not find {mistake:?}");
    }
}

/// In so many storms whose keys are all judged a mistake must be found.
const MOST_JUDGED: u32 = 3;
