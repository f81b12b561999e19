//! Panics in bodies, observers, results and stores: their events and records.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use idempotent_runtime::store::{Claim, Entry, Swap};
use idempotent_runtime::{
    Event, EventKind, Idempotency, OnCancel, Policy, Renew, Store, StoreError,
};
use serde::{Deserialize, Deserializer, Serialize};
use tokio::time::timeout;

use crate::protocol::guarded::{Guarded, forever, secs, yielding};
use crate::protocol::observed::Observed;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_body_emits_panicked() {
    let observed = Observed::default();
    let guarded = observed.on(&Guarded::in_memory(policy().on_cancel(OnCancel::Release)));
    let body = async {
        yielding(()).await;
        std::panic::panic_any::<&str>("on purpose");
        #[expect(unreachable_code, reason = "it says the type")]
        Ok(())
    };
    let run = AssertUnwindSafe(guarded.run(1, body)).catch_unwind().await;
    assert!(run.is_err());
    assert_eq!(observed.take(), ["panicked"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_an_observer_changes_nothing() {
    let guarded = Guarded::in_memory(policy());
    let idempotency = Idempotency::builder(Arc::clone(&guarded.store))
        .observer(|_: &Event<'_>| panic!("on purpose"))
        .build()
        .unwrap();
    let guarded = Guarded {
        idempotency,
        ..guarded
    };
    assert_eq!(guarded.replaying(1, yielding(Ok(7))).await.unwrap(), 7);
    assert_eq!(guarded.replaying(1, yielding(Ok(8))).await.unwrap(), 7);
    let lost = Guarded {
        policy: policy().renew(Renew::No),
        ..guarded.clone()
    };
    let refused = lost.run(2, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    assert!(timeout(secs(1), guarded.run(3, forever())).await.is_err());
}

#[derive(Debug, Serialize)]
struct Explosive;

impl<'de> Deserialize<'de> for Explosive {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("while reading")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_result_is_read_ends_the_call_once() {
    let observed = Observed::default();
    let guarded = observed.on(&Guarded::in_memory(policy()));
    guarded.replaying(1, async { Ok(Explosive) }).await.unwrap();
    let again = {
        let guarded = guarded.clone();
        tokio::spawn(async move { guarded.replaying(1, async { Ok(Explosive) }).await })
    };
    assert!(again.await.unwrap_err().is_panic());
    assert_eq!(observed.take(), ["executed", "panicked"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_store_emits_panicked_instead_of_cancelled() {
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
    let observed = Observed::default();
    let guarded = observed.on(&Guarded::on(Panics, policy()));
    for _ in 0..2 {
        let guarded = guarded.clone();
        let call = tokio::spawn(async move { guarded.call(1).claim().await.map(drop) });
        assert!(call.await.unwrap_err().is_panic());
        tokio::task::yield_now().await;
    }
    assert_eq!(observed.ends(), [EventKind::Panicked; 2]);
}
