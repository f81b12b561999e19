//! Two runs that record the same steps, after a pause that is longer than the lease.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::join;
use tokio::task::yield_now;

use super::*;
use crate::store::{Claim, Entry, Swap};
use crate::{OnLeaseLost, StoreError, StoreErrorKind};

/// A way to the store that a test can cut.
#[derive(Debug, Default)]
pub(super) struct Cable {
    is_cut: AtomicBool,
    /// How late each record of steps comes, in milliseconds.
    delay: AtomicU64,
}

impl Cable {
    pub(super) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    pub(super) fn delay(&self, millis: u64) {
        self.delay.store(millis, Ordering::Relaxed);
    }
}

/// The store of a process.
#[derive(Debug)]
struct Wired {
    store: Arc<MemoryStore>,
    cable: Arc<Cable>,
}

/// A process on this store.
pub(super) fn process(store: &Arc<MemoryStore>) -> (Idempotency, Arc<Cable>) {
    let cable = Arc::<Cable>::default();
    let wired = Wired {
        store: Arc::clone(store),
        cable: Arc::clone(&cable),
    };
    (Idempotency::new(wired), cable)
}

impl Wired {
    fn store(&self) -> Result<&MemoryStore, StoreError> {
        if self.cable.is_cut.load(Ordering::Relaxed) {
            return Err(StoreError::new(StoreErrorKind::NotApplied, "it is cut off"));
        }
        Ok(&self.store)
    }

    async fn store_late(&self, key: &str) -> Result<&MemoryStore, StoreError> {
        let delay = self.cable.delay.load(Ordering::Relaxed);
        if delay > 0 && key == steps_key() {
            sleep(Duration::from_millis(delay)).await;
        }
        self.store()
    }
}

#[async_trait]
impl Store for Wired {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let claim = self.store_late(key).await?.claim(key, value, ttl).await;
        // The answer comes later than the claim is stored.
        yield_now().await;
        claim
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.store_late(key)
            .await?
            .replace(key, expected, value, ttl)
            .await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.store()?.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.store()?.get(key).await
    }
}

/// A call with one step.
#[derive(Default)]
pub(super) struct Run {
    /// When the call begins, how long its step takes, and how long its body lasts after that, in milliseconds.
    pub(super) at: u64,
    pub(super) takes: u64,
    pub(super) rests: u64,
    /// What the step returns; 0 is a call without a step.
    pub(super) value: u32,
    pub(super) succeeds: bool,
}

impl Run {
    /// Makes the call. Returns what the body got from its step.
    pub(super) async fn on(self, idempotency: &Idempotency) -> Option<Result<u32, Error>> {
        sleep(Duration::from_millis(self.at)).await;
        let mut got = None;
        let call = idempotency.call("trip").key(&1).ttl(TTL).lease(LEASE);
        let outcome: Result<(), Failed> = call
            .on_lease_lost(OnLeaseLost::Continue)
            .run_with(async |cx| {
                if self.value > 0 {
                    let step = cx.step("flight", async || {
                        sleep(Duration::from_millis(self.takes)).await;
                        Ok::<_, Error>(self.value)
                    });
                    got = Some(step.await);
                }
                sleep(Duration::from_millis(self.rests)).await;
                if self.succeeds {
                    Ok(())
                } else {
                    Err(Failed::Body)
                }
            })
            .await;
        assert_eq!(outcome.is_ok(), self.succeeds);
        got
    }
}

/// Cuts the cable from second 1 until this second.
pub(super) async fn cut_until(cable: &Cable, until: u64) {
    sleep(Duration::from_secs(1)).await;
    cable.cut(true);
    sleep(Duration::from_secs(until - 1)).await;
    cable.cut(false);
}

/// The first run is cut off from the store, so that the second run takes over. Then the first run records its step first.
fn the_first_recorder_wins() -> bool {
    on_paused_clock(async {
        let store = Arc::new(MemoryStore::new());
        let ((first, cable), (second, _)) = (process(&store), process(&store));
        let one = Run {
            takes: 25_000,
            value: 1,
            ..Run::default()
        };
        let other = Run {
            at: 16_000,
            takes: 20_000,
            value: 2,
            ..Run::default()
        };
        let (first, second_got, ()) =
            join!(one.on(&first), other.on(&second), cut_until(&cable, 21));
        let again = Run {
            at: 20_000,
            value: 3,
            ..Run::default()
        };
        let third = again.on(&second).await;
        matches!(first, Some(Ok(1)))
            && matches!(second_got, Some(Err(Error::LeaseLost(_))))
            && matches!(third, Some(Ok(1)))
    })
}

#[test]
fn of_two_recorders_the_first_wins_and_the_other_loses_its_lease() {
    assert_kept(
        the_first_recorder_wins,
        &[Mutation::ReplacesOthers, Mutation::BelievesRefused],
    );
}

/// A step is dropped after its record is stored and before the answer. The call goes on with the next step.
fn a_dropped_step_does_not_end_the_call() -> bool {
    on_paused_clock(async {
        // The claim, the read, and the record of the first step.
        let mut history = History::new(HashMap::from([(2, Fault::DropsAfter)]));
        let idempotency = history.process();
        let call = idempotency.call("trip").key(&1).ttl(TTL);
        let outcome: Result<(), Error> = call
            .run_with(async |cx| {
                let first = cx.step("flight", async || Ok::<_, Error>(1));
                tokio::select! {
                    biased;
                    () = history.shared.stops.notified() => {}
                    _ = first => panic!("the step is dropped"),
                }
                assert_eq!(history.stored().await, ["flight"]);
                cx.step("hotel", async || Ok::<_, Error>(2)).await?;
                assert_eq!(history.stored().await, ["flight", "hotel"]);
                Ok(())
            })
            .await;
        outcome.is_ok()
    })
}

#[test]
fn a_step_that_is_dropped_while_it_is_recorded_does_not_end_the_call() {
    assert_kept(
        a_dropped_step_does_not_end_the_call,
        &[Mutation::ForgetsUnanswered],
    );
}
