//! Any stored bytes as the record of a counter: an attempt is counted, or is refused and changes nothing.
#![no_main]

use std::time::Duration;

use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{MemoryStore, StoreErrorKind};
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
    CLOCK.with(|clock| clock.block_on(found_by_an_attempt(Bytes::copy_from_slice(found))));
});

async fn found_by_an_attempt(found: Bytes) {
    let store = MemoryStore::new();
    let window = Duration::from_secs(60);
    store
        .claim("key", &found, window)
        .await
        .expect("the store is empty");
    let count = store.count("key", 7, window * 2).await;
    let stored = store
        .get("key")
        .await
        .expect("a map answers")
        .expect("the record is stored");
    assert_eq!(stored.ttl, Some(window));
    match count {
        Ok(count) => {
            assert!(count.attempt > 0);
            let again = store
                .count("key", 7, window)
                .await
                .expect("the attempt was counted");
            assert_eq!(again, count);
        }
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert_eq!(stored.value, found, "the record must not change");
        }
    }
}
