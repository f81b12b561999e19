//! Any stored bytes as the record of a call: a call that finds them is refused or replayed, and its body does not run.
#![no_main]

use std::time::Duration;

use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{Error, Idempotency, MemoryStore};
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
    CLOCK.with(|clock| clock.block_on(found_by_a_call(Bytes::copy_from_slice(found))));
});

async fn found_by_a_call(found: Bytes) {
    let store = MemoryStore::new();
    let key = format!("idem:fuzz:{}", Fingerprint::of(&(1,)).expect("an integer"));
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    store
        .claim(&key, &found, year)
        .await
        .expect("the store is empty");
    let idempotency = Idempotency::new(store.clone());

    let peeked = idempotency.peek("fuzz", &(1,)).await;
    for wait in [Duration::ZERO, Duration::from_millis(1)] {
        let answer = idempotency
            .call("fuzz")
            .key(&1)
            .payload(&2)
            .ttl(Duration::from_secs(30))
            .wait(wait)
            .replay()
            .run(async {
                panic!("the body ran although a record is stored") as Result<Option<String>, Error>
            })
            .await;
        let foreign = matches!(answer, Err(Error::ForeignRecord(_)));
        assert_eq!(foreign, peeked.is_err());
        if let Err(error) = &answer {
            assert!(foreign || error.duplicate().is_some());
            let _ = (error.to_string(), format!("{error:?}"), error.retry_after());
        }
    }
    let _ = format!("{peeked:?}");
    let stored = store.get(&key).await.expect("a map answers");
    assert_eq!(
        stored.expect("the record is stored").value,
        found,
        "the record must not change"
    );
}
