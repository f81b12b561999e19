//! Calls that wait for a permit.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::MemoryStore;
use idempotent_runtime::store::{
    Bytes, Claim, ClaimAny, Store, StoreError, Swap, Wrap, async_trait,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{free, held, holders, nothing, policy, two_processes};
use crate::protocol::guarded::{Guarded, millis, secs};
use crate::protocol::observed::Observed;

#[tokio::test(start_paused = true)]
async fn waiting_calls_all_run_and_never_more_than_the_permits() {
    let processes = two_processes(policy().wait(secs(120)));
    let (running, most) = (Cell::new(0), Cell::new(0));
    let began = Instant::now();
    let calls = (0..64).map(|number| {
        processes[number % 2].run(1, async {
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            sleep(millis(50)).await;
            running.set(running.get() - 1);
            Ok(())
        })
    });
    let ended = join_all(calls).await;
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(most.get(), 3);
    let took = began.elapsed();
    assert!(took < secs(30), "no permit is idle for long: {took:?}");
}

/// A store that notifies of each removed key, and notes the claims.
#[derive(Debug, Default)]
struct Notifying {
    store: MemoryStore,
    hints: Mutex<HashMap<String, watch::Sender<()>>>,
    claims: Mutex<Vec<(String, Bytes)>>,
    subscriptions: Mutex<usize>,
}

#[async_trait]
impl Wrap for Notifying {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let claim = (key.to_owned(), value.clone());
        self.claims.lock().unwrap().push(claim);
        self.store.claim(key, value, ttl).await
    }

    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        let all = claims.iter();
        let all = all.map(|(key, value)| ((*key).to_owned(), Bytes::clone(value)));
        self.claims.lock().unwrap().extend(all);
        self.store.claim_any(claims, ttl).await
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let removed = self.store.remove(key, expected).await;
        if let Some(hints) = self.hints.lock().unwrap().get(key) {
            hints.send_replace(());
        }
        removed
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        *self.subscriptions.lock().unwrap() += 1;
        let mut hints = self.hints.lock().unwrap();
        Some(hints.entry(key.to_owned()).or_default().subscribe())
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_is_woken_by_any_permit() {
    for ends in 0..3 {
        let here = Guarded::on(Notifying::default(), policy().wait(secs(60)));
        let mut all = vec![held(&here).await, held(&here).await, held(&here).await];
        let there = here.elsewhere();
        let waiting = async {
            there.run(1, nothing()).await.unwrap();
            Instant::now()
        };
        let ending = async {
            sleep(millis(5010)).await;
            all.remove(ends).settle(true).await;
            Instant::now()
        };
        let (woken, ended) = tokio::join!(waiting, ending);
        assert!(woken - ended < millis(2), "{:?}", woken - ended);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_call_of_a_line_is_woken_as_the_first_was_and_subscribes_to_nothing() {
    let store = Arc::new(Notifying::default());
    let here = Guarded::on(Arc::clone(&store), policy().wait(secs(60)));
    let all = [held(&here).await, held(&here).await, held(&here).await];
    let there = here.elsewhere();
    let waiting = (0..3).map(async |_| {
        let permit = held(&there).await;
        (Instant::now(), permit)
    });
    let ending = async {
        let mut ended = Vec::new();
        for permit in all {
            sleep(millis(2010)).await;
            permit.settle(true).await;
            ended.push(Instant::now());
        }
        ended
    };
    let (woken, ended) = tokio::join!(join_all(waiting), ending);
    for ((woken, _permit), ended) in woken.iter().zip(ended) {
        assert!(*woken - ended < millis(2), "{:?}", *woken - ended);
    }
    assert_eq!(
        *store.subscriptions.lock().unwrap(),
        3,
        "one of each permit"
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_copy_of_its_own_claim_takes_no_permit_from_a_waiting_call() {
    let store = Arc::new(Notifying::default());
    let here = Guarded::on(Arc::clone(&store), policy().permits(2).wait(secs(60)));
    let _all = [held(&here).await, held(&here).await];
    store.claims.lock().unwrap().clear();
    let there = here.elsewhere();
    let waiting = async {
        there.run(1, nothing()).await.unwrap();
        Instant::now()
    };
    let network = async {
        sleep(millis(5010)).await;
        // A permit becomes free without a message, and a copy of a refused claim takes it.
        let (key, copy) = store.claims.lock().unwrap()[0].clone();
        let holder = store.store.get(&key).await.unwrap().unwrap();
        store.store.remove(&key, &holder.value).await.unwrap();
        let stored = store.store.claim(&key, &copy, secs(11)).await;
        assert_eq!(stored.unwrap(), Claim::Claimed);
        // The other permit wakes the call.
        for (other, hint) in &*store.hints.lock().unwrap() {
            if *other != key {
                hint.send_replace(());
            }
        }
        Instant::now()
    };
    let (ran, woken) = tokio::join!(waiting, network);
    assert!(ran - woken < millis(2), "{:?}", ran - woken);
}

#[tokio::test(start_paused = true)]
async fn a_late_copy_of_the_message_of_a_call_with_a_permit_takes_no_other() {
    let store = Arc::new(Notifying::default());
    let here = Guarded::on(Arc::clone(&store), policy());
    let permit = held(&here).await;
    let claims = store.claims.lock().unwrap().clone();
    let claims: Vec<_> = claims.iter().map(|(key, value)| (&**key, value)).collect();
    let copy = store.store.claim_any(&claims, secs(11)).await.unwrap();
    assert_eq!(copy, ClaimAny::Claimed(0));
    assert_eq!(free(&here).await, 2);
    permit.settle(true).await;
    assert_eq!(free(&here).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_than_its_wait() {
    let here = Guarded::in_memory(policy().wait(secs(5)));
    let _all = [held(&here).await, held(&here).await, held(&here).await];
    let began = Instant::now();
    let observed = Observed::default();
    let there = observed.on(&here);
    assert_eq!(holders(&there).await, 3);
    let waited = began.elapsed();
    assert!((secs(5)..millis(5100)).contains(&waited), "{waited:?}");
    assert_eq!(observed.take(), ["waited", "in_progress"]);
}
