//! Calls with permits: at most so many bodies of a key run at once.

use std::collections::BTreeMap;

use super::Mutant;
use super::call_plan::{BodyEnds, CallPlan, KeyPlan};
use super::dice::Dice;
use super::history::{CallId, Event, Kind, Returned};
use super::incidents::Incident;
use super::knobs::{MessageFaults, Plan};
use super::promise::{Broken, ONE_BODY, TRUE_ANSWER};
use super::run::simulate;
use crate::mutation::Mutation;
use crate::policy::{OnCancel, OnLeaseLost, Release, Renew};

/// Calls of several processes, whose messages are late, lost and repeated, and which are dropped, frozen and crash.
fn disturbed(seed: u64) -> Plan {
    let dice = &mut Dice::new(seed, 10);
    let (lasts, processes) = (dice.pick(&[20, 1000, 3000]), dice.pick(&[1, 2, 3]));
    let keys = exports(dice.pick(&[300, 600]), dice.pick(&[1, 2, 3]));
    let lease = keys[0].lease;
    let impatient = dice.chance(500);
    let calls = (0..dice.within(4, 9)).map(|_| CallPlan {
        key: 0,
        ..CallPlan::drawn(dice, &keys, processes, lasts, impatient, false)
    });
    let calls = calls.collect();
    let deadline = dice.pick(&[100, 250, 500]);
    let message_faults = MessageFaults::drawn(dice, false, deadline, lease);
    let mut incidents = Incident::drawn(dice, false, processes, 1, lasts, lease);
    // These are excuses for one body too many.
    incidents.retain(|(_, incident)| {
        !matches!(
            incident,
            Incident::Free { .. }
                | Incident::Evict { .. }
                | Incident::ForgetAll
                | Incident::Step { .. }
        )
    });
    Plan {
        incidents,
        ..plan(message_faults, deadline, keys, calls, processes)
    }
}

/// Calls of so many processes, which wait. One comes each `pause` milliseconds. Nothing fails.
fn undisturbed(seed: u64, processes: usize, pause: u64) -> Plan {
    let dice = &mut Dice::new(seed, 11);
    let keys = exports(600, 2);
    let calls = (0..CALLS).map(|number| CallPlan {
        key: 0,
        slot: number % processes,
        starts: number as u64 * pause + dice.within(0, pause),
        wait: Some(60_000),
        steps: vec![0, dice.within(10, 60), 0],
        ends: BodyEnds::Success,
        frozen: None,
        on_cancel: OnCancel::Keep,
        ..CallPlan::drawn(dice, &keys, processes, 1, false, false)
    });
    let calls = calls.collect();
    let message_faults = MessageFaults {
        slowest: 4,
        ..MessageFaults::default()
    };
    plan(message_faults, 1000, keys, calls, processes)
}

fn plan(
    message_faults: MessageFaults,
    deadline: u64,
    keys: Vec<KeyPlan>,
    calls: Vec<CallPlan>,
    processes: usize,
) -> Plan {
    Plan {
        message_faults,
        deadline,
        keys,
        calls,
        redemptions: Vec::new(),
        tokens: Vec::new(),
        incidents: Vec::new(),
        ahead: vec![0; processes],
        batches: None,
    }
}

/// The key of all calls, and one for each of its other slots.
fn exports(lease: u64, permits: u32) -> Vec<KeyPlan> {
    let key = KeyPlan {
        release: Release::Always,
        ttl: lease,
        lease,
        renew: Renew::Yes,
        replay: false,
        on_lease_lost: OnLeaseLost::Stop,
        payloads: false,
        fence: false,
        permits: Some(permits),
    };
    vec![key; 3]
}

/// The most bodies at once, from the first poll of each to its last. No call is answered as a duplicate of another.
fn check(plan: &Plan, history: &[Event]) -> Result<usize, Broken> {
    let mut polls = BTreeMap::new();
    for (number, event) in history.iter().enumerate() {
        if let Kind::BodyPolled { call, .. } = event.kind {
            let (_, last) = polls.entry(call.0).or_insert((number, number));
            *last = number;
        }
        if let Kind::Returned {
            call,
            returned: Returned::InProgress,
        } = event.kind
        {
            return Err(Broken {
                promise: TRUE_ANSWER,
                at: event.at,
                key: None,
                by: vec![call],
            });
        }
    }
    let mut most = 0;
    let permits = plan.keys[0].permits.unwrap_or(1) as usize;
    for (begun, _) in polls.values() {
        let running = polls
            .iter()
            .filter(|(_, (first, last))| first <= begun && begun <= last);
        let by: Vec<_> = running.map(|(call, _)| CallId(*call)).collect();
        most = most.max(by.len());
        if by.len() > permits {
            return Err(Broken {
                promise: ONE_BODY,
                at: history[*begun].at,
                key: None,
                by,
            });
        }
    }
    Ok(most)
}

/// How many calls got the value of their own body.
fn successes(history: &[Event]) -> usize {
    let is_success = |event: &&Event| matches!(event.kind, Kind::Returned { call, returned } if returned == Returned::Value(call));
    history.iter().filter(is_success).count()
}

/// The most calls that were made after a call and began before it.
fn most_overtaken(history: &[Event]) -> usize {
    let mut made = Vec::new();
    let mut waiting: BTreeMap<usize, usize> = BTreeMap::new();
    let mut most = 0;
    for event in history {
        match event.kind {
            Kind::Made { call, .. } => {
                waiting.insert(call.0, 0);
                made.push(call.0);
            }
            Kind::BodyPolled { call, first: true } => {
                most = most.max(waiting.remove(&call.0).unwrap_or_default());
                let place = |one: usize| made.iter().position(|other| *other == one);
                for (other, overtaken) in &mut waiting {
                    *overtaken += usize::from(place(*other) < place(call.0));
                }
            }
            _ => {}
        }
    }
    most
}

#[test]
fn no_more_bodies_than_permits_run_at_once_whatever_fails() {
    let (mut full, mut values) = (0, 0);
    for seed in 0..SEEDS {
        let plan = disturbed(seed);
        let (history, end) = simulate(&plan, seed, None);
        let most = check(&plan, &history).unwrap_or_else(|broken| panic!("{seed}: {broken:?}"));
        end.unwrap_or_else(|broken| panic!("{seed}: {broken:?}"));
        full += usize::from(most == plan.keys[0].permits.unwrap_or(1) as usize);
        values += successes(&history);
    }
    assert!(full > 300 && values > 1000, "{full} full, {values} values");
    for mutant in [
        Mutant::LooksThenPuts,
        Mutant::AnyIsTaken,
        Mutant::BodyNotStopped,
        Mutant::RemovesUnowned,
        Mutant::InEngine(Mutation::DeadlineFromReply),
        Mutant::InEngine(Mutation::EqualByOneKey),
    ] {
        let is_found = |seed| {
            let plan = disturbed(seed);
            let (history, _) = simulate(&plan, seed, Some(mutant));
            check(&plan, &history).is_err()
        };
        assert!((0..SEEDS).any(is_found), "{mutant:?} is not found");
    }
}

/// Runs six calls of one process with two permits, of which one is changed. The others must run, and none may wait until the line finds
/// that its first call is gone. Returns whether the changed call was dropped.
fn others_run(seed: u64, number: usize, change: impl FnOnce(&mut CallPlan)) -> bool {
    let mut plan = undisturbed(seed, 1, 2);
    plan.calls.truncate(6);
    change(&mut plan.calls[number]);
    let (history, end) = simulate(&plan, seed, None);
    let broken = check(&plan, &history).and(end).err();
    assert!(broken.is_none(), "{seed}, {number}: {broken:?}");
    let changed = CallId(number);
    let ran = |event: &&Event| matches!(event.kind, Kind::BodyPolled { call, first: true } if call != changed);
    let ran: Vec<_> = history.iter().filter(ran).map(|event| event.at).collect();
    assert_eq!(ran.len(), 5, "{seed}, {number}");
    assert!(ran[4] < 1500, "{seed}, {number}: {ran:?}");
    let dropped = Kind::Dropped { call: changed };
    history.iter().any(|event| event.kind == dropped)
}

#[test]
fn a_waiting_call_that_is_dropped_at_any_poll_or_gives_up_at_any_time_leaves_no_gap() {
    let mut dropped = 0;
    for (seed, number) in (0..20).flat_map(|seed| (0..6).map(move |number| (seed, number))) {
        let drop_at = |at| others_run(seed, number, |call| call.dropped_at_poll = Some(at));
        dropped += (1..1000).take_while(|at| drop_at(*at)).count();
    }
    assert!(dropped > 500, "{dropped}");
    for number in [2, 3, 5] {
        for wait in 1..250 {
            others_run(wait, number, |call| call.wait = Some(wait));
        }
    }
}

/// The most calls that overtook a call, of many runs in which all calls get a permit.
fn most_overtaken_of_runs(processes: usize, pause: u64, mutant: Option<Mutant>) -> usize {
    let most = (0..50).map(|seed| {
        let plan = undisturbed(seed, processes, pause);
        let (history, end) = simulate(&plan, seed, mutant);
        let at_once = check(&plan, &history).unwrap_or_else(|broken| panic!("{seed}: {broken:?}"));
        end.unwrap_or_else(|broken| panic!("{seed}: {broken:?}"));
        assert_eq!((at_once, successes(&history)), (2, CALLS), "{seed}");
        most_overtaken(&history)
    });
    most.max().unwrap_or_default()
}

#[test]
fn no_later_call_of_its_process_overtakes_a_call_that_waits() {
    for pause in [10, 20, 50] {
        // Two calls that are made within one round trip may get their answers in the other order.
        let most = most_overtaken_of_runs(1, pause, None);
        assert!(most <= 1, "{pause}: {most}");
    }
}

#[test]
fn a_bounded_number_of_calls_of_other_processes_overtakes_a_call_that_waits_in_overload() {
    for pause in [10, 20] {
        let without = most_overtaken_of_runs(1, pause, Some(WITHOUT_LINE));
        for (processes, bound) in [(2, 36), (4, 54), (8, 68)] {
            let most = most_overtaken_of_runs(processes, pause, None);
            assert!(most <= bound, "{processes}, {pause}: {most}");
            assert!(without > bound, "without lines: {without}");
        }
    }
}

#[test]
fn few_later_calls_overtake_a_call_that_waits_while_the_permits_keep_up() {
    let most = most_overtaken_of_runs(3, 50, None);
    assert!((1..=CALLS / 8).contains(&most), "{most}");
}

const WITHOUT_LINE: Mutant = Mutant::InEngine(Mutation::KeepsNoLine);
const SEEDS: u64 = 1000;
const CALLS: usize = 96;
