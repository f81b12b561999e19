//! The configurations in which several keys must hold, and those in which each mistake must be found.

use super::config::{Config, Variant};
use super::rules::Event::{self, AllRan, Beside, LeftTaken, Met, Refused, TooLate, TookOver};
use super::rules::Rule;
use crate::search::Search;

/// A configuration in which the protocol holds.
pub type Space = Search<Config>;

/// All spaces.
#[must_use]
pub fn all() -> Vec<Space> {
    vec![
        space("keys, two crossing calls", |_| {}, &[Refused, AllRan]),
        space("keys, crossing calls that wait", waits, &[AllRan]),
        space(
            "keys, a circle of three calls",
            |it| it.calls = circle(),
            &[Met, Refused, AllRan],
        ),
        space(
            "keys, a circle of three calls that wait",
            |it| {
                waits(it);
                it.calls = circle();
            },
            &[Met, AllRan],
        ),
        space(
            "keys, three keys and one",
            |it| {
                waits(it);
                it.calls = vec![vec![2, 1, 0], vec![1], vec![0]];
            },
            &[Met, AllRan, Beside],
        ),
        space(
            "keys, crash",
            |it| {
                waits(it);
                it.faults.crashes = 1;
            },
            &[AllRan, TookOver],
        ),
        space(
            "keys, cancel: keep",
            |it| {
                waits(it);
                it.faults.cancels = 1;
            },
            &[AllRan, LeftTaken],
        ),
        space(
            "keys, renewals are late",
            |it| {
                waits(it);
                (it.calls, it.faults.late) = (vec![vec![0, 1], vec![1], vec![0]], 3);
            },
            &[AllRan, TooLate],
        ),
        space(
            "keys, a key is named twice",
            |it| it.calls = vec![vec![0, 0], vec![0, 1, 0]],
            &[Refused, AllRan],
        ),
    ]
}

/// Each mistake, and the rule that it breaks.
#[must_use]
pub fn wrong() -> Vec<(Config, Rule)> {
    let wrong = |name, variant, change: fn(&mut Config)| {
        let config = Config::new(name).with(change);
        config.with(|it| it.variant = variant)
    };
    vec![
        (
            wrong(
                "keys in the order of the caller",
                Variant::OrderOfCaller,
                |_| {},
            ),
            Rule::OneRuns,
        ),
        (
            wrong(
                "keys in the order of the caller, wait",
                Variant::OrderOfCaller,
                waits,
            ),
            Rule::EverythingEnds,
        ),
        (
            wrong(
                "a refused call keeps a key",
                Variant::KeepsEarlierKeys,
                |it| {
                    it.calls = vec![vec![0, 1], vec![1]];
                },
            ),
            Rule::AllOrNone,
        ),
        (
            wrong(
                "free keys are claimed beside a taken one",
                Variant::ClaimsFreeKeys,
                |it| {
                    it.calls = vec![vec![0, 1], vec![1]];
                },
            ),
            Rule::AllOrNone,
        ),
        (
            wrong(
                "no renewal while a call waits",
                Variant::RenewsOnlyWhileItRuns,
                |it| {
                    waits(it);
                    it.calls = vec![vec![0, 1], vec![1], vec![0]];
                },
            ),
            Rule::HeldWhileItWaits,
        ),
        (
            wrong(
                "leases that are not checked",
                Variant::LeasesNotChecked,
                |it| {
                    waits(it);
                    (it.calls, it.faults.late) = (vec![vec![0, 1], vec![1], vec![0]], 3);
                },
            ),
            Rule::OneBody,
        ),
        (
            wrong("the end frees one key", Variant::FreesOneKey, |_| {}),
            Rule::AllOrNone,
        ),
        (
            wrong(
                "a dropped call withdraws one key",
                Variant::WithdrawsLastKey,
                |it| {
                    (it.calls, it.faults.cancels) = (vec![vec![0, 1, 2]], 1);
                },
            ),
            Rule::AllOrNone,
        ),
        (
            wrong(
                "equal keys are claimed twice",
                Variant::ClaimsEqualKeys,
                |it| {
                    it.calls = vec![vec![0, 0]];
                },
            ),
            Rule::OneRuns,
        ),
    ]
}

fn space(name: &'static str, change: impl FnOnce(&mut Config), events: &[Event]) -> Space {
    Search {
        config: Config::new(name).with(change),
        rules: Rule::ALL.to_vec(),
        events: events.to_vec(),
    }
}

fn waits(config: &mut Config) {
    config.waits = true;
}

fn circle() -> Vec<Vec<u8>> {
    vec![vec![0, 1], vec![1, 2], vec![2, 0]]
}
