//! Guarded calls through a proxy that damages one message: every message, in every way.

mod case;
mod controls;
mod way;

use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotence_test_servers::{Direction, ProxyFault, Traffic};
use idempotent_runtime::{RedisStore, Store};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::case::{Case, Moment};
use self::way::Way;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_message_of_a_call_breaks_no_guarantee() {
    holds(Way::all(), Moment::Call).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_reconnection_breaks_no_guarantee() {
    holds(Way::all(), Moment::Reconnection).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_connection_setup_fails_in_time_or_succeeds() {
    holds(Way::all().take(1), Moment::SetUp).await;
}

/// Asserts that no case of these ways breaks a guarantee.
async fn holds(ways: impl Iterator<Item = Way>, moment: Moment) {
    let begun = Instant::now();
    let (count, broken) = broken(ways, moment, |store| store).await;
    eprintln!("{moment:?}: {count} cases in {:.1?}", begun.elapsed());
    assert!(count >= 25, "{count}");
    assert!(
        broken.is_empty(),
        "{} of {count}:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

/// The number of cases, and the failures.
async fn broken<S: Store>(
    ways: impl Iterator<Item = Way>,
    moment: Moment,
    make: fn(RedisStore) -> S,
) -> (usize, Vec<String>) {
    let mut cases = Vec::new();
    for way in ways {
        let clean = Case::undamaged(way, moment);
        let traffic = learn(clean, make).await;
        for (direction, count) in [
            (Direction::Request, traffic.requests),
            (Direction::Reply, traffic.replies),
        ] {
            let faults = (0..count).flat_map(|index| faults(direction).map(move |f| (index, f)));
            cases.extend(faults.map(|(index, fault)| Case {
                harm: Some((direction, index, fault)),
                ..clean
            }));
        }
    }
    let count = cases.len();
    let mut running = JoinSet::new();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for case in cases {
        let places = Arc::clone(&places);
        running.spawn(async move {
            let _place = places.acquire().await.unwrap();
            let mut wrong = Some("the proxy damaged no message".to_owned());
            // On a slow machine a call may end before the message that the proxy should damage.
            for _ in 0..TRIES {
                let (traffic, found) = case.check(make).await;
                if traffic.fault_applied || found.is_some() {
                    wrong = found;
                    break;
                }
            }
            wrong.map(|wrong| format!("{case:?}: {wrong}"))
        });
    }
    let broken = running.join_all().await.into_iter().flatten().collect();
    (count, broken)
}

/// The number of messages of an undamaged call: the smallest number of several runs, because a call repeats messages to a slow
/// server, and the first run also loads scripts.
async fn learn<S: Store>(clean: Case, make: fn(RedisStore) -> S) -> Traffic {
    let mut least: Option<Traffic> = None;
    let mut reason = None;
    for _ in 0..if clean.way.is_long { 2 } else { TRIES } {
        let (traffic, wrong) = clean.check(make).await;
        if wrong.is_none() && least.is_none_or(|least| traffic.replies < least.replies) {
            least = Some(traffic);
        }
        reason = reason.or(wrong);
    }
    least.unwrap_or_else(|| panic!("{clean:?}: {reason:?}"))
}

const AT_ONCE: usize = 48;
const TRIES: usize = 5;

/// A delay shorter than the deadline of a call, and a longer one.
const DELAYS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(700)];

fn faults(direction: Direction) -> impl Iterator<Item = ProxyFault> {
    let delays = DELAYS.map(ProxyFault::Delay);
    let faults = [ProxyFault::Close, ProxyFault::Silence, ProxyFault::Cut];
    let again = (direction == Direction::Request).then_some(ProxyFault::Repeat);
    faults.into_iter().chain(delays).chain(again)
}
