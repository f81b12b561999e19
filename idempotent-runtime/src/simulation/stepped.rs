//! Calls with three steps: a step that is recorded does not run again, and no other step is skipped.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::Mutant;
use super::call_plan::{BodyEnds, CallPlan, KeyPlan};
use super::caller::{Caller, Failed, Outcome};
use super::dice::Dice;
use super::history::{CallId, Event, Kind};
use super::incidents::Incident;
use super::knobs::{MessageFaults, Plan};
use super::promise::{Broken, STEP_KEPT, STEP_RUNS};
use super::run::{Run, simulate};
use crate::mutation::Mutation;
use crate::policy::{OnLeaseLost, Release, Renew};
use crate::private::{AnyIntent, IdempotencyContext};

/// Runs of one call in several processes, whose messages are late and lost, and which are dropped, frozen, paused and crash.
fn plan(seed: u64) -> Plan {
    let dice = &mut Dice::new(seed, 10);
    let lease = dice.pick(&[300, 600]);
    // The success expires while calls are still made.
    let ttl = lease + dice.pick(&[0, 500, 1500]);
    let (lasts, slots) = (dice.pick(&[1000, 3000, 5000]), dice.pick(&[2, 3]));
    let keys = vec![KeyPlan {
        release: Release::OnError,
        ttl,
        lease,
        renew: Renew::Yes,
        replay: false,
        on_lease_lost: dice.pick(&[OnLeaseLost::Continue, OnLeaseLost::Stop]),
        payloads: false,
        fence: false,
        permits: None,
    }];
    let impatient = dice.chance(300);
    let calls = (0..dice.within(5, 14)).map(|_| CallPlan {
        built: true,
        finishes: false,
        has_steps: true,
        ends: dice.pick(&[BodyEnds::Success, BodyEnds::Failure, BodyEnds::Panic]),
        steps: (0..3)
            .map(|_| dice.pick(&[1, 20, lease / 2, lease]))
            .collect(),
        ..CallPlan::drawn(dice, &keys, slots, lasts, impatient, false)
    });
    let calls = calls.collect();
    let deadline = dice.pick(&[100, 250]);
    let message_faults = MessageFaults {
        // A request comes once, and before its run ends.
        repeats: 0,
        straggles: 0,
        is_full: 0,
        slowest: dice.pick(&[0, 3, 20]),
        ..MessageFaults::drawn(dice, false, deadline, lease)
    };
    let mut incidents = Incident::drawn(dice, false, slots, 1, lasts, lease);
    for slot in 0..slots {
        let lasts = dice.within(lease, 4 * lease);
        incidents.push((dice.within(0, 3000), Incident::Pause { slot, lasts }));
    }
    // These are excuses for two bodies.
    incidents.retain(|(_, incident)| {
        !matches!(
            incident,
            Incident::Free { .. }
                | Incident::Evict { .. }
                | Incident::ForgetAll
                | Incident::Full { .. }
                | Incident::Step { .. }
        )
    });
    Plan {
        message_faults,
        deadline,
        keys,
        calls,
        redemptions: Vec::new(),
        tokens: Vec::new(),
        incidents,
        ahead: vec![0; slots],
        batches: None,
    }
}

impl Caller {
    /// A body with three steps. Each returns the number of the call that has run it.
    pub(super) async fn stepped(self, cx: IdempotencyContext<AnyIntent>) -> Outcome {
        let call = self.call;
        // Some bodies end sooner.
        let ends_after = (call.0 % 5).max(usize::from(self.plan.ends != BodyEnds::Success));
        for (step, name) in ["flight", "hotel", "car"].into_iter().enumerate() {
            if step == ends_after {
                break;
            }
            let takes = Duration::from_millis(self.plan.steps[step]);
            let ran = cx.step(name, async || {
                self.note(Kind::StepBegan { call, step });
                sleep(takes).await;
                Ok::<_, Failed>(call.0)
            });
            let of = CallId(ran.await?);
            self.note(Kind::StepReturned { call, step, of });
        }
        self.ends()
    }
}

/// What is known of a call.
#[derive(Default)]
struct Seen {
    began: u64,
    /// When each of its steps began.
    steps: BTreeMap<usize, u64>,
    /// When it learned that a step is recorded.
    recorded: BTreeMap<usize, u64>,
}

/// Checks that no step which was recorded before a run began runs again in it, and that each skipped step has run since the last success.
fn check(plan: &Plan, history: &[Event]) -> Result<Counts, Broken> {
    let mut counts = Counts::default();
    let mut calls = BTreeMap::<usize, Seen>::new();
    let mut successes = Vec::new();
    for event in history {
        let at = event.at;
        let broken = |promise, by| {
            Err(Broken {
                promise,
                at,
                key: None,
                by,
            })
        };
        match event.kind {
            Kind::BodyPolled { call, first: true } => calls.entry(call.0).or_default().began = at,
            Kind::Put { done: true, .. } => successes.push(at),
            Kind::StepBegan { call, step } => {
                counts.ran += 1;
                let run = calls.entry(call.0).or_default();
                run.steps.insert(step, at);
                let began = run.began;
                let keeps = |(of, seen): &(&usize, &Seen)| {
                    seen.recorded.get(&step).is_some_and(|recorded| {
                        let voids = |success: &u64| success >= recorded;
                        // The record may have been stored with the first send, whose answer was lost.
                        let sent = seen.steps[&step] + plan.calls[**of].steps[step];
                        *recorded < began
                            && at < sent + plan.keys[0].ttl
                            && !successes.iter().any(voids)
                    })
                };
                if let Some((other, _)) = calls.iter().find(keeps) {
                    return broken(STEP_KEPT, vec![call, CallId(*other)]);
                }
            }
            Kind::StepReturned { call, step, of } if call == of => {
                calls.entry(call.0).or_default().recorded.insert(step, at);
            }
            Kind::StepReturned { call, step, of } => {
                counts.skipped += 1;
                let began = calls.entry(call.0).or_default().began;
                let did = calls.entry(of.0).or_default();
                // A run that ended before it learned of its record may have ended before it looked at its key.
                let is_excused = !did.recorded.contains_key(&step);
                let voids = |success: &u64| did.began <= *success && *success < began;
                let is_old = successes.iter().any(voids) && !is_excused;
                if is_old || !did.steps.contains_key(&step) {
                    return broken(STEP_RUNS, vec![call, of]);
                }
            }
            _ => {}
        }
    }
    counts.successes = successes.len();
    Ok(counts)
}

#[derive(Default)]
struct Counts {
    ran: usize,
    skipped: usize,
    successes: usize,
}

/// Runs seeds until a promise is broken. Returns that run, else counts what happened.
fn run_seeds(mutant: Option<Mutant>) -> Result<Counts, Box<Run>> {
    let mut all = Counts::default();
    for seed in 0..SEEDS {
        let plan = plan(seed);
        let (history, end) = simulate(&plan, seed, mutant);
        match check(&plan, &history).and_then(|counts| end.map(|()| counts)) {
            Ok(counts) => {
                all.ran += counts.ran;
                all.skipped += counts.skipped;
                all.successes += counts.successes;
            }
            Err(broken) => {
                return Err(Box::new(Run {
                    seed,
                    plan,
                    history,
                    broken: Some(broken),
                }));
            }
        }
    }
    Ok(all)
}

#[test]
fn no_recorded_step_runs_again_and_no_other_is_skipped_whatever_fails() {
    let Counts {
        ran,
        skipped,
        successes,
    } = match run_seeds(None) {
        Ok(counts) => counts,
        Err(run) => panic!("{}", run.report()),
    };
    assert!(
        ran > 3000 && skipped > 800 && successes > 500,
        "{ran} ran, {skipped} skipped, {successes} successes"
    );
    for mistake in [
        Mutation::NeverReads,
        Mutation::SkipsNext,
        Mutation::RecordsUnchecked,
        Mutation::RemovesAfterError,
    ] {
        let found = run_seeds(Some(Mutant::InEngine(mistake))).is_err();
        assert!(found, "the test does not find {mistake:?}");
    }
}

const SEEDS: u64 = 1000;
