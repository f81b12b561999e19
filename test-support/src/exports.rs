//! Exports of one tenant with permits, from two processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotent_runtime::store::{Bytes, Claim, ClaimAny, Wrap, async_trait};
use idempotent_runtime::{Error, Idempotency, Release, Store, StoreError};
use tokio::sync::{Barrier, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::patient::patient;

const CALLS: usize = 16;
const PERMITS: u32 = 3;
const MAX_WAIT: Duration = Duration::from_mins(2);

/// Checks that calls of two stores, which race for three permits, never run more than three bodies at once, that all run if they wait, and
/// that the check would find a store that reads before it writes.
pub async fn assert_exports_keep_their_permits<S: Store>(stores: [S; 2]) {
    let stores = stores.map(Arc::new);
    let handles = [0, 1].map(|one| patient(Arc::clone(&stores[one])));
    assert_eq!(race(&handles, "waiting", Some(MAX_WAIT)).await, (3, CALLS));
    let (most, ran) = race(&handles, "refused", None).await;
    assert!(most <= 3 && ran >= 1, "{most} at once, {ran} ran");
    let broken = stores.map(|store| patient(LooksThenPuts(store)));
    let control = async { while race(&broken, "broken", None).await.0 <= 3 {} };
    let found = timeout(MAX_WAIT, control).await;
    found.expect("the check finds a mistake");
}

/// Makes all calls at once. Returns the most bodies at once, and how many ran. If the calls wait, the first bodies meet: none ends before
/// all permits are held.
async fn race(
    handles: &[Idempotency; 2],
    tenant: &'static str,
    wait: Option<Duration>,
) -> (usize, usize) {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(0));
    let start = Arc::new(Barrier::new(CALLS));
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let call = handles[number % 2].call("exports.run").key(tenant);
        let call = call.permits(PERMITS).release(Release::Always);
        let call = call.ttl(Duration::from_secs(30));
        let call = match wait {
            Some(wait) => call.wait(wait),
            None => call,
        };
        let (running, most, start) = (Arc::clone(&running), most.clone(), Arc::clone(&start));
        calls.spawn(async move {
            start.wait().await;
            let ended = call.run(async {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.send_modify(|most| *most = now.max(*most));
                if wait.is_some() {
                    let mut seen = most.subscribe();
                    seen.wait_for(|most| *most >= 3).await.expect("a sender");
                }
                sleep(Duration::from_millis(50)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Error>(())
            });
            match ended.await {
                Ok(()) => 1,
                Err(Error::InProgress(_)) => 0,
                Err(error) => panic!("{error}"),
            }
        });
    }
    let ended = timeout(MAX_WAIT, calls.join_all()).await;
    let ran = ended.expect("no export waits for ever").into_iter().sum();
    (*most.borrow(), ran)
}

/// Reads a key before it claims it, and does not read the answer to the claim.
#[derive(Debug)]
struct LooksThenPuts<S>(Arc<S>);

#[async_trait]
impl<S: Store> Wrap for LooksThenPuts<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.0
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        if let Some(entry) = self.0.get(key).await? {
            return Ok(Claim::Taken(entry.value));
        }
        self.0.claim(key, value, ttl).await?;
        Ok(Claim::Claimed)
    }

    async fn claim_any(&self, _: &[(&str, &Bytes)], _: Duration) -> Result<ClaimAny, StoreError> {
        Ok(ClaimAny::NotTogether)
    }
}
