//! Calls that are dropped at each of their polls and in each millisecond, while their operations are in batches with the
//! operations of other calls.

use super::Mutant;
use super::batching::BatchPlan;
use super::call_plan::{BodyEnds, CallPlan, KeyPlan};
use super::count::Counts;
use super::history::{CallId, Kind, Returned};
use super::knobs::{MessageFaults, Plan};
use super::promise::Broken;
use super::run::{Run, run_plan};
use crate::batch::Limits;
use crate::mutation::Mutation;
use crate::policy::{OnCancel, OnLeaseLost, OnStoreError, Release, Renew, Settle};

/// When the first call is dropped.
#[derive(Clone, Copy)]
enum Drop {
    AtPoll,
    AfterMillis,
    /// The first call begins a moment after the others, so that its claim waits for their batch.
    LateAfterMillis,
}

/// The first call, which is dropped, has its own key. The others have a key each, and begin at the same time or a moment before.
fn plan(release: Release, variant: usize, (drop, at): (Drop, u32)) -> Plan {
    let key = KeyPlan {
        release,
        ttl: 600,
        lease: 600,
        renew: Renew::Yes,
        replay: release != Release::Always && variant & 1 == 0,
        on_lease_lost: OnLeaseLost::Stop,
        payloads: false,
        fence: false,
        permits: None,
    };
    let call = |key| CallPlan {
        key,
        also: None,
        has_steps: false,
        token: None,
        payload: None,
        starts: 10,
        slot: 0,
        built: variant & 2 == 0,
        wait: None,
        on_cancel: if variant & 4 == 0 {
            OnCancel::Keep
        } else {
            OnCancel::Release
        },
        finishes: variant & 8 == 0,
        on_store_error: OnStoreError::Refuse,
        settle: if variant & 32 == 0 {
            Settle::Await
        } else {
            Settle::Background
        },
        steps: vec![0, 5, 0],
        ends: if variant & 16 == 0 {
            BodyEnds::Success
        } else {
            BodyEnds::Failure
        },
        dropped_at_poll: None,
        dropped_after: None,
        frozen: None,
    };
    // The last call has the key of the first call, and begins after the drop.
    let mut calls = [0, 1, 2, 0].map(call);
    calls[3].starts = 60;
    match drop {
        Drop::AtPoll => calls[0].dropped_at_poll = Some(at),
        Drop::AfterMillis => calls[0].dropped_after = Some(at.into()),
        Drop::LateAfterMillis => {
            calls[0].starts += 1;
            calls[0].dropped_after = Some(at.into());
        }
    }
    let limits = Limits {
        inline: 0,
        in_flight: 1,
        ..Limits::default()
    };
    Plan {
        message_faults: MessageFaults {
            slowest: 4,
            ..MessageFaults::default()
        },
        deadline: 1000,
        keys: vec![key; 3],
        calls: calls.into(),
        incidents: Vec::new(),
        ahead: vec![0],
        batches: Some(BatchPlan {
            limits,
            cuts: 0,
            flushes: 0,
            mixes_renewals: true,
        }),
        redemptions: Vec::new(),
        tokens: Vec::new(),
    }
}

/// Runs every policy and outcome with every drop. Returns the first run that breaks a promise.
fn run_all(mutant: Option<Mutant>, counts: &mut Counts) -> Option<Run> {
    for release in [Release::OnError, Release::Always, Release::Never] {
        for variant in 0..64 {
            for drop in [Drop::AtPoll, Drop::AfterMillis, Drop::LateAfterMillis] {
                for at in 1.. {
                    let plan = plan(release, variant, (drop, at));
                    let run = checked(run_plan(plan, at.into(), mutant, counts));
                    if run.broken.is_some() {
                        return Some(run);
                    }
                    let dropped = Kind::Dropped { call: CallId(0) };
                    if !run.history.iter().any(|event| event.kind == dropped) {
                        // The call had ended before.
                        break;
                    }
                }
            }
        }
    }
    None
}

fn checked(mut run: Run) -> Run {
    if run.broken.is_none() && !others_are_answered(&run) {
        run.broken = Some(Broken {
            promise: OTHERS,
            at: 0,
            key: None,
            by: vec![CallId(0)],
        });
    }
    run
}

const OTHERS: &str = "the other calls of a batch get their answers";

fn others_are_answered(run: &Run) -> bool {
    [1, 2].into_iter().map(CallId).all(|other| {
        let answer = run.history.iter().find_map(|event| match event.kind {
            Kind::Returned { call, returned } if call == other => Some(returned),
            _ => None,
        });
        let expected = match run.plan.calls[other.0].ends {
            BodyEnds::Success => Returned::Value(other),
            _ => Returned::BodyFailed,
        };
        answer == Some(expected)
    })
}

#[test]
fn a_drop_at_any_time_changes_nothing_for_the_other_calls_of_a_batch() {
    let mut counts = Counts::default();
    if let Some(run) = run_all(None, &mut counts) {
        panic!("{}", run.report());
    }
    for (what, least) in [
        ("calls dropped", 1000),
        ("batches", 1000),
        ("operations withdrawn", 100),
    ] {
        let count = counts.get(what);
        assert!(count >= least, "only {count} of {least} {what}:\n{counts}");
    }
}

#[test]
fn a_broken_engine_is_found_by_drops() {
    for mistake in [Mutation::SendsDropped, Mutation::DropsBatchWithCaller] {
        let broken = run_all(Some(Mutant::InEngine(mistake)), &mut Counts::default());
        assert!(broken.is_some(), "{mistake:?}");
    }
}
