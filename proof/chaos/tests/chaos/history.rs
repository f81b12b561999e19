//! Chaos within two minutes. The long mode is in the README.

use std::time::{Duration, Instant};

use idempotence_chaos::broken::Fault;
use idempotence_chaos::check::{Minimums, Rule};
use idempotence_chaos::history::Batches;
use idempotence_chaos::run::{Setup, run};
use idempotence_chaos::servers::Topology;
use tokio::sync::Semaphore;

/// Permits for the machine: one run at a time, or two runs that only look for a mistake.
static MACHINE: Semaphore = Semaphore::const_new(2);

fn setup(seed: u64, lasts: Duration) -> Setup {
    Setup {
        program: env!("CARGO_BIN_EXE_idempotence-chaos").into(),
        topology: Topology::One,
        seed,
        lasts,
        batches: true,
        workers: 4,
        callers: 24,
        fault: Fault::None,
    }
}

/// Asserts that no rule is broken and that enough happened. On a slow machine less happens, so there the run is repeated, each
/// time for twice as long.
async fn assert_holds(mut setup: Setup, minimums: &Minimums) {
    let longest = setup.lasts * 8;
    loop {
        let outcome = run(setup.clone()).await.unwrap();
        println!("{outcome}");
        assert!(outcome.verdict.violations.is_empty(), "{outcome}");
        let below = outcome.verdict.figures.below(minimums);
        setup.lasts *= 2;
        assert!(
            below.is_empty() || setup.lasts <= longest,
            "too little happened, so the run proves nothing: {below:?}"
        );
        outcome.remove_histories().unwrap();
        if below.is_empty() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rule_is_broken_on_a_server_that_is_killed_and_paused() {
    let _machine = MACHINE.acquire_many(2).await.unwrap();
    let minimums = Minimums {
        calls: 5000,
        keys: 500,
        certain: 500,
        kills: 20,
        stops: 10,
        server_down: 3,
        batches: 500,
        broken_batches: 5,
        dropped_replies: 5,
        cuts: 5,
        delayed_requests: 10,
        takeovers: 15,
        ..Minimums::default()
    };
    assert_holds(setup(1, Duration::from_secs(30)), &minimums).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rule_is_broken_on_a_mariadb_that_is_killed_and_paused() {
    let _machine = MACHINE.acquire_many(2).await.unwrap();
    let setup = Setup {
        topology: Topology::MariaDb,
        ..setup(1, Duration::from_secs(20))
    };
    let minimums = Minimums {
        calls: 2000,
        keys: 200,
        certain: 200,
        kills: 10,
        stops: 5,
        server_down: 2,
        batches: 200,
        dropped_replies: 3,
        cuts: 3,
        delayed_requests: 5,
        takeovers: 5,
        ..Minimums::default()
    };
    assert_holds(setup, &minimums).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rule_is_broken_when_sentinels_replace_the_master() {
    assert_survives_failovers(Topology::Sentinels, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_in_a_failover_if_writes_wait_for_the_replica() {
    assert_survives_failovers(Topology::Replicas, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rule_is_broken_when_a_cluster_replaces_a_master() {
    assert_survives_failovers(Topology::Cluster, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_batches_is_found() {
    let _machine = MACHINE.acquire().await.unwrap();
    let setup = Setup {
        batches: false,
        ..setup(1, Duration::from_secs(3))
    };
    let outcome = run(setup).await.unwrap();
    let figures = &outcome.verdict.figures;
    assert!(figures.calls > 0);
    assert_eq!(figures.batches, Batches::default());
    outcome.remove_histories().unwrap();
}

/// `batches`: how many batches are needed.
async fn assert_survives_failovers(topology: Topology, batches: usize) {
    let _machine = MACHINE.acquire_many(2).await.unwrap();
    let setup = Setup {
        topology,
        ..setup(1, Duration::from_secs(12))
    };
    let minimums = Minimums {
        calls: 1000,
        keys: 100,
        certain: 100,
        kills: 5,
        stops: 3,
        takeovers: 3,
        batches,
        failovers: 1,
        recoveries: 1,
        ..Minimums::default()
    };
    assert_holds(setup, &minimums).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_removes_records_of_other_owners_is_found() {
    assert_found(Fault::RemovesOthers, &[Rule::NoOverlap, Rule::NoSecondRun]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_repeated_claims_is_found() {
    assert_found(Fault::RefusesItself, &[Rule::RealDuplicate]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_loses_results_is_found() {
    assert_found(Fault::LosesResults, &[Rule::NothingLost]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_without_renewal_is_found() {
    assert_found(Fault::NeverRenews, &[Rule::NoOverlap]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_outlives_its_lease_is_found() {
    assert_found(Fault::NeverStops, &[Rule::NoOverlap]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_loses_its_data_is_found() {
    assert_found(Fault::LosesData, &[Rule::NothingLost]).await;
}

/// Runs until the mistake is found. How soon depends on the seed and the machine, so a busy machine gets twenty minutes.
async fn assert_found(fault: Fault, rules: &[Rule]) {
    let _machine = MACHINE.acquire().await.unwrap();
    let begun = Instant::now();
    for seed in 1.. {
        let is_over = begun.elapsed() > Duration::from_mins(20);
        assert!(!is_over, "the check did not find {fault}");
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
            return outcome.remove_histories().unwrap();
        }
        outcome.remove_histories().unwrap();
    }
}
