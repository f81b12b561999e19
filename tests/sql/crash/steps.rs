//! SQLite, which has no network connection: a process is killed before every step, and at many moments of a call.

use std::thread::sleep;
use std::time::Instant;

use crate::crash::flow::{self, Flow};
use crate::crash::outcome::{Crash, FIRST, both_sides_of_the_commit, lost, nothing_is_lost, twice};
use crate::crash::process::Process;
use support::databases::file;

#[test]
fn a_process_killed_before_any_step_loses_nothing() {
    let crashes = before_every_step(Flow::InTheTransaction);
    let places: Vec<_> = crashes.iter().map(|crash| crash.place.as_str()).collect();
    let steps = [
        "begin",
        "claim",
        "insert",
        "store the result",
        "commit",
        "answer",
    ];
    assert_eq!(places, steps);
    nothing_is_lost(&crashes);
    both_sides_of_the_commit(&crashes);
}

#[test]
fn a_row_that_is_committed_before_the_work_loses_the_operation() {
    assert!(before_every_step(Flow::MarkedFirst).iter().any(lost));
}

#[test]
fn a_row_that_is_committed_after_the_work_lets_it_happen_twice() {
    assert!(before_every_step(Flow::MarkedLast).iter().any(twice));
}

#[test]
fn a_process_killed_at_any_moment_loses_nothing() {
    let mut crashes = Vec::new();
    // On a busy machine all moments of a round may be on one side of the commit.
    for _ in 0..10 {
        crashes.extend(at_many_moments());
        nothing_is_lost(&crashes);
        let is_replayed = |crash: &Crash| crash.retry == FIRST;
        if crashes.iter().any(is_replayed) && !crashes.iter().all(is_replayed) {
            return;
        }
    }
    panic!("all moments of 10 rounds were on one side of the commit: {crashes:#?}");
}

fn at_many_moments() -> Vec<Crash> {
    const MOMENTS: u32 = 60;

    let url = set_up();
    let flow = Flow::InTheTransaction;
    let begun = |number| {
        let mut process = Process::start_in_steps(flow, &url, &Crash::first(number));
        process.next_step();
        process.go_on();
        (process, Instant::now())
    };
    // The longest of several durations, so that the last moments are after the end of the call.
    let whole = (0..5).map(|number| {
        let (mut process, start) = begun(number);
        assert_eq!(process.answer().as_deref(), Ok(FIRST));
        start.elapsed()
    });
    let whole = whole.max().unwrap();
    let mut crashes = Vec::new();
    for moment in 0..MOMENTS {
        let number = 100 + moment;
        let (mut process, start) = begun(number);
        let after = whole * moment / MOMENTS;
        sleep(after.saturating_sub(start.elapsed()));
        process.kill();
        let answer = process.answer().ok();
        let place = format!("after {after:?} of {whole:?}");
        crashes.push(Crash::after_a_retry(place, answer, flow, &url, number));
    }
    crashes
}

fn before_every_step(flow: Flow) -> Vec<Crash> {
    let url = set_up();
    let mut crashes = Vec::new();
    for number in 1.. {
        let mut process = Process::start_in_steps(flow, &url, &Crash::first(number));
        let mut step = process.next_step();
        for _ in 1..number {
            process.take_step();
            step = process.next_step();
        }
        let Some(step) = step else {
            break;
        };
        process.kill();
        let answer = process.answer().ok();
        crashes.push(Crash::after_a_retry(step, answer, flow, &url, number));
    }
    crashes
}

/// The URL of a database of SQLite with the tables.
fn set_up() -> String {
    let url = format!("sqlite:{}?mode=rwc", file().display());
    flow::set_up(&url);
    url
}
