//! Handwritten storms: each rule is broken, and each excuse applies.

use super::*;
use crate::history::Endpoint;

const KEY: Key = Key {
    endpoint: Endpoint::Pay,
    number: 1,
};

/// Builds a storm; times are in milliseconds.
#[derive(Default)]
struct Storm {
    lines: Vec<Line>,
    received: Received,
}

impl Storm {
    fn at(mut self, millis: u64, event: HistoryEvent) -> Self {
        let at = millis * 1000;
        self.lines.push(Line { at, event });
        self
    }

    fn started(self, process: u32, millis: u64) -> Self {
        self.at(millis, HistoryEvent::Started(call(process), KEY))
    }

    fn effect(self, process: u32, millis: u64) -> Self {
        self.at(millis, HistoryEvent::Effect(call(process), KEY))
    }

    /// A body with its effect 10 ms later.
    fn body(self, process: u32, millis: u64) -> Self {
        self.started(process, millis).effect(process, millis + 10)
    }

    fn success(mut self, process: u32, millis: u64, is_replay: bool) -> Self {
        let success = success(process, millis, is_replay);
        self.received.storm.push((KEY, Answer::Success(success)));
        self
    }

    fn answer(mut self, answer: Answer) -> Self {
        self.received.storm.push((KEY, answer));
        self
    }

    fn afterwards(mut self, answer: Answer) -> Self {
        self.received.afterwards.push((KEY, answer));
        self
    }

    /// The broken rules.
    fn broken(&self) -> BTreeSet<Rule> {
        let verdict = check(&self.lines, &self.received);
        verdict
            .violations
            .into_iter()
            .map(|broken| broken.rule)
            .collect()
    }
}

/// The call of a process that makes only one.
fn call(process: u32) -> Call {
    Call { process, number: 0 }
}

fn success(process: u32, millis: u64, is_replay: bool) -> Success {
    Success {
        at: millis * 1000,
        call: Some(call(process)),
        is_replay,
        bytes: vec![u8::try_from(process).unwrap_or(u8::MAX)],
    }
}

fn only(rule: Rule) -> BTreeSet<Rule> {
    BTreeSet::from([rule])
}

#[test]
fn one_body_and_its_replays_break_nothing() {
    let storm = Storm::default()
        .body(1, 100)
        .success(1, 120, false)
        .success(1, 121, true)
        .afterwards(Answer::Success(success(1, 900, true)));
    assert_eq!(storm.broken(), BTreeSet::new());
}

#[test]
fn a_second_body_needs_a_kill_of_the_first_process() {
    let two = |storm: Storm| storm.body(2, 3000).success(2, 3020, false).broken();
    assert_eq!(two(Storm::default().body(1, 100)), only(Rule::OneBody));
    let killed = |millis| {
        Storm::default()
            .started(1, 100)
            .at(millis, HistoryEvent::Killed(1))
    };
    assert_eq!(two(killed(200)), BTreeSet::new());
    assert_eq!(two(killed(3001)), only(Rule::OneBody));
    let other = Storm::default()
        .started(1, 100)
        .at(200, HistoryEvent::Killed(3));
    assert_eq!(two(other), only(Rule::OneBody));
}

#[test]
fn a_second_body_during_a_kill_needs_the_end_of_the_lease() {
    let broken = |killing: u64, second: u64| {
        let storm = Storm::default().started(1, 100);
        let storm = storm.at(killing, HistoryEvent::Killing(1));
        let storm = storm.at(9000, HistoryEvent::Killed(1));
        let storm = storm.body(2, second).success(2, second + 20, false);
        storm.broken()
    };
    let free = 100 + (LEASE + GRACE) / 1000;
    assert_eq!(broken(200, free), BTreeSet::new());
    assert_eq!(broken(200, free - 1), only(Rule::OneBody));
    assert_eq!(broken(free, free), only(Rule::OneBody));
}

#[test]
fn a_second_body_may_start_when_the_first_has_ended_without_its_effect_and_its_lease_has_ended() {
    let lease = (LEASE + GRACE) / 1000;
    let broken = |ended: u64, second: u64| {
        let ended = (ended, HistoryEvent::Ended(call(1), KEY));
        let storm = Storm::default().started(1, 100).at(ended.0, ended.1);
        let storm = storm.body(2, second).success(2, second + 20, false);
        storm.broken()
    };
    assert_eq!(broken(200, 100 + lease), BTreeSet::new());
    assert_eq!(broken(200, 99 + lease), only(Rule::OneBody));
    assert_eq!(broken(101 + lease, 100 + lease), only(Rule::OneBody));
}

#[test]
fn the_lease_of_a_slow_claim_counts_from_its_request() {
    let lease = (LEASE + GRACE) / 1000;
    let broken = |started: u64, second: u64| {
        let storm = Storm::default()
            .at(100, HistoryEvent::Called(call(1), KEY))
            .started(1, started)
            .at(second - 1, HistoryEvent::Ended(call(1), KEY));
        let storm = storm.body(2, second).success(2, second + 20, false);
        storm.broken()
    };
    assert_eq!(broken(1500, 100 + lease), BTreeSet::new());
    assert_eq!(broken(1500, 99 + lease), only(Rule::OneBody));
    // This request waited for another one, and claimed later.
    let grace = GRACE / 1000;
    assert_eq!(broken(5000, 5000 + grace), BTreeSet::new());
    assert_eq!(broken(5000, 4999 + grace), only(Rule::OneBody));
}

#[test]
fn a_body_of_a_process_that_stood_still_may_start_after_its_lease() {
    let broken = |second: u64| {
        let storm = Storm::default()
            .at(100, HistoryEvent::Called(call(1), KEY))
            .at(3000, HistoryEvent::Starved(1, 100_000))
            .started(1, 3100)
            .at(second - 1, HistoryEvent::Ended(call(1), KEY));
        let storm = storm.body(2, second).success(2, second + 20, false);
        storm.broken()
    };
    let first = 3100 + GRACE / 1000 - 100;
    assert_eq!(broken(first), BTreeSet::new());
    assert_eq!(broken(first - 1), only(Rule::OneBody));
}

#[test]
fn a_key_is_not_judged_if_the_store_or_its_process_was_silent_between_two_bodies() {
    let broken = |process, at, paused| {
        let silent = HistoryEvent::Starved(process, paused);
        let storm = Storm::default().started(1, 100).at(at, silent);
        storm.body(2, 3000).success(2, 3020, false).broken()
    };
    for process in [STORE, 1] {
        assert_eq!(broken(process, 2900, LONG_PAUSE), BTreeSet::new());
        assert_eq!(broken(process, 2900, LONG_PAUSE - 1), only(Rule::OneBody));
        assert_eq!(broken(process, 99, LONG_PAUSE), only(Rule::OneBody));
        assert_eq!(broken(process, 5000, LONG_PAUSE), only(Rule::OneBody));
    }
    assert_eq!(broken(3, 2900, LONG_PAUSE), only(Rule::OneBody));
}

#[test]
fn a_key_is_not_judged_if_its_process_was_silent_in_several_parts_of_the_lease() {
    // Each silence is as long as 0.4 s, and ends 0.5 s after the one before.
    let broken = |parts: u64| {
        let storm = (1..=parts).fold(Storm::default().started(1, 100), |storm, part| {
            let silent = HistoryEvent::Starved(1, LONG_PAUSE * 2 / 5);
            storm.at(100 + part * 500, silent)
        });
        storm.body(2, 9000).success(2, 9020, false).broken()
    };
    assert_eq!(broken(3), BTreeSet::new());
    assert_eq!(broken(2), only(Rule::OneBody));
}

#[test]
fn a_silence_that_began_before_the_first_body_is_no_excuse_for_a_second_body() {
    let storm = |first| {
        // The store is silent from 1000 to 6000 ms.
        let silent = HistoryEvent::Starved(STORE, 5 * LONG_PAUSE);
        let storm = Storm::default().body(1, first).at(6000, silent);
        storm.body(2, 7000).success(2, 7020, false)
    };
    let delay = START_DELAY / 1000;
    assert_eq!(storm(1000 + delay).broken(), only(Rule::OneBody));
    assert_eq!(storm(1000 + delay - 1).broken(), BTreeSet::new());
    // Two seconds in which the process of the body stood still do not count.
    let storm = |first, process| {
        let stood_still = HistoryEvent::Starved(process, 2 * LONG_PAUSE);
        storm(first).at(3100, stood_still).broken()
    };
    assert_eq!(storm(3000 + delay, 1), only(Rule::OneBody));
    assert_eq!(storm(3000 + delay - 1, 1), BTreeSet::new());
    assert_eq!(storm(3000 + delay - 1, 2), only(Rule::OneBody));
}

#[test]
fn a_503_needs_a_silence_within_the_deadline_before_it() {
    let refused = |millis: u64, paused| {
        let silent = HistoryEvent::Starved(STORE, paused);
        let mut storm = Storm::default().at(2000, silent);
        storm.received.unavailable.push((KEY, millis * 1000));
        storm.broken()
    };
    let latest = 2000 + REFUSAL_DELAY / 1000;
    for millis in [1001, 2000, latest - 1] {
        assert_eq!(refused(millis, LONG_PAUSE), BTreeSet::new());
        assert_eq!(refused(millis, LONG_PAUSE - 1), only(Rule::TrueRefusal));
    }
    for millis in [1000, latest] {
        assert_eq!(refused(millis, LONG_PAUSE), only(Rule::TrueRefusal));
    }
}

#[test]
fn a_503_on_a_starved_machine_needs_a_second_of_silences_of_one_process() {
    // Each silence is as long as 0.4 s, and begins 0.5 s after the one before.
    let refused = |processes: [u32; 3], late: u64| {
        let storm = (1_u64..).zip(processes);
        let mut storm = storm.fold(Storm::default(), |storm, (number, process)| {
            let silent = HistoryEvent::Starved(process, LONG_PAUSE * 2 / 5);
            // Two threads of the process note the same silence.
            storm.at(number * 500, silent).at(number * 500, silent)
        });
        storm.received.unavailable.push((KEY, (1500 + late) * 1000));
        storm.broken()
    };
    assert_eq!(refused([7; 3], 0), BTreeSet::new());
    assert_eq!(refused([STORE; 3], 0), BTreeSet::new());
    assert_eq!(refused([7, 7, 8], 0), only(Rule::TrueRefusal));
    // The first silence begins at 100 ms.
    let latest = REFUSAL_DELAY / 1000 - 1400;
    assert_eq!(refused([7; 3], latest), BTreeSet::new());
    assert_eq!(refused([7; 3], latest + 300), only(Rule::TrueRefusal));
}

#[test]
fn a_kill_does_not_excuse_a_body_after_a_success() {
    let storm = Storm::default()
        .body(1, 100)
        .success(1, 120, false)
        .at(200, HistoryEvent::Killed(1))
        .body(2, 3000);
    assert_eq!(storm.broken(), only(Rule::NoSecondRun));
}

#[test]
fn responses_of_two_bodies_differ() {
    let storm = Storm::default()
        .body(1, 100)
        .at(115, HistoryEvent::Killed(1))
        .body(2, 3000)
        .success(1, 3020, true)
        .success(2, 3020, false);
    assert_eq!(storm.broken(), only(Rule::EqualBytes));
}

#[test]
fn two_responses_without_the_marker_are_found() {
    let storm = Storm::default().body(1, 100);
    let storm = storm.success(1, 120, false).success(1, 121, false);
    assert_eq!(storm.broken(), only(Rule::OneOriginal));
}

#[test]
fn a_response_of_a_body_without_an_effect_is_found() {
    let storm = Storm::default().started(1, 100).success(1, 120, false);
    assert_eq!(storm.broken(), only(Rule::RealReplay));
}

#[test]
fn a_key_that_is_not_stored_after_the_storm_is_found() {
    let storm = Storm::default().body(1, 100).success(1, 120, true);
    let storm = storm.afterwards(Answer::Success(success(1, 900, false)));
    assert_eq!(storm.broken(), only(Rule::Stored));
}

#[test]
fn another_status_and_a_client_without_an_answer_are_found() {
    for answer in [Answer::None, Answer::Unexpected("500".into())] {
        let storm = Storm::default().body(1, 100).answer(answer);
        assert_eq!(storm.broken(), only(Rule::Sound));
    }
    let storm = Storm::default().at(1, HistoryEvent::Panicked(1));
    assert_eq!(storm.broken(), only(Rule::Sound));
}
