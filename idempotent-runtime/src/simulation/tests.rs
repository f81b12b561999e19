//! The tests. The module's page describes what they run.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::Mutant;
use super::count::Counts;
use super::history::digest;
use super::run::{Run, SEED, run};

#[test]
fn the_engine_holds() {
    if let Some(seed) = number(SEED) {
        let run = run(seed, None, &mut Counts::default());
        assert!(run.broken.is_none(), "{}", run.report());
        return;
    }
    let seeds = number("IDEMPOTENCE_SEEDS").unwrap_or(SEEDS);
    let (counts, broken) = run_seeds(seeds, None);
    if let Some(run) = broken {
        panic!("{}", run.report());
    }
    eprintln!("{seeds} seeds:\n{counts}");
    for (what, in_a_thousand) in FLOORS {
        let least = seeds * in_a_thousand / 1000;
        let count = counts.get(what);
        assert!(count >= least, "only {count} of {least} {what}:\n{counts}");
    }
    let ended =
        counts.get("calls returned") + counts.get("calls dropped") + counts.get("calls died");
    assert_eq!(ended, counts.get("calls made"), "calls vanished:\n{counts}");
    let made = counts.get("calls made") + counts.get("calls without a process");
    assert_eq!(
        made,
        counts.get("calls planned"),
        "calls were not made:\n{counts}"
    );
}

#[test]
fn every_mutant_is_caught() {
    let mut wrong = Vec::new();
    for mutant in Mutant::ALL {
        let (_, caught) = run_seeds(SEEDS, Some(mutant));
        let Some(caught) = caught else {
            wrong.push(format!("{mutant:?} was not caught in {SEEDS} seeds"));
            continue;
        };
        let promise = caught.broken.as_ref().map_or("", |broken| broken.promise);
        eprintln!("{mutant:?}: {promise} (seed {})", caught.seed);
        if !mutant.breaks().contains(&promise) {
            wrong.push(format!("{mutant:?}: {}", caught.report()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn equal_seeds_have_equal_histories() {
    for seed in 0..300 {
        let [one, other] = [0; 2].map(|_| run(seed, None, &mut Counts::default()));
        assert_eq!(digest(&one.history), digest(&other.history), "seed {seed}");
    }
}

/// Runs seeds on all cores, until all have run or one has broken a promise.
fn run_seeds(seeds: u64, mutant: Option<Mutant>) -> (Counts, Option<Run>) {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        let mut counts = Counts::default();
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                break;
            }
            let run = run(seed, mutant, &mut counts);
            if run.broken.is_some() {
                stop.store(true, Ordering::Relaxed);
                return (counts, Some(run));
            }
        }
        (counts, None)
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let mut all = (Counts::default(), None::<Run>);
        for worker in workers {
            let (counts, broken) = worker.join().expect("a run does not panic");
            all.0.join(&counts);
            let first = all.1.as_ref().map_or(u64::MAX, |run| run.seed);
            all.1 = broken.filter(|run| run.seed < first).or(all.1);
        }
        all
    })
}

fn number(variable: &str) -> Option<u64> {
    let number = std::env::var(variable).ok()?;
    Some(number.parse().expect("the variable must be a number"))
}

const SEEDS: u64 = 20_000;

/// The smallest number of times that each thing must happen in a thousand seeds: about half of the usual number.
const FLOORS: [(&str, u64); 38] = [
    ("calls made", 3000),
    ("bodies", 1000),
    ("successes", 500),
    ("takeovers", 60),
    ("renewals", 900),
    ("leases lost", 80),
    ("panics", 80),
    ("holds", 35),
    ("calls dropped", 180),
    ("callers frozen", 90),
    ("crashes", 150),
    ("pauses", 100),
    ("requests lost", 350),
    ("replies lost", 200),
    ("late requests", 900),
    ("refusals", 800),
    ("records lost", 20),
    ("keys freed", 15),
    ("unguarded", 25),
    ("returned: replayed", 200),
    ("returned: mismatch", 150),
    ("batches", 550),
    ("operations withdrawn", 350),
    ("operations sent again", 70),
    ("ends of runtimes", 140),
    ("lone renewals", 190),
    ("queued renewals", 700),
    ("redemptions with a body", 140),
    ("tokens given back", 35),
    ("returned tokens redeemed", 13),
    ("late redemptions", 3),
    ("redemptions fenced", 2),
    ("returned: token used", 200),
    ("returned: token unknown", 180),
    ("fences", 230),
    ("fences took over", 35),
    ("late writes refused", 1),
    ("answers before the record", 100),
];
