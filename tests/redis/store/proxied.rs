//! Guarded calls through a proxy that damages one message: every message, with every plan.

mod call_plan;
mod case;
mod controls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotence_test_servers::{Direction, ProxyFault, Traffic};
use idempotent_redis::RedisStore;
use idempotent_runtime::{Release, Store};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::call_plan::CallPlan;
use self::case::{Case, Moment, TOGETHER};
use crate::store::servers::{removes_natively, shared};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_message_of_a_call_breaks_no_guarantee() {
    holds(CallPlan::all(), Moment::Call).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_reconnection_breaks_no_guarantee() {
    holds(CallPlan::all(), Moment::Reconnection).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_connection_setup_fails_in_time_or_succeeds() {
    holds(CallPlan::all().take(1), Moment::SetUp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_message_of_a_batch_breaks_no_guarantee() {
    let plans = CallPlan::all().filter(|plan| !plan.is_long);
    // All plans send the same claims, and few differ in their ends.
    let plans = plans.filter(|plan| plan.release == Release::Always || plan.replay);
    let count = holds(plans.filter(|plan| plan.succeeds), Moment::Batch).await;
    assert!(count >= 200, "{count}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_go_in_batches() {
    let store = shared().await;
    if removes_natively(&store) {
        // Each removal is a command.
        return;
    }
    let plan = CallPlan::all().find(|plan| plan.release == Release::Always);
    let clean = Case::undamaged(plan.unwrap(), Moment::Batch);
    let traffic = learn(clean, |store| store).await;
    assert!(traffic.requests >= TOGETHER, "{traffic:?}");
    // One script does all removals of a batch.
    assert!(traffic.requests < 2 * TOGETHER, "{traffic:?}");
}

/// Asserts that no case of these plans breaks a guarantee. Returns the number of cases.
async fn holds(plans: impl Iterator<Item = CallPlan>, moment: Moment) -> usize {
    let begun = Instant::now();
    let (count, broken) = broken(plans, moment, |store| store).await;
    eprintln!("{moment:?}: {count} cases in {:.1?}", begun.elapsed());
    assert!(count >= 25, "{count}");
    assert!(
        broken.is_empty(),
        "{} of {count}:\n{}",
        broken.len(),
        broken.join("\n")
    );
    count
}

/// The number of cases, and the failures.
async fn broken<S: Store>(
    plans: impl Iterator<Item = CallPlan>,
    moment: Moment,
    make: fn(RedisStore) -> S,
) -> (usize, Vec<String>) {
    let mut cases = Vec::new();
    for plan in plans {
        let clean = Case::undamaged(plan, moment);
        let traffic = learn(clean, make).await;
        for (direction, count) in [
            (Direction::Request, traffic.requests),
            (Direction::Reply, traffic.replies),
        ] {
            let faults = (0..count).flat_map(|index| faults(direction).map(move |f| (index, f)));
            cases.extend(faults.map(|(index, fault)| Case {
                harm: Some((direction, index, fault)),
                deadline: DEADLINE,
                ..clean
            }));
        }
    }
    let count = cases.len();
    let mut undamaged = 0;
    let mut running = JoinSet::new();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for case in cases {
        let places = Arc::clone(&places);
        running.spawn(async move {
            let _place = places.acquire().await.unwrap();
            let mut result = None;
            // On a slow machine a call may end before the message that the proxy should damage. The next call has more time.
            for attempt in 0..TRIES {
                let (traffic, found) = case.with_time(2_u32.pow(attempt)).in_time(make).await;
                if traffic.fault_applied || found.is_some() {
                    result = Some(found);
                    break;
                }
            }
            (case, result)
        });
    }
    let mut broken = Vec::new();
    for (case, result) in running.join_all().await {
        match result {
            Some(None) => {}
            Some(Some(wrong)) => broken.push(format!("{case:?}: {wrong}")),
            // No try had so many messages. How many a batch needs depends on how its operations arrive, and on a slow machine an
            // undamaged call may need one more.
            None => undamaged += 1,
        }
    }
    assert!(
        moment == Moment::Batch || undamaged * 8 <= count,
        "the proxy damaged no message in {undamaged} of {count} cases"
    );
    (count - undamaged, broken)
}

/// The number of messages of an undamaged call: the smallest number of several runs, because a call repeats messages to a slow
/// server, and the first run also loads scripts.
async fn learn<S: Store>(clean: Case, make: fn(RedisStore) -> S) -> Traffic {
    let mut least: Option<Traffic> = None;
    let mut reason = None;
    for _ in 0..if clean.plan.is_long { 2 } else { TRIES } {
        let (traffic, wrong) = clean.in_time(make).await;
        if wrong.is_none() && least.is_none_or(|least| traffic.replies < least.replies) {
            least = Some(traffic);
        }
        reason = reason.or(wrong);
    }
    least.unwrap_or_else(|| panic!("{clean:?}: {reason:?}"))
}

const AT_ONCE: usize = 48;
const TRIES: u32 = 5;

/// The deadline of a damaged call.
const DEADLINE: Duration = Duration::from_millis(400);

/// A delay shorter than the deadline of a call, and a longer one.
const DELAYS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(700)];

fn faults(direction: Direction) -> impl Iterator<Item = ProxyFault> {
    let delays = DELAYS.map(ProxyFault::Delay);
    let faults = [ProxyFault::Close, ProxyFault::Silence, ProxyFault::Cut];
    let again = (direction == Direction::Request).then_some(ProxyFault::Repeat);
    faults.into_iter().chain(delays).chain(again)
}
