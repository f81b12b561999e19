//! The configurations in which steps must be kept, and those in which each mistake must be found.

use super::config::{Config, Variant};
use super::rules::Event::{
    self, Adopted, BeganAgain, CameLate, Overtaken, Skipped, TakenBack, TookOver,
};
use super::rules::Rule;
use crate::search::Search;

/// A configuration in which the protocol holds.
pub type Space = Search<Config>;

/// All spaces.
#[must_use]
pub fn all() -> Vec<Space> {
    vec![
        space(
            "steps, failures",
            |it| it.faults.failures = 2,
            &[Skipped, BeganAgain],
        ),
        space(
            "steps, crash",
            |it| (it.faults.crashes, it.faults.failures) = (2, 1),
            &[Skipped],
        ),
        space(
            "steps, replies are lost",
            |it| {
                (it.faults.replies, it.faults.drops) = (2, 1);
                (it.faults.crashes, it.faults.failures) = (1, 1);
            },
            &[Skipped, Adopted],
        ),
        space(
            "steps, a first record comes late",
            |it| {
                it.lease = 2;
                (it.faults.late, it.faults.failures) = (1, 1);
            },
            &[Skipped, CameLate],
        ),
        space("steps, a lost run", lost, &[Skipped, TookOver, Overtaken]),
        space(
            "steps, a lost run, and a short run",
            lost_and_short,
            &[TookOver, TakenBack, BeganAgain],
        ),
    ]
}

/// Spaces that take longer.
#[must_use]
pub fn long() -> Vec<Space> {
    vec![
        space(
            "steps, a lost run, a short run, a failure",
            |it| {
                lost_and_short(it);
                it.faults.failures = 1;
            },
            &[TookOver, TakenBack, Skipped],
        ),
        space(
            "steps, a lost run, and a reply",
            |it| {
                lost_and_short(it);
                (it.faults.failures, it.faults.replies) = (1, 1);
            },
            &[TookOver, TakenBack, Skipped],
        ),
        space(
            "steps, a lost run, crash",
            |it| {
                lost_and_short(it);
                (it.faults.failures, it.faults.crashes) = (1, 1);
            },
            &[TookOver, TakenBack, Skipped],
        ),
    ]
}

/// Each mistake, and the rule that it breaks.
#[must_use]
pub fn wrong() -> Vec<(Config, Rule)> {
    let wrong = |name, variant, change: fn(&mut Config), rule| {
        let config = Config::new(name).with(change);
        (config.with(|it| it.variant = variant), rule)
    };
    vec![
        wrong(
            "steps that are not read",
            Variant::NeverReads,
            |it| it.faults.failures = 1,
            Rule::NoneTwice,
        ),
        wrong(
            "a lost run records unchecked",
            Variant::RecordsUnchecked,
            lost_and_short,
            Rule::NoneSkipped,
        ),
        wrong(
            "a lost run checks only before",
            Variant::ChecksOnlyBefore,
            lost_and_short,
            Rule::NoneSkipped,
        ),
        wrong(
            "a lost run trusts a run after its ttl",
            Variant::TrustsOldRuns,
            |it| {
                lost_and_short(it);
                (it.runs, it.faults.short, it.faults.failures) = (4, 2, 1);
            },
            Rule::NoneSkipped,
        ),
        wrong(
            "a record replaces any record",
            Variant::ReplacesOthers,
            lost,
            Rule::OneRecorder,
        ),
        wrong(
            "a refused record is believed",
            Variant::BelievesRefused,
            lost,
            Rule::OneRecorder,
        ),
        wrong(
            "the own record is not recognized",
            Variant::ForgetsUnanswered,
            |it| (it.faults.replies, it.faults.drops) = (1, 1),
            Rule::NotRefusedForItself,
        ),
        wrong(
            "steps are removed before a late record",
            Variant::RemovesBeforeLate,
            |it| (it.lease, it.faults.late) = (2, 1),
            Rule::NoneSkipped,
        ),
        wrong(
            "steps are removed after an error",
            Variant::RemovesAfterError,
            |it| it.faults.failures = 1,
            Rule::NoneTwice,
        ),
        wrong(
            "steps are removed before the success",
            Variant::RemovesBeforeSuccess,
            |it| it.faults.crashes = 1,
            Rule::NoneTwice,
        ),
        wrong(
            "steps live longer than a success",
            Variant::LivesLonger,
            |it| it.faults.crashes = 1,
            Rule::NoneSkipped,
        ),
    ]
}

/// What is not promised, and happens.
#[must_use]
pub fn limits() -> Vec<(Config, Rule)> {
    let window = Config::new("steps, a lost run ends in the window").with(lost_and_short);
    let late = Config::new("steps, a late record of an earlier run").with(|it| {
        (it.lease, it.comes_after_success) = (2, true);
        (it.faults.late, it.faults.failures) = (1, 1);
    });
    vec![
        (window, Rule::NoneSkippedInTheWindow),
        (late, Rule::NoneSkipped),
    ]
}

fn space(name: &'static str, change: impl FnOnce(&mut Config), events: &[Event]) -> Space {
    Search {
        config: Config::new(name).with(change),
        rules: Rule::ALL.to_vec(),
        events: events.to_vec(),
    }
}

fn lost(config: &mut Config) {
    (config.faults.pauses, config.faults.failures) = (1, 1);
}

fn lost_and_short(config: &mut Config) {
    (config.faults.pauses, config.faults.short) = (1, 1);
}
