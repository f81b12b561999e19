//! Calls with permits: at most so many bodies of a key run at once.

use std::collections::BTreeMap;

use super::Mutant;
use super::call_plan::{BodyEnds, CallPlan, KeyPlan};
use super::dice::Dice;
use super::history::{Event, Kind, Returned};
use super::incidents::Incident;
use super::knobs::{MessageFaults, Plan};
use super::promise::{Broken, ONE_BODY};
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

/// Calls of three processes, which wait. One comes each `pause` milliseconds. Nothing fails.
fn undisturbed(seed: u64, pause: u64) -> Plan {
    let dice = &mut Dice::new(seed, 11);
    let keys = exports(600, 2);
    let calls = (0..CALLS).map(|number| CallPlan {
        key: 0,
        slot: number % 3,
        starts: number as u64 * pause + dice.within(0, pause),
        wait: Some(60_000),
        steps: vec![0, dice.within(10, 60), 0],
        ends: BodyEnds::Success,
        frozen: None,
        on_cancel: OnCancel::Keep,
        ..CallPlan::drawn(dice, &keys, 3, 1, false, false)
    });
    let calls = calls.collect();
    let message_faults = MessageFaults {
        slowest: 4,
        ..MessageFaults::default()
    };
    plan(message_faults, 1000, keys, calls, 3)
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

/// The most bodies at once, from the first poll of each to its last.
fn check(plan: &Plan, history: &[Event]) -> Result<usize, Broken> {
    let mut polls = BTreeMap::new();
    for (number, event) in history.iter().enumerate() {
        if let Kind::BodyPolled { call, .. } = event.kind {
            let (_, last) = polls.entry(call.0).or_insert((number, number));
            *last = number;
        }
    }
    let mut most = 0;
    let permits = plan.keys[0].permits.unwrap_or(1) as usize;
    for (begun, _) in polls.values() {
        let running = polls
            .iter()
            .filter(|(_, (first, last))| first <= begun && begun <= last);
        let by: Vec<_> = running
            .map(|(call, _)| super::history::CallId(*call))
            .collect();
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
    ] {
        let is_found = |seed| {
            let plan = disturbed(seed);
            let (history, _) = simulate(&plan, seed, Some(mutant));
            check(&plan, &history).is_err()
        };
        assert!((0..SEEDS).any(is_found), "{mutant:?} is not found");
    }
}

/// The most calls that overtook a call, of many runs in which all calls get a permit.
fn most_overtaken_of_runs(pause: u64) -> usize {
    let most = (0..50).map(|seed| {
        let plan = undisturbed(seed, pause);
        let (history, end) = simulate(&plan, seed, None);
        let at_once = check(&plan, &history).unwrap_or_else(|broken| panic!("{seed}: {broken:?}"));
        end.unwrap_or_else(|broken| panic!("{seed}: {broken:?}"));
        assert_eq!((at_once, successes(&history)), (2, CALLS), "{seed}");
        most_overtaken(&history)
    });
    most.max().unwrap_or_default()
}

#[test]
fn every_call_that_waits_gets_a_permit_in_the_end_if_too_many_calls_come() {
    let most = most_overtaken_of_runs(20);
    assert!(most > CALLS / 2, "they have an order now: {most}");
}

#[test]
fn few_later_calls_overtake_a_call_that_waits_while_the_permits_keep_up() {
    let most = most_overtaken_of_runs(50);
    assert!((1..=CALLS / 4).contains(&most), "{most}");
}

const SEEDS: u64 = 1000;
const CALLS: usize = 96;
