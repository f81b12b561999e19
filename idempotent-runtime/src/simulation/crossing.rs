//! Calls with two keys, which cross: a transfer from one account to another, and one back.

use std::collections::BTreeMap;

use super::Mutant;
use super::call_plan::{BodyEnds, CallPlan, KeyPlan};
use super::dice::Dice;
use super::history::{CallId, Event, Kind, Returned};
use super::incidents::Incident;
use super::knobs::{MessageFaults, Plan};
use super::promise::{Broken, OVERTAKEN, TRUE_ANSWER};
use super::run::{Run, simulate};
use crate::mutation::Mutation;
use crate::policy::{OnLeaseLost, Release, Renew};

/// Calls of several processes, whose messages are late, lost and repeated, and which are dropped, frozen and crash.
fn disturbed(seed: u64) -> Plan {
    let dice = &mut Dice::new(seed, 8);
    let (lasts, slots) = (dice.pick(&[20, 1000, 3000]), dice.pick(&[1, 2, 3]));
    let keys = vec![account(dice.pick(&[300, 600])); ACCOUNTS];
    let lease = keys[0].lease;
    let impatient = dice.chance(500);
    let calls = (0..dice.within(3, 8)).map(|_| CallPlan {
        // Mostly two keys.
        also: dice.chance(800).then_some(dice.pick(&[0, 1, 2])),
        ..CallPlan::drawn(dice, &keys, slots, lasts, impatient, false)
    });
    let calls = calls.collect();
    let deadline = dice.pick(&[100, 250, 500]);
    let message_faults = MessageFaults::drawn(dice, false, deadline, lease);
    let mut incidents = Incident::drawn(dice, false, slots, ACCOUNTS, lasts, lease);
    // These are excuses for two bodies.
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
        calls,
        incidents,
        ahead: vec![0; slots],
        ..plan(message_faults, deadline, keys)
    }
}

/// Two crossing calls of two processes, which begin at once. Nothing fails.
fn undisturbed(seed: u64, wait: Option<u64>) -> Plan {
    let dice = &mut Dice::new(seed, 9);
    let keys = vec![account(600); ACCOUNTS];
    let mut transfer = |from, to| CallPlan {
        key: from,
        also: Some(to),
        slot: from,
        starts: 10,
        wait,
        steps: vec![0, 50, 0],
        ends: BodyEnds::Success,
        frozen: None,
        ..CallPlan::drawn(dice, &keys, 1, 1, false, false)
    };
    let calls = vec![transfer(0, 1), transfer(1, 0)];
    let message_faults = MessageFaults {
        slowest: 4,
        ..MessageFaults::default()
    };
    Plan {
        calls,
        ahead: vec![0; 2],
        ..plan(message_faults, 1000, keys)
    }
}

fn plan(message_faults: MessageFaults, deadline: u64, keys: Vec<KeyPlan>) -> Plan {
    Plan {
        message_faults,
        deadline,
        keys,
        calls: Vec::new(),
        redemptions: Vec::new(),
        tokens: Vec::new(),
        incidents: Vec::new(),
        ahead: Vec::new(),
        batches: None,
    }
}

fn account(lease: u64) -> KeyPlan {
    KeyPlan {
        release: Release::Always,
        ttl: lease,
        lease,
        renew: Renew::Yes,
        replay: false,
        on_lease_lost: OnLeaseLost::Stop,
        payloads: false,
        fence: false,
        permits: None,
    }
}

/// Checks that no body is polled after a body that shares an account with it has begun.
fn check(plan: &Plan, history: &[Event]) -> Result<(), Broken> {
    let accounts = |call: CallId| {
        let plan = &plan.calls[call.0];
        [Some(plan.key), plan.also.or(Some(plan.key))]
    };
    let mut began = BTreeMap::new();
    for event in history {
        let Kind::BodyPolled { call, first } = event.kind else {
            continue;
        };
        if first {
            began.insert(call.0, began.len());
        }
        let shares = |other: &usize| {
            accounts(CallId(*other))
                .iter()
                .any(|one| accounts(call).contains(one))
        };
        let later = began
            .iter()
            .find(|(other, at)| **at > began[&call.0] && shares(other));
        if let Some((other, _)) = later {
            return Err(Broken {
                promise: OVERTAKEN,
                at: event.at,
                key: None,
                by: vec![call, CallId(*other)],
            });
        }
    }
    Ok(())
}

/// Checks that a call was answered as a duplicate only if an equal call, with the same keys, had not returned long before it was made.
fn check_duplicates(plan: &Plan, history: &[Event]) -> Result<(), Broken> {
    let keys = |call: usize| (plan.calls[call].key, plan.calls[call].also);
    // The records of a call that has returned live for a lease and its grace if nobody removes them.
    let left = plan.keys[0].lease + GRACE + plan.deadline;
    // When each call was made, and until when its records may be left.
    let mut made = BTreeMap::new();
    for event in history {
        match event.kind {
            Kind::Made { call, .. } => {
                made.insert(call.0, (event.at, u64::MAX));
            }
            Kind::Returned { call, returned } => {
                let begun = made[&call.0].0;
                let is_equal = |(other, (_, until)): (&usize, &(u64, u64))| {
                    *other != call.0 && keys(*other) == keys(call.0) && begun <= *until
                };
                if returned == Returned::InProgress && !made.iter().any(is_equal) {
                    return Err(Broken {
                        promise: TRUE_ANSWER,
                        at: event.at,
                        key: None,
                        by: vec![call],
                    });
                }
                made.insert(call.0, (begun, event.at + left));
            }
            _ => {}
        }
    }
    Ok(())
}

/// How many calls got this answer.
fn answers(history: &[Event], answer: Returned) -> usize {
    let is_it = |event: &&Event| matches!(event.kind, Kind::Returned { returned, .. } if returned == answer);
    history.iter().filter(is_it).count()
}

/// How many calls got the value of their own body.
fn successes(history: &[Event]) -> usize {
    let is_success = |event: &&Event| matches!(event.kind, Kind::Returned { call, returned } if returned == Returned::Value(call));
    history.iter().filter(is_success).count()
}

/// Runs seeds until a promise is broken. Returns that run, else counts bodies and successes.
fn run_disturbed() -> Result<(usize, usize), Box<Run>> {
    let (mut bodies, mut values) = (0, 0);
    for seed in 0..SEEDS {
        let plan = disturbed(seed);
        let (history, end) = simulate(&plan, seed, None);
        let first = |event: &&Event| matches!(event.kind, Kind::BodyPolled { first: true, .. });
        bodies += history.iter().filter(first).count();
        values += successes(&history);
        if let Err(broken) = check(&plan, &history).and(end) {
            return Err(Box::new(Run {
                seed,
                plan,
                history,
                broken: Some(broken),
            }));
        }
    }
    Ok((bodies, values))
}

#[test]
fn no_two_bodies_share_a_key_of_several_whatever_fails() {
    match run_disturbed() {
        Ok((bodies, values)) => {
            assert!(
                bodies > 500 && values > 250,
                "{bodies} bodies, {values} values"
            );
        }
        Err(run) => panic!("{}", run.report()),
    }
    let overtakes = |seed| {
        let plan = disturbed(seed);
        let (history, _) = simulate(&plan, seed, Some(Mutant::InEngine(Mutation::OneLease)));
        check(&plan, &history).is_err()
    };
    assert!((0..SEEDS).any(overtakes), "the mutant is not found");
}

#[test]
fn a_call_that_only_shares_a_key_with_the_holder_is_no_duplicate_whatever_fails() {
    let mut counts = [0, 0];
    for seed in 0..SEEDS {
        let plan = disturbed(seed);
        let (history, _) = simulate(&plan, seed, None);
        let checked = check_duplicates(&plan, &history);
        checked.unwrap_or_else(|broken| panic!("{seed}: {broken}"));
        counts[0] += answers(&history, Returned::InProgress);
        counts[1] += answers(&history, Returned::InUse);
    }
    let [equal, in_use] = counts;
    assert!(equal > 50 && in_use > 200, "{equal} equal, {in_use} in use");
    let is_found = |seed| {
        let plan = disturbed(seed);
        let mutant = Some(Mutant::InEngine(Mutation::EqualByOneKey));
        let (history, _) = simulate(&plan, seed, mutant);
        check_duplicates(&plan, &history).is_err()
    };
    assert!((0..SEEDS).any(is_found), "the mutant is not found");
}

#[test]
fn of_two_crossing_calls_one_runs_and_both_if_they_wait() {
    for (wait, all) in [(None, 1), (Some(3000), 2)] {
        let all_run = |mutant| {
            (0..100).all(|seed| {
                let plan = undisturbed(seed, wait);
                let (history, end) = simulate(&plan, seed, mutant);
                check(&plan, &history).and(end).is_ok() && successes(&history) >= all
            })
        };
        assert!(all_run(None), "wait {wait:?}");
        assert!(
            !all_run(Some(Mutant::InEngine(Mutation::OrderOfCaller))),
            "the mutant is not found, wait {wait:?}"
        );
    }
}

const SEEDS: u64 = 1000;
/// The grace of the shortest leases.
pub(super) const GRACE: u64 = 250;
const ACCOUNTS: usize = 3;
