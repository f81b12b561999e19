//! Two runs that record the same steps, after a pause that is longer than the lease.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::join;

use super::*;
use crate::store::{Claim, Entry, Swap};
use crate::{OnLeaseLost, StoreError, StoreErrorKind};

/// A store that a process cannot reach while it is cut off.
#[derive(Debug)]
struct Cut {
    store: Arc<MemoryStore>,
    is_cut: Arc<AtomicBool>,
}

impl Cut {
    fn store(&self) -> Result<&MemoryStore, StoreError> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(StoreError::new(StoreErrorKind::NotApplied, "it is cut off"));
        }
        Ok(&self.store)
    }
}

#[async_trait]
impl Store for Cut {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.store()?.claim(key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.store()?.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.store()?.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.store()?.get(key).await
    }
}

/// Makes the call with one step that takes this long, and then fails. Returns what the body got from its step.
async fn failing_call(
    idempotency: &Idempotency,
    takes: u64,
    value: u32,
) -> Option<Result<u32, Error>> {
    let mut got = None;
    let call = idempotency.call("trip").key(&1).ttl(TTL).lease(LEASE);
    let failed: Result<(), Failed> = call
        .on_lease_lost(OnLeaseLost::Continue)
        .run_with(async |cx| {
            let step = cx.step("flight", async || {
                sleep(Duration::from_secs(takes)).await;
                Ok::<_, Error>(value)
            });
            got = Some(step.await);
            Err(Failed::Body)
        })
        .await;
    assert!(failed.is_err());
    got
}

/// The first run is cut off from the store, so that the second run takes over. Then the first run records its step first.
fn the_first_recorder_wins() -> bool {
    on_paused_clock(async {
        let store = Arc::new(MemoryStore::new());
        let is_cut = Arc::new(AtomicBool::new(false));
        let first = Idempotency::new(Cut {
            store: Arc::clone(&store),
            is_cut: Arc::clone(&is_cut),
        });
        let second = Idempotency::new(Cut {
            store: Arc::clone(&store),
            is_cut: Arc::default(),
        });
        let cut = async {
            sleep(Duration::from_secs(1)).await;
            is_cut.store(true, Ordering::Relaxed);
            sleep(Duration::from_secs(20)).await;
            is_cut.store(false, Ordering::Relaxed);
        };
        let taking_over = async {
            sleep(Duration::from_secs(16)).await;
            failing_call(&second, 20, 2).await
        };
        let (first, second_got, ()) = join!(failing_call(&first, 25, 1), taking_over, cut);
        sleep(LEASE + LEASE).await;
        let third = failing_call(&second, 0, 3).await;
        matches!(first, Some(Ok(1)))
            && matches!(second_got, Some(Err(Error::LeaseLost(_))))
            && matches!(third, Some(Ok(1)))
    })
}

#[test]
fn of_two_recorders_the_first_wins_and_the_other_loses_its_lease() {
    assert_kept(
        the_first_recorder_wins,
        &[Broken::ReplacesOthers, Broken::BelievesRefused],
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
        &[Broken::ForgetsUnanswered],
    );
}
