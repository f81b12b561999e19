//! Chaos within two minutes. The long mode is in the README.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::time::Duration;

use idempotence_chaos::broken::Fault;
use idempotence_chaos::check::{Floors, Rule};
use idempotence_chaos::run::{Outcome, Setup, run};
use idempotence_chaos::servers::Topology;
use tokio::sync::Semaphore;

/// Runs need the machine: one at a time, or two of those that only have to find a fault.
static MACHINE: Semaphore = Semaphore::const_new(2);

fn setup(seed: u64, lasts: Duration) -> Setup {
    Setup {
        program: env!("CARGO_BIN_EXE_idempotence-chaos").into(),
        topology: Topology::One,
        seed,
        lasts,
        workers: 4,
        callers: 24,
        fault: Fault::None,
    }
}

/// What must be broken by nothing.
fn must_hold(outcome: &Outcome, floors: &Floors) {
    println!("{outcome}");
    assert!(outcome.verdict.violations.is_empty(), "{outcome}");
    let below = outcome.verdict.figures.below(floors);
    assert!(below.is_empty(), "{below:?}, so this proves nothing");
    outcome.forget().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_that_is_killed_and_stopped() {
    let _machine = MACHINE.acquire_many(2).await.unwrap();
    let outcome = run(setup(1, Duration::from_secs(30))).await.unwrap();
    let floors = Floors {
        calls: 5000,
        keys: 500,
        certain: 500,
        kills: 20,
        stops: 10,
        server_away: 3,
        dropped_replies: 10,
        delayed_requests: 10,
        takeovers: 15,
        ..Floors::default()
    };
    must_hold(&outcome, &floors);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_replaced_by_sentinels() {
    must_survive_failovers(Topology::Sentinels).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_replaced_by_its_cluster() {
    must_survive_failovers(Topology::Cluster).await;
}

async fn must_survive_failovers(topology: Topology) {
    let _machine = MACHINE.acquire_many(2).await.unwrap();
    let setup = Setup {
        topology,
        ..setup(1, Duration::from_secs(12))
    };
    let outcome = run(setup).await.unwrap();
    let floors = Floors {
        calls: 1000,
        keys: 100,
        certain: 100,
        kills: 5,
        stops: 3,
        takeovers: 3,
        failovers: 1,
        recoveries: 1,
        ..Floors::default()
    };
    must_hold(&outcome, &floors);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_removes_what_is_anothers_is_found() {
    must_be_found(Fault::RemovesOthers, &[Rule::NoOverlap, Rule::NoSecondRun]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_tells_a_call_of_itself_is_found() {
    must_be_found(Fault::KnowsNotItself, &[Rule::RealDuplicate]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_loses_results_is_found() {
    must_be_found(Fault::LosesResults, &[Rule::NothingLost]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_not_kept_is_found() {
    must_be_found(Fault::NeverRenews, &[Rule::NoOverlap]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_outlives_its_lease_is_found() {
    must_be_found(Fault::NeverStops, &[Rule::NoOverlap]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_is_found() {
    must_be_found(Fault::Forgets, &[Rule::NothingLost]).await;
}

/// Runs until it is: how soon is a matter of luck, and of the machine.
async fn must_be_found(fault: Fault, rules: &[Rule]) {
    let _machine = MACHINE.acquire().await.unwrap();
    for seed in 1..=10 {
        let setup = Setup {
            fault,
            ..setup(seed, Duration::from_secs(5))
        };
        let outcome = run(setup).await.unwrap();
        let violations = &outcome.verdict.violations;
        let found = violations.iter().find(|found| rules.contains(&found.rule));
        println!("{fault}, run {seed}: {} violations", violations.len());
        if let Some(found) = found {
            println!("  {found}");
            return outcome.forget().unwrap();
        }
        outcome.forget().unwrap();
    }
    panic!("{fault} was not found");
}
