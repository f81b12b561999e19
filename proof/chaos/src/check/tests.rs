//! Histories by hand: each rule is shown to fire, and what excuses it.

use super::*;
use crate::history::{Call, Key, What};

const PAY: Key = Key {
    endpoint: Endpoint::Pay,
    number: 1,
};
const REPORT: Key = Key {
    endpoint: Endpoint::Report,
    number: 2,
};
const COUPON: Key = Key {
    endpoint: Endpoint::Coupon,
    number: 3,
};

/// The call of a process that makes only one.
fn call(process: u32) -> Call {
    Call { process, number: 0 }
}

/// A history in the making; times are in milliseconds.
#[derive(Default)]
struct Tale(Vec<Line>);

impl Tale {
    fn at(mut self, millis: u64, what: What) -> Self {
        let at = millis * 1000;
        self.0.push(Line { at, what });
        self
    }

    /// A call that succeeds.
    fn success(self, process: u32, key: Key, started: u64, ended: u64) -> Self {
        self.body(process, key, started)
            .at(ended, What::Effect(call(process), key))
            .told(process, key, ended + 1, Told::Success)
    }

    /// A call whose body starts.
    fn body(self, process: u32, key: Key, started: u64) -> Self {
        self.at(started - 1, What::Called(call(process), key))
            .at(started, What::Started(call(process), key))
    }

    fn duplicate(self, process: u32, key: Key, at: u64, told: Told) -> Self {
        self.at(at - 2, What::Called(call(process), key))
            .told(process, key, at, told)
    }

    fn told(self, process: u32, key: Key, at: u64, told: Told) -> Self {
        self.at(at, What::Told(call(process), key, told))
            .at(at + 1, What::Finished(process))
    }

    /// What is broken if the results of these processes stand in the store.
    fn breaks(&self, results: &[u32]) -> Vec<Rule> {
        let standing = Standing {
            results: results.iter().copied().map(call).collect(),
            ..Standing::default()
        };
        self.verdict(&standing)
    }

    fn verdict(&self, standing: &Standing) -> Vec<Rule> {
        let verdict = check(&self.0, standing);
        verdict.violations.iter().map(|found| found.rule).collect()
    }
}

fn tale() -> Tale {
    Tale::default()
}

#[test]
fn calls_one_after_another_break_nothing() {
    let tale = tale()
        .success(1, PAY, 100, 200)
        .duplicate(2, PAY, 300, Told::Replay(call(1)))
        .success(3, REPORT, 100, 200)
        .duplicate(4, REPORT, 150, Told::InProgress)
        .success(5, REPORT, 202, 300)
        .success(6, COUPON, 100, 200)
        .duplicate(7, COUPON, 900_000, Told::Done);
    assert_eq!(tale.breaks(&[1]), []);
}

#[test]
fn two_bodies_at_once_are_found() {
    let both = |tale: Tale| {
        tale.success(1, REPORT, 100, 1000)
            .success(2, REPORT, 900, 1100)
    };
    assert_eq!(both(tale()).breaks(&[]), [Rule::NoOverlap]);

    let stopped = both(tale())
        .at(200, What::Stopped(1))
        .at(950, What::Continued(1));
    assert_eq!(stopped.breaks(&[]), []);
    let runs_on = both(tale())
        .at(100, What::Stopped(1))
        .at(600, What::Continued(1));
    assert_eq!(runs_on.breaks(&[]), [Rule::NoOverlap]);
    let starved = both(tale()).at(950, What::Starved(1, 750_000));
    assert_eq!(starved.breaks(&[]), []);
    let other = both(tale()).at(200, What::Stopped(3));
    let other = other.at(950, What::Killed(3));
    assert_eq!(other.breaks(&[]), [Rule::NoOverlap]);
}

#[test]
fn a_killed_body_ends_with_its_process() {
    let killed = |at| tale().body(1, REPORT, 100).at(at, What::Killed(1));
    let next = |tale: Tale| tale.success(2, REPORT, 900, 1000);
    assert_eq!(next(killed(300)).breaks(&[]), []);
    assert_eq!(next(killed(901)).breaks(&[]), [Rule::NoOverlap]);
}

#[test]
fn a_body_after_a_success_is_found() {
    let tale = || tale().success(1, PAY, 100, 200);
    let second = tale().success(2, PAY, 300, 400);
    assert_eq!(second.breaks(&[1, 2]), [Rule::NoSecondRun; 2]);
    let failed = tale()
        .body(2, PAY, 300)
        .at(310, What::Ended(call(2), PAY))
        .told(2, PAY, 311, Told::Failed);
    assert_eq!(failed.breaks(&[1]), [Rule::NoSecondRun; 2]);
    let at_failover = second.at(150, What::LeaderKilled).at(250, What::LeaderBack);
    assert_eq!(at_failover.breaks(&[1, 2]), []);
}

#[test]
fn a_second_effect_needs_a_reason() {
    let first = || tale().body(1, PAY, 100).at(200, What::Effect(call(1), PAY));
    let killed = first().at(201, What::Killed(1)).success(2, PAY, 900, 1000);
    assert_eq!(killed.breaks(&[2]), []);
    let silent = |told: u64| first().told(1, PAY, told, Told::Success);
    let beside = |tale: Tale| tale.success(2, PAY, 900, 1000);
    assert_eq!(beside(silent(901)).breaks(&[2]), []);
    assert_eq!(beside(silent(300)).breaks(&[1, 2]), [Rule::NoSecondRun; 2]);
    let dropped = || first().told(1, PAY, 201, Told::GaveUp);
    let second = dropped().success(2, PAY, 900, 1000);
    assert_eq!(second.breaks(&[2]), [Rule::NoSecondRun]);
    let cut_off = second.at(950, What::Delayed(1, 900_000));
    assert_eq!(cut_off.breaks(&[2]), []);
}

#[test]
fn a_second_body_for_a_coupon_is_found_whatever_happened() {
    let killed = tale().body(1, COUPON, 100).at(200, What::Killed(1));
    assert_eq!(killed.breaks(&[]), []);
    let again = killed.success(2, COUPON, 5000, 5100);
    assert_eq!(again.breaks(&[]), [Rule::AtMostOnce]);
}

#[test]
fn a_lost_success_is_found() {
    let told = tale().success(1, PAY, 100, 200);
    assert_eq!(told.breaks(&[]), [Rule::NothingLost]);
    assert_eq!(told.breaks(&[1]), []);
    // It was said to be so, or may be.
    let unrecorded = told.at(201, What::Unrecorded(call(1)));
    assert_eq!(unrecorded.breaks(&[]), []);
    let late = tale()
        .body(1, PAY, 100)
        .at(200, What::Effect(call(1), PAY))
        .told(1, PAY, 1200, Told::Success);
    assert_eq!(late.breaks(&[]), []);
}

#[test]
fn a_replay_of_nothing_is_found() {
    let of = |key, of| {
        let tale = tale().success(1, PAY, 100, 200);
        tale.duplicate(2, key, 300, Told::Replay(call(of)))
    };
    assert_eq!(of(PAY, 1).breaks(&[1]), []);
    assert_eq!(of(PAY, 9).breaks(&[1]), [Rule::RealReplay]);
    let other = Key { number: 9, ..PAY };
    assert_eq!(of(other, 1).breaks(&[1]), [Rule::RealReplay]);
    let before = tale()
        .success(1, PAY, 100, 200)
        .duplicate(2, PAY, 150, Told::Replay(call(1)));
    assert!(before.breaks(&[1]).contains(&Rule::RealReplay));
}

#[test]
fn one_who_is_told_of_himself_is_found() {
    let alone = tale().duplicate(1, REPORT, 100, Told::InProgress);
    assert_eq!(alone.breaks(&[]), [Rule::RealDuplicate]);
    let taken = tale().duplicate(1, COUPON, 100, Told::Done);
    assert_eq!(taken.breaks(&[]), [Rule::RealDuplicate]);
    let two = alone.duplicate(2, REPORT, 100, Told::InProgress);
    assert_eq!(two.breaks(&[]), [Rule::RealDuplicate; 2]);
}

#[test]
fn a_key_that_a_dead_call_blocks_for_too_long_is_found() {
    let killed = || tale().body(1, REPORT, 100).at(200, What::Killed(1));
    let last = 200 + (HELD + SLACK) / 1000;
    let blocked = |tale: Tale, at| tale.duplicate(2, REPORT, at, Told::InProgress);
    assert_eq!(blocked(killed(), last).breaks(&[]), []);
    assert_eq!(
        blocked(killed(), last + 3).breaks(&[]),
        [Rule::RealDuplicate]
    );
    // Its last words came later.
    let delayed = killed().at(500, What::Delayed(1, 400_000));
    assert_eq!(blocked(delayed, last + 300).breaks(&[]), []);
    let delayed = killed().at(500, What::Delayed(9, 400_000));
    assert_eq!(
        blocked(delayed, last + 300).breaks(&[]),
        [Rule::RealDuplicate]
    );
}

#[test]
fn a_key_that_never_expires_is_found() {
    let standing = Standing {
        endless: vec!["idem:pay:1".to_owned()],
        ..Standing::default()
    };
    assert_eq!(tale().verdict(&standing), [Rule::Expires]);
}

#[test]
fn what_ends_badly_is_found() {
    let panicked = tale().success(1, REPORT, 100, 200);
    let panicked = panicked.at(150, What::Panicked(1));
    assert_eq!(panicked.breaks(&[]), [Rule::Sound]);
    let unanswered = tale().body(1, REPORT, 100).at(900, What::Finished(1));
    assert_eq!(unanswered.breaks(&[]), [Rule::Sound]);
    let crashed = tale()
        .at(100, What::Called(call(1), REPORT))
        .at(101, What::Told(call(1), REPORT, Told::Failed));
    assert_eq!(crashed.breaks(&[]), [Rule::Sound]);
    let trouble = tale().duplicate(1, REPORT, 100, Told::Trouble);
    assert_eq!(trouble.breaks(&[]), [Rule::Sound]);
}

#[test]
fn a_run_in_which_too_little_happened_does_not_count() {
    let figures = check(&tale().success(1, PAY, 100, 200).0, &Standing::default()).figures;
    let floors = Floors {
        calls: 1,
        kills: 2,
        ..Floors::default()
    };
    assert_eq!(figures.below(&floors), ["0 kills, of at least 2"]);
}
