//! The configurations in which the numbers must hold, and those in which each mistake must be found.

use super::config::{Config, Faults, Store, Variant};
use super::rules::Event::{
    self, AllRan, DrawnTooLate, LineLost, Stray, TookOver, WithdrawnTakeover, WriteRefused,
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
            "fences, replies are lost",
            |_| {},
            &[AllRan, TookOver, Stray],
        ),
        space(
            "fences, a command comes twice",
            |it| it.faults = only(|faults| faults.repeats = 1),
            &[AllRan, TookOver, Stray],
        ),
        space(
            "fences, a paused body writes late",
            |it| {
                it.writes = true;
                it.faults = only(|_| {});
            },
            &[AllRan, TookOver, WriteRefused],
        ),
        space(
            "fences, crash",
            |it| {
                it.records = true;
                it.faults = only(|faults| faults.crashes = 1);
            },
            &[AllRan, TookOver],
        ),
        space(
            "fences, cancel: release",
            |it| {
                it.releases = true;
                it.faults = only(|faults| faults.cancels = 1);
            },
            &[AllRan, TookOver],
        ),
        space(
            "fences, an operator frees the key",
            |it| it.faults = only(|faults| faults.forgets = 1),
            &[AllRan, TookOver],
        ),
        space(
            "fences, the clock is set back",
            |it| it.faults = only(|faults| faults.set_back = 1),
            &[AllRan, TookOver],
        ),
        space(
            "fences, the number expires",
            |it| {
                (it.life, it.ticks) = (2, 3);
                it.faults = only(|_| {});
            },
            &[AllRan, TookOver, LineLost],
        ),
        space(
            "fences, three calls that end",
            |it| {
                calm(it);
                it.calls = 3;
            },
            &[AllRan],
        )
        .and(Rule::NoFalseAlarm),
        space(
            "fences, a dead call and a withdrawn call",
            |it| {
                calm(it);
                (it.calls, it.ticks) = (3, 2);
                it.faults = only(|faults| faults.crashes = 1);
            },
            &[AllRan, TookOver, WithdrawnTakeover],
        ),
        space(
            "fences in steps, clocks differ",
            |it| {
                it.store = Store::Steps;
                it.behind = [0, 2, 1];
                it.writes = true;
                it.faults = only(|_| {});
            },
            &[AllRan, TookOver, WriteRefused, DrawnTooLate],
        )
        .without(Rule::SameAgain),
        space(
            "fences in steps, an operator frees the key",
            |it| {
                it.store = Store::Steps;
                it.ticks = 1;
                it.faults = only(|faults| faults.forgets = 1);
            },
            &[AllRan, DrawnTooLate],
        )
        .without(Rule::SameAgain),
    ]
}

/// Larger spaces, for a release build.
#[must_use]
pub fn long() -> Vec<Space> {
    vec![
        space(
            "fences, a reply lost, cancel: release",
            |it| {
                (it.ticks, it.releases) = (3, true);
                it.faults.cancels = 1;
            },
            &[AllRan, TookOver],
        ),
        space(
            "fences, a reply lost, an operator",
            |it| (it.ticks, it.faults.forgets) = (3, 1),
            &[AllRan, TookOver],
        ),
        space(
            "fences, a reply lost, the clock set back",
            |it| (it.ticks, it.faults.set_back) = (3, 1),
            &[AllRan, TookOver],
        ),
        space(
            "fences, a reply lost, crash",
            |it| {
                (it.ticks, it.records) = (3, true);
                it.faults.crashes = 1;
            },
            &[AllRan, TookOver],
        ),
        space(
            "fences in steps, replies are lost",
            |it| {
                it.store = Store::Steps;
            },
            &[AllRan, TookOver, Stray],
        )
        .without(Rule::SameAgain),
    ]
}

/// Each mistake with the rule that it breaks.
#[must_use]
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub fn wrong() -> Vec<(Config, Rule)> {
    let on = |name, variant, rule, change: &dyn Fn(&mut Config)| {
        let config = Config::new(name).with(|it| it.variant = variant);
        (config.with(|it| change(it)), rule)
    };
    let plain = |_: &mut Config| {};
    vec![
        on(
            "a number is the clock alone",
            Variant::ClockAlone,
            Rule::Increasing,
            &plain,
        ),
        on(
            "a number is not the clock, and expires",
            Variant::NoClock,
            Rule::Increasing,
            &|it| (it.life, it.ticks) = (2, 3),
        ),
        on(
            "a late write after the clock alone",
            Variant::ClockAlone,
            Rule::LateWriteRefused,
            &|it| it.writes = true,
        ),
        on(
            "a number is drawn before the claim",
            Variant::DrawnBeforeClaim,
            Rule::Increasing,
            &|it| it.store = Store::Steps,
        ),
        on(
            "a number of a lost claim is used",
            Variant::NotConfirmed,
            Rule::Increasing,
            &|it| {
                it.store = Store::Steps;
                it.faults = only(|faults| faults.forgets = 1);
            },
        ),
        on(
            "a repeated claim has a new number",
            Variant::NewForRepeat,
            Rule::SameAgain,
            &plain,
        ),
        on(
            "a refused claim draws a number",
            Variant::RefusedDraws,
            Rule::SameAgain,
            &plain,
        ),
        on(
            "the end of a fence replaces any line",
            Variant::UnownedEnd,
            Rule::Increasing,
            &|it| {
                (it.calls, it.records) = (3, true);
                it.faults = only(|_| {});
            },
        ),
        on(
            "the end of a fence removes its line",
            Variant::EndRemovesLine,
            Rule::Increasing,
            &plain,
        ),
        on(
            "the key is free before its fence ends",
            Variant::KeyFreedFirst,
            Rule::NoFalseAlarm,
            &calm,
        ),
        on(
            "the fence ends before the record",
            Variant::EndedBeforeRecorded,
            Rule::DeadIsSeen,
            &|it| {
                it.records = true;
                it.faults = only(|faults| faults.crashes = 1);
            },
        ),
        on(
            "a withdrawn claim hides a dead call",
            Variant::WithdrawalHidesDead,
            Rule::DeadIsSeen,
            &|it| {
                (it.calls, it.ticks) = (3, 2);
                it.refuses = true;
                it.faults = only(|faults| faults.crashes = 1);
            },
        ),
        on(
            "a withdrawn claim is an attempt",
            Variant::WithdrawalCounts,
            Rule::NoFalseAlarm,
            &calm,
        ),
        on(
            "a dropped body has ended",
            Variant::DroppedIsEnded,
            Rule::DeadIsSeen,
            &|it| {
                it.releases = true;
                it.faults = only(|faults| faults.cancels = 1);
            },
        ),
    ]
}

/// What the protocol does not promise, although a reader might expect it.
#[must_use]
pub fn limits() -> Vec<(Config, Rule)> {
    let lost =
        |it: &mut Config| it.faults = only(|faults| (faults.losses, faults.set_back) = (1, 1));
    vec![
        (
            Config::new("fences, a lost number and a clock set back").with(lost),
            Rule::Increasing,
        ),
        // The call never got the first number.
        (
            Config::new("fences in steps, a lost claim draws between")
                .with(|it| (it.store, it.ticks) = (Store::Steps, 2)),
            Rule::SameAgain,
        ),
        (
            Config::new("fences, a late claim of a call that gave up"),
            Rule::NoFalseAlarm,
        ),
    ]
}

impl Space {
    fn and(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    fn without(mut self, rule: Rule) -> Self {
        self.rules.retain(|other| *other != rule);
        self
    }
}

/// Every call gets its answers in time.
fn calm(it: &mut Config) {
    (it.gives_up, it.refuses, it.ticks) = (false, true, 0);
    it.faults = only(|_| {});
}

fn space(name: &'static str, change: impl FnOnce(&mut Config), events: &[Event]) -> Space {
    Space {
        config: Config::new(name).with(change),
        rules: Rule::PROMISED.to_vec(),
        events: events.to_vec(),
    }
}

/// These faults, without repeated requests.
fn only(these: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::default();
    these(&mut faults);
    faults
}
