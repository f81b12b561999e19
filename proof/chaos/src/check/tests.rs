//! Handwritten histories: each rule is broken, and each excuse applies.

use super::*;
use crate::history::{Batches, Call, HistoryEvent, Key};
use crate::probe::STORE;

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

/// Builds a history; times are in milliseconds.
#[derive(Default)]
struct HistoryBuilder(Vec<Line>);

impl HistoryBuilder {
    fn at(mut self, millis: u64, event: HistoryEvent) -> Self {
        let at = millis * 1000;
        self.0.push(Line { at, event });
        self
    }

    /// A call that succeeds.
    fn success(self, process: u32, key: Key, started: u64, ended: u64) -> Self {
        self.body(process, key, started)
            .at(ended, HistoryEvent::Effect(call(process), key))
            .answer(process, key, ended + 1, Answer::Success)
    }

    /// A call whose body starts.
    fn body(self, process: u32, key: Key, started: u64) -> Self {
        self.at(started - 1, HistoryEvent::Called(call(process), key))
            .at(started, HistoryEvent::Started(call(process), key))
    }

    fn duplicate(self, process: u32, key: Key, at: u64, answer: Answer) -> Self {
        self.at(at - 2, HistoryEvent::Called(call(process), key))
            .answer(process, key, at, answer)
    }

    fn answer(self, process: u32, key: Key, at: u64, answer: Answer) -> Self {
        self.at(at, HistoryEvent::Answered(call(process), key, answer))
            .at(at + 1, HistoryEvent::Finished(process))
    }

    /// The broken rules if the results of these processes are in the store.
    fn violations(&self, results: &[u32]) -> Vec<Rule> {
        self.verdict(&stored(results))
    }

    fn verdict(&self, stored: &Stored) -> Vec<Rule> {
        let verdict = check(&self.0, stored, Topology::Sentinels);
        verdict.violations.iter().map(|found| found.rule).collect()
    }
}

/// A store with the results of these processes.
fn stored(results: &[u32]) -> Stored {
    Stored {
        results: results.iter().copied().map(call).collect(),
        ..Stored::default()
    }
}

fn history() -> HistoryBuilder {
    HistoryBuilder::default()
}

#[test]
fn calls_one_after_another_break_nothing() {
    let history = history()
        .success(1, PAY, 100, 200)
        .duplicate(2, PAY, 300, Answer::Replay(call(1)))
        .success(3, REPORT, 100, 200)
        .duplicate(4, REPORT, 150, Answer::InProgress)
        .success(5, REPORT, 202, 300)
        .success(6, COUPON, 100, 200)
        .duplicate(7, COUPON, 900_000, Answer::Done);
    assert_eq!(history.violations(&[1]), []);
}

#[test]
fn a_controller_that_did_not_run_is_no_process_and_excuses_a_late_end_in_the_background() {
    // The process 2 settles in the background.
    let history = || {
        history()
            .success(2, PAY, 100, 200)
            .success(3, PAY, 1000, 1100)
    };
    let broken = [Rule::NoSecondRun, Rule::NoSecondRun, Rule::NothingLost];
    assert_eq!(history().violations(&[3]), broken);
    let starved = history().at(900, HistoryEvent::Starved(STORE, 650_000));
    assert_eq!(starved.violations(&[3]), []);
}

#[test]
fn a_store_that_stood_still_for_less_than_half_a_lease_is_no_excuse() {
    // Each stall is as long as 0.1 s, and ends `every` milliseconds after the one before.
    let stalls = |count: u64, every: u64| {
        let history = history()
            .success(2, PAY, 100, 200)
            .success(3, PAY, 1900, 2000);
        (1..=count).fold(history, |history, stall| {
            let stalled = HistoryEvent::Starved(STORE, 100_000);
            // The probe and the tasks note the same stall.
            let history = history.at(200 + stall * every, stalled);
            history.at(200 + stall * every, stalled)
        })
    };
    assert_eq!(stalls(1, 110).violations(&[2, 3]), [Rule::NoSecondRun; 2]);
    assert_eq!(stalls(2, 110).violations(&[2, 3]), []);
    assert_eq!(stalls(3, 410).violations(&[2, 3]), [Rule::NoSecondRun; 2]);
}

#[test]
fn two_bodies_at_once_are_found() {
    let both = |history: HistoryBuilder| {
        history
            .success(1, REPORT, 100, 1000)
            .success(2, REPORT, 900, 1100)
    };
    assert_eq!(both(history()).violations(&[]), [Rule::NoOverlap]);

    let stopped = both(history())
        .at(200, HistoryEvent::Stopped(1))
        .at(950, HistoryEvent::Continued(1));
    assert_eq!(stopped.violations(&[]), []);
    let runs_on = both(history())
        .at(100, HistoryEvent::Stopped(1))
        .at(600, HistoryEvent::Continued(1));
    assert_eq!(runs_on.violations(&[]), [Rule::NoOverlap]);
    let starved = both(history()).at(950, HistoryEvent::Starved(1, 750_000));
    assert_eq!(starved.violations(&[]), []);
    let silent_until_killed = |awake| {
        let history = history().body(1, REPORT, 100);
        let history = history.at(awake, HistoryEvent::Awake(1));
        let history = history.success(2, REPORT, 900, 1100);
        history.at(950, HistoryEvent::Killed(1))
    };
    assert_eq!(silent_until_killed(200).violations(&[]), []);
    let runs_until_killed = silent_until_killed(940);
    assert_eq!(runs_until_killed.violations(&[]), [Rule::NoOverlap]);
    let other = both(history()).at(200, HistoryEvent::Stopped(3));
    let other = other.at(950, HistoryEvent::Killed(3));
    assert_eq!(other.violations(&[]), [Rule::NoOverlap]);
}

#[test]
fn a_killed_body_ends_with_its_process() {
    let killed = |at| {
        history()
            .body(1, REPORT, 100)
            .at(at, HistoryEvent::Killed(1))
    };
    let next = |history: HistoryBuilder| history.success(2, REPORT, 900, 1000);
    assert_eq!(next(killed(300)).violations(&[]), []);
    assert_eq!(next(killed(901)).violations(&[]), [Rule::NoOverlap]);
}

#[test]
fn a_body_after_a_success_is_found() {
    let history = || history().success(1, PAY, 100, 200);
    let second = history().success(2, PAY, 300, 400);
    assert_eq!(second.violations(&[1, 2]), [Rule::NoSecondRun; 2]);
    let failed = history()
        .body(2, PAY, 300)
        .at(310, HistoryEvent::Ended(call(2), PAY))
        .answer(2, PAY, 311, Answer::Failed);
    assert_eq!(failed.violations(&[1]), [Rule::NoSecondRun; 2]);
    let at_failover = second
        .at(150, HistoryEvent::LeaderKilled)
        .at(250, HistoryEvent::LeaderReplaced);
    assert_eq!(at_failover.violations(&[1, 2]), []);
    // Every promoted replica has all records.
    let with_replicas = check(&at_failover.0, &stored(&[1, 2]), Topology::Replicas);
    let rules = with_replicas.violations.iter().map(|found| found.rule);
    assert!(rules.eq([Rule::NoSecondRun]));
}

#[test]
fn a_second_effect_needs_an_excuse() {
    let first = || {
        history()
            .body(1, PAY, 100)
            .at(200, HistoryEvent::Effect(call(1), PAY))
    };
    let killed = first()
        .at(201, HistoryEvent::Killed(1))
        .success(2, PAY, 900, 1000);
    assert_eq!(killed.violations(&[2]), []);
    let silent = |answer: u64| first().answer(1, PAY, answer, Answer::Success);
    let beside = |history: HistoryBuilder| history.success(2, PAY, 900, 1000);
    assert_eq!(beside(silent(901)).violations(&[2]), []);
    assert_eq!(
        beside(silent(300)).violations(&[1, 2]),
        [Rule::NoSecondRun; 2]
    );
    let dropped = || first().answer(1, PAY, 201, Answer::GaveUp);
    let second = dropped().success(2, PAY, 900, 1000);
    assert_eq!(second.violations(&[2]), [Rule::NoSecondRun]);
    let cut_off = second.at(950, HistoryEvent::Delayed(1, 900_000));
    assert_eq!(cut_off.violations(&[2]), []);
}

#[test]
fn only_another_process_proves_by_a_replay_that_the_store_has_a_success() {
    let replayed_in = |process| {
        let other = Call { process, number: 1 };
        let replay = Answer::Replay(call(2));
        history()
            .success(2, PAY, 100, 200)
            .at(201, HistoryEvent::Called(other, PAY))
            .at(202, HistoryEvent::Answered(other, PAY, replay))
            .at(203, HistoryEvent::Killed(2))
            .success(4, PAY, 900, 1000)
    };
    assert_eq!(replayed_in(2).violations(&[4]), []);
    assert!(replayed_in(3).violations(&[4]).contains(&Rule::NoSecondRun));
}

#[test]
fn a_success_that_a_kill_may_have_kept_from_the_store_is_excused_in_the_background() {
    for (process, broken) in [(2, &[][..]), (1, &[Rule::NothingLost, Rule::NoSecondRun])] {
        let killed = history()
            .success(process, PAY, 100, 200)
            .at(203, HistoryEvent::Killed(process))
            .success(4, PAY, 900, 1000);
        let mut found = killed.violations(&[4]);
        found.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(found, broken);
    }
    // Without a kill the store has it.
    let lived = history().success(2, PAY, 100, 200);
    assert_eq!(lived.violations(&[]), [Rule::NothingLost]);
}

#[test]
fn a_success_that_a_silent_store_may_have_missed_is_excused_in_the_background() {
    for (process, broken) in [(2, &[][..]), (1, &[Rule::NothingLost, Rule::NoSecondRun])] {
        let other = Call { process, number: 1 };
        let key = Key { number: 9, ..PAY };
        let refused = HistoryEvent::Answered(other, key, Answer::Unavailable);
        let again = history()
            .success(process, PAY, 100, 200)
            .at(201, HistoryEvent::Called(other, key))
            .at(1201, refused)
            .success(3, PAY, 1300, 1400);
        let mut found = again.violations(&[3]);
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.dedup();
        assert_eq!(found, broken);
    }
}

#[test]
fn a_second_body_with_release_false_is_always_found() {
    let killed = history()
        .body(1, COUPON, 100)
        .at(200, HistoryEvent::Killed(1));
    assert_eq!(killed.violations(&[]), []);
    let again = killed.success(2, COUPON, 5000, 5100);
    assert_eq!(again.violations(&[]), [Rule::AtMostOnce]);
}

#[test]
fn a_lost_success_is_found() {
    let answer = history().success(1, PAY, 100, 200);
    assert_eq!(answer.violations(&[]), [Rule::NothingLost]);
    assert_eq!(answer.violations(&[1]), []);
    // The crate reported the loss, or the answer came too late to be certain.
    let unrecorded = answer.at(201, HistoryEvent::Unrecorded(call(1)));
    assert_eq!(unrecorded.violations(&[]), []);
    let late = history()
        .body(1, PAY, 100)
        .at(200, HistoryEvent::Effect(call(1), PAY))
        .answer(1, PAY, 1200, Answer::Success);
    assert_eq!(late.violations(&[]), []);
}

#[test]
fn a_replay_without_its_effect_is_found() {
    let of = |key, of| {
        let history = history().success(1, PAY, 100, 200);
        history.duplicate(2, key, 300, Answer::Replay(call(of)))
    };
    assert_eq!(of(PAY, 1).violations(&[1]), []);
    assert_eq!(of(PAY, 9).violations(&[1]), [Rule::RealReplay]);
    let other = Key { number: 9, ..PAY };
    assert_eq!(of(other, 1).violations(&[1]), [Rule::RealReplay]);
    let before =
        history()
            .success(1, PAY, 100, 200)
            .duplicate(2, PAY, 150, Answer::Replay(call(1)));
    assert!(before.violations(&[1]).contains(&Rule::RealReplay));
}

#[test]
fn a_call_refused_for_itself_is_found() {
    let alone = history().duplicate(1, REPORT, 100, Answer::InProgress);
    assert_eq!(alone.violations(&[]), [Rule::RealDuplicate]);
    let taken = history().duplicate(1, COUPON, 100, Answer::Done);
    assert_eq!(taken.violations(&[]), [Rule::RealDuplicate]);
    let two = alone.duplicate(2, REPORT, 100, Answer::InProgress);
    assert_eq!(two.violations(&[]), [Rule::RealDuplicate; 2]);
}

#[test]
fn a_key_that_a_dead_call_blocks_for_too_long_is_found() {
    let killed = || {
        history()
            .body(1, REPORT, 100)
            .at(200, HistoryEvent::Killed(1))
    };
    let last = 200 + (HELD + SLACK) / 1000;
    let blocked =
        |history: HistoryBuilder, at| history.duplicate(2, REPORT, at, Answer::InProgress);
    assert_eq!(blocked(killed(), last).violations(&[]), []);
    assert_eq!(
        blocked(killed(), last + 3).violations(&[]),
        [Rule::RealDuplicate]
    );
    // The last request of the dead call arrived later.
    let delayed = killed().at(500, HistoryEvent::Delayed(1, 400_000));
    assert_eq!(blocked(delayed, last + 300).violations(&[]), []);
    let delayed = killed().at(500, HistoryEvent::Delayed(9, 400_000));
    assert_eq!(
        blocked(delayed, last + 300).violations(&[]),
        [Rule::RealDuplicate]
    );
}

#[test]
fn a_key_that_never_expires_is_found() {
    let stored = Stored {
        without_expiry: vec!["idem:pay:1".to_owned()],
        ..Stored::default()
    };
    assert_eq!(history().verdict(&stored), [Rule::Expires]);
}

#[test]
fn panics_and_missing_answers_are_found() {
    let panicked = history().success(1, REPORT, 100, 200);
    let panicked = panicked.at(150, HistoryEvent::Panicked(1));
    assert_eq!(panicked.violations(&[]), [Rule::Sound]);
    let unanswered = history()
        .body(1, REPORT, 100)
        .at(900, HistoryEvent::Finished(1));
    assert_eq!(unanswered.violations(&[]), [Rule::Sound]);
    let crashed = history()
        .at(100, HistoryEvent::Called(call(1), REPORT))
        .at(101, HistoryEvent::Answered(call(1), REPORT, Answer::Failed));
    assert_eq!(crashed.violations(&[]), [Rule::Sound]);
    let trouble = history().duplicate(1, REPORT, 100, Answer::Unexpected);
    assert_eq!(trouble.violations(&[]), [Rule::Sound]);
}

#[test]
fn a_run_in_which_too_little_happened_does_not_count() {
    let batches = |sent, broken| Batches {
        sent,
        operations: 3 * sent,
        broken,
    };
    let history = history()
        .success(1, PAY, 100, 200)
        .at(250, HistoryEvent::Batches(1, batches(9, 1)))
        .at(150, HistoryEvent::Batches(1, batches(4, 1)))
        .at(150, HistoryEvent::Batches(2, batches(1, 0)));
    let figures = check(&history.0, &Stored::default(), Topology::One).figures;
    assert_eq!(figures.batches, batches(10, 1));
    let minimums = Minimums {
        calls: 1,
        kills: 2,
        batches: 11,
        broken_batches: 2,
        ..Minimums::default()
    };
    assert_eq!(
        figures.below(&minimums),
        [
            "0 kills, but at least 2 are needed",
            "10 batches, but at least 11 are needed",
            "1 broken batches, but at least 2 are needed",
        ]
    );
}
