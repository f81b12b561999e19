//! A future that is dropped: at every poll, under every policy.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Entry, Swap};
use idempotent_runtime::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, OnCancel, OnStoreError, Policy, Release, Store, StoreError};
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::guarded::{Guarded, forever, secs, yielding};

const TTL: Duration = secs(90);
const LEASE: Duration = secs(20);

/// A memory store whose every operation is pending before it is applied and before it is answered.
#[derive(Debug)]
struct Slow(MemoryStore);

async fn slowly<T>(operation: impl Future<Output = T>) -> T {
    yield_now().await;
    let answer = operation.await;
    yield_now().await;
    answer
}

#[async_trait]
impl Store for Slow {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        slowly(self.0.claim(key, value, ttl)).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        slowly(self.0.replace(key, expected, value, ttl)).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        slowly(self.0.remove(key, expected)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.0.get(key).await
    }
}

/// Polls `future` up to `polls` times; whether it ended.
async fn polled<F: Future>(future: F, polls: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        let ended = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
        if ended {
            return true;
        }
        // Whatever woke the future is let happen.
        yield_now().await;
    }
    false
}

const CLAIMING: u8 = 0;
const IN_THE_BODY: u8 = 1;
const AFTER_THE_BODY: u8 = 2;

#[tokio::test(start_paused = true)]
async fn dropped_at_any_poll_the_key_is_as_the_table_says() {
    let mut seen = [0; 3];
    for release in [Release::Always, Release::OnError, Release::Never] {
        for on_cancel in [OnCancel::Keep, OnCancel::Release] {
            for outcome in [Ok(()), Err(())] {
                for polls in 0.. {
                    let policy = match release {
                        Release::OnError => Policy::new(TTL).lease(LEASE),
                        _ => Policy::new(TTL).release(release),
                    };
                    let guarded =
                        Guarded::on(Slow(MemoryStore::new()), policy.on_cancel(on_cancel));
                    let stage = AtomicU8::new(CLAIMING);
                    let body = async {
                        stage.store(IN_THE_BODY, Ordering::Relaxed);
                        let outcome = yielding(outcome).await;
                        stage.store(AFTER_THE_BODY, Ordering::Relaxed);
                        outcome
                    };
                    let ended = polled(guarded.run(1, body), polls).await;
                    guarded.settled().await;

                    let stage = stage.load(Ordering::Relaxed);
                    seen[usize::from(stage)] += 1;
                    let expected = match (stage, release, on_cancel, outcome) {
                        (CLAIMING, ..) | (IN_THE_BODY, _, OnCancel::Release, _) => None,
                        (IN_THE_BODY, Release::OnError, ..) => Some(LEASE + secs(2)),
                        (IN_THE_BODY, ..) | (_, Release::Never, ..) => Some(TTL + secs(5)),
                        (_, Release::Always, ..) | (_, Release::OnError, _, Err(())) => None,
                        (_, Release::OnError, _, Ok(())) => Some(TTL),
                    };
                    let found = guarded.taken_for(1).await;
                    assert_eq!(
                        found, expected,
                        "dropped after {polls} polls in stage {stage}: {release:?}, {on_cancel:?}, {outcome:?}"
                    );
                    if ended {
                        break;
                    }
                }
            }
        }
    }
    assert!(
        seen.iter().all(|&times| times >= 12),
        "every stage was hit: {seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_at_any_poll_a_duplicate_leaves_the_holder_alone() {
    for polls in 0.. {
        let guarded = Guarded::on(Slow(MemoryStore::new()), Policy::new(TTL));
        let held = guarded.call(1).claim().await.unwrap();
        let before = guarded.stands(1).await.unwrap();
        let ended = polled(guarded.run(1, yielding(Ok(()))), polls).await;
        guarded.settled().await;
        assert_eq!(guarded.stands(1).await.unwrap().value, before.value);
        held.settle(true).await;
        if ended {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_without_a_claim_the_record_that_may_have_been_put_is_as_the_policy_says() {
    for (on_cancel, stays) in [(OnCancel::Keep, true), (OnCancel::Release, false)] {
        let store = FaultyStore::new(MemoryStore::new());
        let policy = Policy::new(TTL)
            .on_cancel(on_cancel)
            .on_store_error(OnStoreError::Run);
        let guarded = Guarded::on(store.clone(), policy);
        store.always(Op::Claim, Fault::LoseReply);
        let running = Notify::new();
        let body = async {
            running.notify_one();
            forever().await
        };
        tokio::select! {
            _ = guarded.run(1, body) => panic!("it runs for ever"),
            () = running.notified() => store.heal(),
        }
        guarded.settled().await;
        assert_eq!(guarded.stands(1).await.is_some(), stays, "{on_cancel:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_holds_the_key_even_if_a_drop_would_free_it() {
    let policy = Policy::new(TTL).lease(LEASE).on_cancel(OnCancel::Release);
    let guarded = Guarded::in_memory(policy);
    let call = {
        let guarded = guarded.clone();
        tokio::spawn(async move { guarded.run::<()>(1, async { panic!("in the body") }).await })
    };
    assert!(
        call.await.unwrap_err().is_panic(),
        "the panic passes through"
    );
    guarded.settled().await;
    assert_eq!(guarded.taken_for(1).await, Some(LEASE + secs(2)));
}
