//! Calls with several keys on a store that claims them in one step.

use std::sync::Mutex;
use std::time::Duration;

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::private::Call;
use idempotent_runtime::store::{Bytes, ClaimAll, Wrap, async_trait};
use idempotent_runtime::{MemoryStore, Policy, Release, Store, StoreError, StoreErrorKind};
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, run, secs};

const TTL: Duration = secs(10);

fn policy() -> Policy {
    Policy::new(TTL).release(Release::Always)
}

/// A call with the keys of the accounts 1, 2 and 3.
fn transfer(guarded: &Guarded) -> Call {
    let mut call = guarded.call(1);
    for to in [2_u64, 3] {
        call.also();
        call.also_part(&to);
    }
    call
}

async fn taken(guarded: &Guarded) -> Vec<u64> {
    let mut taken = Vec::new();
    for account in [1, 2, 3] {
        if guarded.entry(account).await.is_some() {
            taken.push(account);
        }
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_asks_the_store_once_whether_its_keys_are_free() {
    let store = CountingStore::new(MemoryStore::new());
    let here = Guarded::on(store.clone(), policy());
    for busy in [1, 2, 3] {
        let held = here.elsewhere().call(busy).claim().await.unwrap();
        store.reset();
        transfer(&here).claim().await.unwrap_err();
        let counts = store.counts();
        assert_eq!((counts.claim_all, counts.total()), (1, 1));
        held.settle(true).await;
    }
    store.reset();
    let held = transfer(&here).claim().await.unwrap();
    assert_eq!((store.counts().claim_all, store.counts().total()), (1, 1));
    transfer(&here).claim().await.unwrap_err();
    assert_eq!(
        store.counts().total(),
        1,
        "this process knows that it has the keys"
    );
    held.settle(true).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_to_its_claims_runs_with_all_keys_or_holds_none() {
    for fault in [
        Fault::Fail(StoreErrorKind::NotApplied),
        Fault::Fail(StoreErrorKind::Full),
        Fault::Fail(StoreErrorKind::Unknown),
        Fault::LoseReply,
        Fault::ApplyThenHang,
        Fault::Hang,
        Fault::ApplyLate(millis(1)),
        Fault::ApplyLate(millis(700)),
        Fault::Delay(millis(300)),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        store.next(Op::ClaimAll, fault);
        let guarded = Guarded::on(store.clone(), policy());
        let body = async {
            assert_eq!(taken(&guarded).await, [1, 2, 3], "{fault:?}");
            sleep(secs(30)).await;
            assert_eq!(taken(&guarded).await, [1, 2, 3], "{fault:?}");
            Ok(())
        };
        run(transfer(&guarded), body).await.unwrap();
        guarded.settled().await;
        assert!(taken(&guarded).await.is_empty(), "{fault:?}");
        // The store never answers.
        store.always_all(Fault::Hang);
        let begun = Instant::now();
        let refused = transfer(&guarded).claim().await.unwrap_err();
        assert_eq!(refused.into_error().code(), "store_unavailable");
        assert!(begun.elapsed() < millis(1500), "{:?}", begun.elapsed());
        store.heal();
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_the_claims_starts_no_body_after_the_leases() {
    let store = FaultyStore::new(MemoryStore::new());
    let short = Policy::new(millis(100)).release(Release::Always);
    let guarded = Guarded::on(store.clone(), short);
    store.always(Op::ClaimAll, Fault::Delay(millis(150)));
    let refused = run(transfer(&guarded), async { panic!("no body runs") });
    let refused = refused.await.map(|(): ()| ()).unwrap_err().refusal();
    assert_eq!(refused.code(), "store_unavailable");
    guarded.settled().await;
    assert!(taken(&guarded).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_without_an_answer_to_its_claims_holds_nothing() {
    for fault in [Fault::ApplyThenHang, Fault::Hang, Fault::Delay(millis(100))] {
        let store = FaultyStore::new(MemoryStore::new());
        store.next(Op::ClaimAll, fault);
        let guarded = Guarded::on(store, policy());
        let dropped = timeout(millis(50), run(transfer(&guarded), forever()));
        assert!(dropped.await.is_err());
        guarded.settled().await;
        assert!(taken(&guarded).await.is_empty(), "{fault:?}");
    }
}

/// Keeps a copy of the claims that it refuses, as a network may.
#[derive(Debug, Default)]
struct Copies {
    store: MemoryStore,
    refused: Mutex<Vec<(String, Bytes)>>,
}

impl Copies {
    /// The copy of the refused claims arrives.
    async fn arrive(&self) {
        let refused = self.refused.lock().unwrap().clone();
        let claims = refused.iter().map(|(key, value)| (&**key, value));
        let claims: Vec<_> = claims.collect();
        let answer = self.store.claim_all(&claims, TTL).await.unwrap();
        assert_eq!((claims.len(), answer), (3, ClaimAll::Claimed));
    }
}

#[async_trait]
impl Wrap for Copies {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        let answer = self.store.claim_all(claims, ttl).await?;
        if let ClaimAll::Taken(..) = answer {
            let claims = claims.iter();
            let claims = claims.map(|(key, value)| ((*key).to_owned(), Bytes::clone(value)));
            *self.refused.lock().unwrap() = claims.collect();
        }
        Ok(answer)
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_refused_claims_does_not_block_their_own_call() {
    let store = std::sync::Arc::new(Copies::default());
    let here = Guarded::on(std::sync::Arc::clone(&store), policy());
    let smallest = [1, 2, 3].into_iter().min_by_key(|one| here.key(*one));
    let held = here.call(smallest.unwrap()).claim().await.unwrap();
    let waiting = Guarded {
        policy: policy().wait(secs(60)),
        ..here.elsewhere()
    };
    let begun = Instant::now();
    let frees = async {
        sleep(secs(1)).await;
        held.settle(true).await;
        store.arrive().await;
    };
    let body = async { Ok(()) };
    let (ran, ()) = tokio::join!(run(transfer(&waiting), body), frees);
    ran.unwrap();
    assert!(
        begun.elapsed() < secs(5),
        "it does not wait for the leases of the copy"
    );
    waiting.settled().await;
    assert!(taken(&here).await.is_empty());
}

/// Claims all keys, and answers with the record of another key, as a connection does whose answers are shifted.
#[derive(Debug, Default)]
struct Shifted {
    store: MemoryStore,
    place: usize,
}

#[async_trait]
impl Wrap for Shifted {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        self.store.claim_all(claims, ttl).await?;
        let (_, of_another) = claims[(self.place + 1) % claims.len()];
        Ok(ClaimAll::Taken(self.place, of_another.clone()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gets_the_record_of_another_key_leaves_no_claim() {
    for place in [0, 1, 2] {
        let store = MemoryStore::new();
        let guarded = Guarded::on(Shifted { store, place }, policy());
        let refused = run(transfer(&guarded), async { panic!("no body runs") });
        let refused = refused.await.map(|(): ()| ()).unwrap_err().refusal();
        assert_eq!(refused.code(), "foreign_record");
        guarded.settled().await;
        assert!(taken(&guarded).await.is_empty(), "{place}");
    }
}
