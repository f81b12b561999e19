//! One run, from the first call to the expiry of the last record.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Once};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{sleep_until, timeout};

use super::Mutant;
use super::caller::Caller;
use super::check;
use super::count::Counts;
use super::dice::Dice;
use super::fenced;
use super::history::{CallId, Event, Kind, OPERATOR};
use super::in_batches;
use super::incidents::Incident;
use super::knobs::Plan;
use super::link::{ENDPOINT, NAMES};
use super::net::{KEYS, Net};
use super::promise::{Broken, DRAINED, ENDS, EXPIRES, FREE, NO_PANIC, NO_TASK, USABLE};
use super::redemptions;
use super::remembered;
use super::slots::Slots;
use super::source::{self, Polled, as_polled};
use super::tokens::{self, OPERATION, SUBJECT};
use crate::batch::tests::end_tasks;
use crate::policy::{Policy, Release};
use crate::private::{Call, Endpoint};

/// The result of a run.
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) plan: Plan,
    pub(super) history: Vec<Event>,
    pub(super) broken: Option<Broken>,
}

/// Runs a seed. Only the seed decides what happens.
pub(super) fn run(seed: u64, mutant: Option<Mutant>, counts: &mut Counts) -> Run {
    run_plan(Plan::from_seed(seed), seed, mutant, counts)
}

/// Runs a plan. Only the plan and the seed decide what happens.
pub(super) fn run_plan(plan: Plan, seed: u64, mutant: Option<Mutant>, counts: &mut Counts) -> Run {
    let (history, end) = simulate(&plan, seed, mutant);
    for _ in &plan.calls {
        counts.add("calls planned");
    }
    let excuses = mutant != Some(Mutant::LosesRecords);
    let broken = check::check(&plan, &history, excuses, counts)
        .and_then(|()| in_batches::check(&plan, &history, counts))
        .and_then(|()| redemptions::check(&plan, &history, counts))
        .and_then(|()| fenced::check(&plan, &history, counts))
        .and_then(|()| remembered::check(&plan, &history))
        .and(end);
    Run {
        seed,
        broken: broken.err(),
        history,
        plan,
    }
}

/// What happens in a plan, and the promise that was broken at its end.
pub(super) fn simulate(
    plan: &Plan,
    seed: u64,
    mutant: Option<Mutant>,
) -> (Vec<Event>, Result<(), Broken>) {
    PANICKED.set(false);
    LazyLock::force(&NAMES);
    static HOOK: Once = Once::new();
    HOOK.call_once(note_panics);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime with paused time can always be built");
    let (history, end) = {
        let _inside = runtime.enter();
        let _simulated = source::begin(Dice::new(seed, 3), plan.ahead.clone(), mutant);
        let net = Net::new(plan.clone(), seed, mutant);
        let end = runtime.block_on(async {
            let lives = live(Arc::clone(&net));
            timeout(LONGEST_RUN, lives).await.unwrap_or(Err(ENDS))
        });
        (net.history(), end)
    };
    drop(runtime);
    let end = if PANICKED.get() { Err(NO_PANIC) } else { end };
    let end = end.map_err(|promise| Broken {
        promise,
        at: 0,
        key: None,
        by: Vec::new(),
    });
    (history, end)
}

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Notes panics, which tasks and the scheduler catch. The planned panics of bodies bypass the hook.
fn note_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICKED.set(true);
        before(panic);
    }));
}

async fn live(net: Arc<Net>) -> Result<(), &'static str> {
    let slots = Arc::new(Slots::new(&net));
    for slot in 0..net.plan.ahead.len() {
        slots.start(slot);
    }
    let messages = {
        let net = Arc::clone(&net);
        tokio::spawn(async move { net.run().await })
    };
    let calls: Vec<_> = (0..net.plan.calls.len() + net.plan.redemptions.len())
        .map(|call| tokio::spawn(call_of(Arc::clone(&slots), CallId(call))))
        .collect();
    let incidents: Vec<_> = net
        .plan
        .incidents
        .iter()
        .map(|(at, incident)| tokio::spawn(run_incident(Arc::clone(&slots), *at, *incident)))
        .collect();
    for task in calls.into_iter().chain(incidents) {
        if let Err(failed) = task.await
            && failed.is_panic()
        {
            std::panic::resume_unwind(failed.into_panic());
        }
    }

    net.heal();
    let all = slots.take_all();
    for idempotency in all {
        idempotency
            .drain(LONGEST_DRAIN)
            .await
            .map_err(|_| DRAINED)?;
    }
    let longest = net
        .plan
        .keys
        .iter()
        .map(|key| key.ttl.max(key.expiry()))
        .max()
        .unwrap_or_default();
    // A message in flight may still store a record.
    while !net.idle() {
        sleep_until(net.at(net.now() + 100)).await;
    }
    if !net.immortal().is_empty() {
        return Err(EXPIRES);
    }
    let stepped = net
        .plan
        .incidents
        .iter()
        .any(|(_, incident)| matches!(incident, Incident::Step { .. }));
    let jump = if stepped { 3 * longest } else { 0 };
    let free_at = net.empty_at();
    if free_at > net.now() + longest + jump {
        return Err(FREE);
    }
    sleep_until(net.at(free_at + 1)).await;
    probe(&slots).await?;
    drop(slots);
    if net.plan.batches.is_some() {
        // A batch waits as long as its callers, and a renewal that nobody needs any more waits until its lease has ended.
        sleep_until(net.at(net.now() + longest)).await;
    }
    messages.abort();
    let _ = messages.await;
    // Only the driver of the scheduler remains.
    match Handle::current().metrics().num_alive_tasks() {
        0 | 1 => Ok(()),
        _ => Err(NO_TASK),
    }
}

async fn call_of(slots: Arc<Slots>, call: CallId) {
    let net = &slots.net;
    let plan = net.plan.call(call).clone();
    sleep_until(net.at(plan.starts)).await;
    let Some((process, idempotency)) = slots.latest(plan.slot) else {
        return net.record(Some(plan.key), Kind::NoProcess { call });
    };
    // A redemption without a call ignores the options of calls.
    let key = net.plan.keys[plan.key % net.plan.keys.len()];
    let net = Arc::clone(net);
    Caller {
        net,
        call,
        plan,
        key,
        process,
        idempotency,
    }
    .run()
    .await;
}

async fn run_incident(slots: Arc<Slots>, at: u64, incident: Incident) {
    let net = &slots.net;
    match incident {
        Incident::Crash { slot, down_for } => {
            sleep_until(net.at(at)).await;
            let Some(process) = slots.stop(slot) else {
                return;
            };
            net.crash(process);
            sleep_until(net.at(at + down_for)).await;
            slots.start(slot);
        }
        Incident::Pause { slot, lasts } => {
            sleep_until(net.at(at)).await;
            if let Some((process, _)) = slots.latest(slot) {
                net.pause(process, lasts);
            }
        }
        Incident::TasksEnd => {
            sleep_until(net.at(at)).await;
            net.lose_replies_to_tasks();
            // The tasks read the replies that have arrived.
            for _ in 0..10 {
                yield_now().await;
            }
            net.record(None, Kind::TasksEnd);
            end_tasks();
        }
        Incident::Free { key, slot } => {
            sleep_until(net.at(at)).await;
            let Some((process, idempotency)) = slots.latest(slot) else {
                return;
            };
            let has_tokens = net.plan.has_tokens(key);
            let mut frees = Box::pin(async move {
                let parts = (key as u64,);
                let peek = if has_tokens {
                    let peek = idempotency.peek_subject(ENDPOINT, &parts, &SUBJECT, OPERATION);
                    peek.await
                } else {
                    idempotency.peek(ENDPOINT, &parts).await
                };
                if let Ok(Some(peek)) = peek {
                    let _ = idempotency.forget(&peek).await;
                }
            });
            let operator = Polled {
                process,
                call: OPERATOR,
            };
            std::future::poll_fn(|context| {
                as_polled(Some(operator), || frees.as_mut().poll(context))
            })
            .await;
        }
        _ => {}
    }
}

/// Checks that every process can claim every key again.
async fn probe(slots: &Slots) -> Result<(), &'static str> {
    let policy = Policy::new(Duration::from_secs(1)).release(Release::Always);
    for slot in 0..slots.net.plan.ahead.len() {
        let Some((_, idempotency)) = slots.latest(slot) else {
            continue;
        };
        for key in 0..slots.net.plan.keys.len() {
            let mut call = Call::new(Endpoint::named(ENDPOINT), policy, Some(&idempotency));
            call.part(&(key as u64));
            if slots.net.plan.has_tokens(key) {
                call.part(&tokens::bound_to_subject());
            }
            match call.claim().await {
                Ok(held) => {
                    held.settle(true).await;
                }
                Err(_) => return Err(USABLE),
            }
        }
    }
    Ok(())
}

impl Run {
    /// The whole history before a broken promise.
    pub(super) fn report(&self) -> String {
        let mut text = String::new();
        let Some(broken) = &self.broken else {
            return text;
        };
        let _ = writeln!(text, "seed {}: {broken}", self.seed);
        let _ = writeln!(text, "run it again with {SEED}={}", self.seed);
        let _ = writeln!(text, "{:#?}", self.plan.message_faults);
        let _ = writeln!(
            text,
            "deadline {} ms, ahead {:?}, incidents {:?}, {:?}",
            self.plan.deadline, self.plan.ahead, self.plan.incidents, self.plan.batches
        );
        for (key, plan) in self
            .plan
            .keys
            .iter()
            .enumerate()
            .filter(|(key, _)| broken.key.is_none_or(|of| of == *key))
        {
            let _ = writeln!(text, "key {key}: {plan:?}");
        }
        for (call, plan) in self
            .plan
            .calls
            .iter()
            .chain(&self.plan.redemptions)
            .enumerate()
            .filter(|(_, plan)| broken.key.is_none_or(|of| of == plan.key))
        {
            let _ = writeln!(text, "#{call}: {plan:?}");
        }
        for Event { at, key, kind } in &self.history {
            if key.is_none_or(|key| broken.key.is_none_or(|of| of == key) || key >= KEYS) {
                let _ = writeln!(text, "{at:>7} {kind:?}");
            }
        }
        text
    }
}

/// The environment variable with one seed.
pub(super) const SEED: &str = "IDEMPOTENCE_SEED";

const LONGEST_RUN: Duration = Duration::from_mins(10);
const LONGEST_DRAIN: Duration = Duration::from_mins(2);
