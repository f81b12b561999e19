//! Callers on a cluster whose members are killed and stopped, and the same callers on Redis with Sentinel.
//!
//! Each key has one body, because its claim is stored for longer than the test runs (`release = false`). A second body shows that a
//! claim was lost. `ETCD_CHAOS_SECONDS=600` runs for ten minutes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idempotence::{Error, Idempotency, Release};
use idempotence_test_servers::{EtcdCluster, RedisSentinels};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{sleep, timeout};

const CALLERS: u64 = 16;
/// Longer than the election of a leader.
const DEADLINE: Duration = Duration::from_secs(4);
const HOUR: Duration = Duration::from_hours(1);

/// What the callers have seen.
#[derive(Default)]
struct Seen {
    /// How often the body of each key has run.
    bodies: Mutex<HashMap<u64, u32>>,
    next: AtomicU64,
    calls: AtomicU64,
    refused: AtomicU64,
    is_over: AtomicBool,
}

impl Seen {
    /// Blocks until so many more bodies have run: the claims that a fault meets.
    fn wait_for_more(&self, bodies: usize) {
        let count = || self.bodies.lock().unwrap().len();
        let (enough, until) = (count() + bodies, Instant::now() + Duration::from_mins(1));
        while count() < enough {
            assert!(Instant::now() < until, "only {} bodies ran", count());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    async fn call(&self, handle: &Idempotency, key: u64) -> Result<(), Error> {
        let call = handle
            .call("chaos")
            .key(&key)
            .ttl(HOUR)
            .release(Release::Never);
        let answer = call.run(async {
            *self.bodies.lock().unwrap().entry(key).or_default() += 1;
            Ok::<_, Error>(())
        });
        let answer = timeout(DEADLINE * 5, answer)
            .await
            .expect("a call ends by its deadline");
        self.calls.fetch_add(1, Ordering::Relaxed);
        match &answer {
            Ok(()) => {}
            Err(error) if error.is_duplicate() => {}
            // The body has not run.
            Err(Error::Unavailable(_)) => drop(self.refused.fetch_add(1, Ordering::Relaxed)),
            Err(other) => panic!("{other:?}"),
        }
        answer
    }

    /// New keys, and again and again old keys.
    async fn calls(self: Arc<Self>, handle: Idempotency) {
        while !self.is_over.load(Ordering::Relaxed) {
            let key = self.next.fetch_add(1, Ordering::Relaxed);
            for key in [
                key,
                key / 2,
                key.saturating_sub(CALLERS),
                key.saturating_sub(200),
            ] {
                let _ = self.call(&handle, key).await;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn second_bodies(&self) -> usize {
        self.bodies
            .lock()
            .unwrap()
            .values()
            .filter(|bodies| **bodies > 1)
            .count()
    }
}

/// Starts the callers of two processes.
async fn callers(url: &str) -> (Arc<Seen>, JoinSet<()>, Idempotency) {
    let (seen, mut running, mut first) = (Arc::<Seen>::default(), JoinSet::new(), None);
    for _ in 0..2 {
        let handle = Idempotency::builder_from_url(url)
            .await
            .unwrap()
            .deadline(DEADLINE)
            .build()
            .unwrap();
        for _ in 0..CALLERS / 2 {
            running.spawn(Arc::clone(&seen).calls(handle.clone()));
        }
        first.get_or_insert(handle);
    }
    (seen, running, first.unwrap())
}

/// Ends the callers, and calls each key again whose body has run: all of them must be taken.
async fn end(what: &str, seen: &Seen, running: JoinSet<()>, handle: &Idempotency) -> usize {
    seen.is_over.store(true, Ordering::Relaxed);
    running.join_all().await;
    let keys: Vec<u64> = seen.bodies.lock().unwrap().keys().copied().collect();
    assert!(keys.len() > 100, "only {} bodies ran", keys.len());
    for key in &keys {
        while matches!(seen.call(handle, *key).await, Err(Error::Unavailable(_))) {}
    }
    let lost = seen.second_bodies();
    let (calls, refused) = (&seen.calls, &seen.refused);
    println!(
        "{what}: {calls:?} calls, {refused:?} refused, {} bodies, {lost} lost claims",
        keys.len()
    );
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_claim_is_lost_when_members_are_killed_and_stopped() {
    let cluster = EtcdCluster::start(3).unwrap();
    let seconds = std::env::var("ETCD_CHAOS_SECONDS").map_or(20, |text| text.parse().unwrap());
    let (seen, running, handle) = callers(&cluster.url()).await;
    let (begun, mut round) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds) || round < 4 {
        // Between two faults calls run for a moment.
        sleep(Duration::from_millis(500)).await;
        block_in_place(|| disturb(&cluster, &seen, round));
        if round % 4 == 3 {
            without_quorum(&cluster, &seen, &handle).await;
        }
        round += 1;
    }
    println!("etcd: {round} faults");
    assert_eq!(end("etcd", &seen, running, &handle).await, 0);
}

/// The faults of one member, one after the other.
fn disturb(cluster: &EtcdCluster, seen: &Seen, round: u32) {
    seen.wait_for_more(30);
    let leader = cluster.leader().unwrap();
    match round % 4 {
        // Another member does not have the latest writes.
        0 => {
            let mut others = cluster.members().iter();
            let other = others
                .find(|member| member.address() != leader.address())
                .unwrap();
            other.kill().unwrap();
            seen.wait_for_more(30);
            leader.kill().unwrap();
            other.restart().unwrap();
            cluster.leader().unwrap();
            leader.restart().unwrap();
        }
        1 => {
            leader.pause().unwrap();
            std::thread::sleep(Duration::from_secs(3));
            leader.resume().unwrap();
        }
        2 => {
            leader.kill().unwrap();
            leader.restart().unwrap();
        }
        _ => {}
    }
    for member in cluster.members() {
        member.wait_until_healthy().unwrap();
    }
}

/// With two of three members gone a call is refused, and its body does not run.
async fn without_quorum(cluster: &EtcdCluster, seen: &Seen, handle: &Idempotency) {
    let gone = &cluster.members()[..2];
    for member in gone {
        block_in_place(|| member.kill()).unwrap();
    }
    let new = u64::MAX - seen.calls.load(Ordering::Relaxed);
    let refused = seen.call(handle, new).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert_eq!(seen.bodies.lock().unwrap().get(&new), None);
    for member in gone {
        block_in_place(|| member.restart()).unwrap();
    }
    for member in gone {
        block_in_place(|| member.wait_until_healthy()).unwrap();
    }
}

/// The control: the same callers and the same first fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_with_sentinel_loses_claims_in_a_fail_over() {
    let sentinels = RedisSentinels::start_with(1, ["--appendonly", "yes"]).unwrap();
    let (seen, running, handle) = callers(&sentinels.url()).await;
    block_in_place(|| {
        seen.wait_for_more(100);
        let (master, replica) = (sentinels.master().unwrap(), sentinels.replica().unwrap());
        replica.kill().unwrap();
        seen.wait_for_more(100);
        master.kill().unwrap();
        replica.restart().unwrap();
        sentinels.wait_for_failover(master).unwrap();
    });
    let lost = end("Redis with Sentinel", &seen, running, &handle).await;
    assert!(lost > 0, "the control shows no lost claim");
}
