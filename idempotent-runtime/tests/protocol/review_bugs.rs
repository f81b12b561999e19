//! Review: each test here fails, and shows a fault.

use std::cell::Cell;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotent_runtime::store::{Claim, Entry, Swap};
use idempotent_runtime::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{
    Error, Event, EventKind, Idempotency, MemoryStore, OnStoreError, Policy, Release, Store,
    StoreError,
};
use serde::{Deserialize, Deserializer, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, advance, sleep};

use crate::guarded::{Guarded, forever, millis, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

/// B1: those who have waited for longer than half of the handle's deadline do not follow the next one that asks.
#[tokio::test(start_paused = true)]
async fn when_the_holder_fails_one_of_those_who_wait_here_asks_the_store() {
    let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    // A round trip takes some time, as in every store that is not in memory.
    store.always(Op::Claim, Fault::Delay(millis(1)));
    let failing = async {
        sleep(secs(2)).await;
        store.inner().reset();
        Err::<(), _>(())
    };
    let succeeds = || async {
        sleep(secs(1)).await;
        Ok(())
    };
    let waiting = join_all((0..100).map(|_| guarded.run(1, succeeds())));
    let (failed, ended) = tokio::join!(guarded.run(1, failing), waiting);
    assert!(failed.is_err());
    assert_eq!(ended.iter().filter(|end| end.is_ok()).count(), 1);
    let claims = store.inner().counts().claim;
    assert!(
        claims <= 2,
        "{claims} claims for one key that was freed once"
    );
}

/// B1b: the same for those who come together while the store is slow.
#[tokio::test(start_paused = true)]
async fn many_at_once_ask_a_slow_store_as_one() {
    let slow = FaultyStore::new(MemoryStore::new());
    slow.always(Op::Claim, Fault::Delay(millis(600)));
    let store = CountingStore::new(slow);
    let guarded = Guarded::on(store.clone(), policy());
    let calls = (0..1000).map(|_| guarded.run(1, yielding(Ok(()))));
    let ends = join_all(calls).await;
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
    let claims = store.counts().claim;
    assert!(claims <= 10, "{claims} claims");
}

/// B2: the payload is not looked at where the other one here waits for a third one elsewhere.
#[tokio::test(start_paused = true)]
async fn another_payload_is_told_also_behind_one_that_waits() {
    let there = Guarded::in_memory(policy().wait(secs(5)));
    let here = there.elsewhere();
    let _held = there.call(1).payload(&5).claim().await.unwrap();
    let mut waits = pin!(here.call(1).payload(&5).claim());
    assert!(waits.as_mut().now_or_never().is_none());
    let begun = Instant::now();
    let other = here.call(1).payload(&6).claim();
    let refused = tokio::select! {
        refused = other => refused.unwrap_err(),
        _ = waits => panic!("it waits longer"),
    };
    assert_eq!(refused.code(), "payload_mismatch");
    assert!(begun.elapsed() < millis(5), "{:?}", begun.elapsed());
}

/// B3: a call that knows that another one has the key runs when the store goes away.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_holder_does_not_run_beside_it_when_the_store_goes_away() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(
        store.clone(),
        policy().wait(secs(5)).on_store_error(OnStoreError::Run),
    );
    let running = Cell::new(0);
    let first = async {
        running.set(running.get() + 1);
        sleep(millis(50)).await;
        store.always(Op::Claim, Fault::Hang);
        sleep(secs(4)).await;
        running.set(running.get() - 1);
        Ok(())
    };
    let elsewhere = guarded.elsewhere();
    let second = async {
        assert_eq!(running.get(), 0, "two bodies at once");
        Ok(())
    };
    let (first, second) = tokio::join!(guarded.run(1, first), elsewhere.run(1, second));
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "in_progress");
}

/// B4: in-progress before store trouble, and no second body beside one that has the key in this process.
#[tokio::test(start_paused = true)]
async fn who_has_asked_beside_is_told_of_the_one_that_has_won_meanwhile() {
    for on_store_error in [OnStoreError::Refuse, OnStoreError::Run] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy().on_store_error(on_store_error));
        // Of the first call: a try that is lost, and one that is late.
        store.next(Op::Claim, Fault::Hang);
        store.next(Op::Claim, Fault::Delay(millis(500)));
        // Of the second one.
        store.always(Op::Claim, Fault::Hang);
        let running = Cell::new(0);
        let first = async {
            running.set(1);
            sleep(secs(3)).await;
            running.set(0);
            Ok(())
        };
        let second = async {
            assert_eq!(
                running.get(),
                0,
                "two bodies at once, one of them with the key"
            );
            Ok(())
        };
        let (first, second) = tokio::join!(guarded.run(1, first), guarded.run(1, second));
        first.unwrap();
        assert_eq!(second.unwrap_err().refusal().code(), "in_progress");
    }
}

/// B5: a follower whose patience ends is told a record that is older than its call.
#[tokio::test(start_paused = true)]
async fn who_follows_one_that_waits_is_not_refused_by_a_record_from_before_its_call() {
    let there = Guarded::in_memory(policy().wait(secs(30)));
    let patient = there.elsewhere();
    let mut hasty = patient.clone();
    hasty.policy = policy().wait(millis(50));
    let held = there.call(1).claim().await.unwrap();
    let mut waits = pin!(patient.run(1, async { Ok(()) }));
    assert!(waits.as_mut().now_or_never().is_none());
    held.settle(false).await;
    // From here on nobody has the key.
    assert_eq!(there.stands(1).await, None);
    let refused = tokio::select! {
        biased;
        _ = waits => panic!("it pauses for longer"),
        ended = hasty.run(1, async { Ok(()) }) => ended,
    };
    refused.unwrap();
}

/// B6: a flight that was grounded goes on, and whoever has seen it then is never told of its end.
#[tokio::test(start_paused = true)]
async fn who_looks_at_a_grounded_call_late_is_still_told_of_its_end() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let elsewhere = guarded.elsewhere();
    // An operator is to free the key of a call elsewhere.
    let stuck = elsewhere.call(1).claim().await.unwrap();
    let peek = guarded
        .idempotency
        .peek("test.pay", &(1_u64,))
        .await
        .unwrap()
        .unwrap();
    store.next(Op::Claim, Fault::Delay(millis(100)));
    let begun = Instant::now();
    let mut first = Box::pin(guarded.run(1, async {
        sleep(millis(100)).await;
        Ok(())
    }));
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(second.as_mut().now_or_never().is_none());
    assert!(guarded.idempotency.forget(&peek).await.unwrap());
    // The first is answered before the second is polled again.
    advance(millis(100)).await;
    assert!(first.as_mut().now_or_never().is_none());
    let (first, second) = tokio::join!(first, second);
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "already_done");
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    drop(stuck);
}

/// A memory store that gives hints; or hangs when it is asked for them.
#[derive(Debug)]
struct Hinting {
    store: CountingStore<MemoryStore>,
    hints: watch::Sender<()>,
    hangs: bool,
}

impl Hinting {
    fn new(hangs: bool) -> Arc<Self> {
        Arc::new(Self {
            store: CountingStore::new(MemoryStore::new()),
            hints: watch::Sender::new(()),
            hangs,
        })
    }
}

#[async_trait]
impl Store for Hinting {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.store.claim(key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.store.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.store.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).await
    }

    async fn changed(&self, _: &str) -> Option<watch::Receiver<()>> {
        if self.hangs {
            return std::future::pending().await;
        }
        Some(self.hints.subscribe())
    }
}

/// B7: the wait for the first hint does not end with the patience.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_when_asked_for_hints_does_not_prolong_the_wait() {
    let store = Hinting::new(true);
    let guarded = Guarded::on(Arc::clone(&store), policy().wait(millis(20)));
    let _held = guarded.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let refused = guarded.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(refused.code(), "in_progress");
    assert!(begun.elapsed() < millis(50), "{:?}", begun.elapsed());
}

/// B8: with hints, a call that waits sends more than ten commands a second.
#[tokio::test(start_paused = true)]
async fn a_key_that_changes_all_the_time_is_asked_for_at_most_ten_times_a_second() {
    let store = Hinting::new(false);
    let guarded = Guarded::on(Arc::clone(&store), policy().wait(secs(5)));
    let _held = guarded.call(1).claim().await.unwrap();
    store.store.reset();
    let elsewhere = guarded.elsewhere();
    let waits = elsewhere.call(1).claim();
    let changes = async {
        for second in 1..=4 {
            for _ in 0..200 {
                sleep(millis(5)).await;
                store.hints.send_replace(());
            }
            let total = store.store.counts().claim;
            println!("after {second} s: {total}");
            assert!(total <= 10 * second, "{total} after {second} s");
        }
    };
    tokio::select! {
        _ = waits => panic!("it waits longer"),
        () = changes => {}
    }
}

/// B9: a call whose settling is not polled any more refuses all others here, for ever.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_any_more_does_not_refuse_the_others_for_ever() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Replace, Fault::Delay(millis(1)));
    // As in a stream that is buffered, whose consumer takes its time.
    let mut frozen = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(frozen.as_mut().now_or_never().is_none());
    sleep(secs(3600)).await;
    assert_eq!(guarded.stands(1).await, None, "its lease ended an hour ago");
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

/// B9b: the same where the keeper knew of the call.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_waited_and_is_not_polled_any_more_does_not_refuse_the_others_for_ever() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let body = async {
        sleep(millis(1)).await;
        store.next(Op::Replace, Fault::Delay(millis(1)));
        Ok(())
    };
    let mut frozen = Box::pin(guarded.run(1, body));
    assert!(frozen.as_mut().now_or_never().is_none());
    sleep(millis(2)).await;
    assert!(frozen.as_mut().now_or_never().is_none());
    assert_eq!(store.left(), 0, "it settles");
    sleep(secs(2 * 3600)).await;
    assert_eq!(guarded.stands(1).await, None, "its lease ended");
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

/// B10: after the answer of the first call, a second one is told that it runs.
#[tokio::test(start_paused = true)]
async fn after_its_answer_a_call_does_not_run_any_more() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Replace, Fault::ApplyThenHang);
    guarded.run(1, async { Ok(()) }).await.unwrap();
    let standing = guarded.stands(1).await.unwrap().value;
    assert!(standing.starts_with(b"idem1 D"));
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
}

#[derive(Debug, Serialize)]
struct Explosive;

impl<'de> Deserialize<'de> for Explosive {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("while reading")
    }
}

/// B11: a `Deserialize` that panics ends a call without an event.
#[tokio::test(start_paused = true)]
async fn a_call_whose_result_cannot_be_read_for_a_panic_ends_once() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&ends);
    let idempotency = Idempotency::builder(MemoryStore::new())
        .observer(move |event: &Event<'_>| {
            if event.kind().is_end() {
                told.lock().unwrap().push(event.kind());
            }
        })
        .build()
        .unwrap();
    let guarded = Guarded {
        idempotency,
        ..Guarded::in_memory(policy())
    };
    guarded.replaying(1, async { Ok(Explosive) }).await.unwrap();
    let again = {
        let guarded = guarded.clone();
        tokio::spawn(async move { guarded.replaying(1, async { Ok(Explosive) }).await })
    };
    let ended = again.await;
    println!("{ended:?}");
    let ends = ends.lock().unwrap().clone();
    assert_eq!(ends.len(), 2, "{ends:?}");
}

/// B12: `error` forgets what `success` and `on_duplicate` have said.
#[tokio::test(start_paused = true)]
async fn the_order_of_options_does_not_matter() {
    let idempotency = Idempotency::new(MemoryStore::new());
    for _ in 0..2 {
        let outcome = idempotency
            .call("orders.pay")
            .key(&1)
            .ttl(secs(60))
            .success(|outcome: &Result<u8, String>| outcome.as_ref().is_ok_and(|code| *code < 4))
            .error(|error: Error| error.code().to_owned())
            .run(async { Ok(5) })
            .await;
        assert_eq!(outcome, Ok(5), "it is no success, so it runs again");
    }
}

/// B13: a part of the key that comes after the payload becomes a part of the payload.
#[tokio::test(start_paused = true)]
async fn a_key_after_the_payload_is_a_key_or_an_error_that_says_so() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let mut codes = Vec::new();
    for id in [1_u64, 2] {
        let outcome = idempotency
            .call("orders.pay")
            .payload("EUR")
            .key(&id)
            .ttl(secs(60))
            .run(async { Ok::<_, Error>(id) })
            .await;
        codes.push(outcome.map_err(|error| error.code()));
    }
    assert!(
        codes == [Ok(1), Ok(2)] || codes == [Err("invalid_key"); 2],
        "{codes:?}"
    );
}

/// B14: with `wait`, a store that hangs is left only after one and a quarter of the deadline.
#[tokio::test(start_paused = true)]
async fn with_wait_a_store_that_hangs_is_left_after_the_deadline() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    store.always(Op::Claim, Fault::Hang);
    let begun = Instant::now();
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert!(refused.is_unavailable());
    assert!(begun.elapsed() <= millis(1010), "{:?}", begun.elapsed());
}

/// B16: a result that a store panics over, and so on: one end for each call.
#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_not_a_caller_that_went_away() {
    #[derive(Debug)]
    struct Panics;
    #[async_trait]
    impl Store for Panics {
        async fn claim(&self, _: &str, _: &Bytes, _: Duration) -> Result<Claim, StoreError> {
            panic!("in the store")
        }
        async fn replace(
            &self,
            _: &str,
            _: &Bytes,
            _: &Bytes,
            _: Duration,
        ) -> Result<Swap, StoreError> {
            panic!("in the store")
        }
        async fn remove(&self, _: &str, _: &Bytes) -> Result<Swap, StoreError> {
            panic!("in the store")
        }
        async fn get(&self, _: &str) -> Result<Option<Entry>, StoreError> {
            panic!("in the store")
        }
    }
    let ends = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&ends);
    let idempotency = Idempotency::builder(Panics)
        .observer(move |event: &Event<'_>| {
            if event.kind().is_end() {
                told.lock().unwrap().push(event.kind());
            }
        })
        .build()
        .unwrap();
    let guarded = Guarded {
        idempotency,
        ..Guarded::in_memory(policy())
    };
    for _ in 0..2 {
        let guarded = guarded.clone();
        let call = tokio::spawn(async move { guarded.call(1).claim().await.map(drop) });
        assert!(call.await.unwrap_err().is_panic());
        tokio::task::yield_now().await;
    }
    let ends = ends.lock().unwrap().clone();
    assert_eq!(ends, [EventKind::Panicked; 2]);
}
