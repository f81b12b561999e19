//! Any stored bytes as the record of the steps of a call: its steps are refused, or return what the record has, or run. No step is lost.
#![no_main]

use std::time::Duration;

use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{AnyIntent, Error, Idempotency, IdempotencyContext, MemoryStore};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static CLOCK: Runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
}

fuzz_target!(|found: &[u8]| {
    CLOCK.with(|clock| clock.block_on(found_by_a_step(Bytes::copy_from_slice(found))));
});

async fn found_by_a_step(found: Bytes) {
    let store = MemoryStore::new();
    let digest = Fingerprint::of(&(1,)).expect("an integer");
    let key = format!("idem:#steps:{{idem:fuzz:{digest}}}");
    store
        .claim(&key, &found, Duration::from_secs(365 * 24 * 60 * 60))
        .await
        .expect("the store is empty");
    let idempotency = Idempotency::new(store.clone());
    // The first run fails after its steps, so its record stays. The second run gets the same results.
    let first = run(&idempotency, 1).await;
    let second = run(&idempotency, 2).await;
    assert_eq!(first, second);
    if first.is_none() {
        let stored = store.get(&key).await.expect("a map answers");
        assert_eq!(
            stored.expect("the record is stored").value,
            found,
            "a record that is refused must not change"
        );
    }
}

/// What two steps return; `None` if the first is refused.
async fn run(idempotency: &Idempotency, value: u32) -> Option<Vec<Option<u32>>> {
    let mut results = Vec::new();
    let call = idempotency.call("fuzz").key(&1);
    let outcome: Result<(), Error> = call
        .ttl(Duration::from_secs(30))
        .run_with(async |cx: IdempotencyContext<AnyIntent>| {
            for name in ["flight", "hotel"] {
                match cx.step(name, async || Ok::<_, Error>(value)).await {
                    Ok(value) => results.push(Some(value)),
                    Err(error) => {
                        let _ = (error.to_string(), format!("{error:?}"));
                        results.push(None);
                        return Err(error);
                    }
                }
            }
            // A name that is used twice.
            cx.step("hotel", async || Ok(())).await
        })
        .await;
    assert!(outcome.is_err());
    results[0].is_some().then_some(results)
}
