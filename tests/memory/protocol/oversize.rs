//! Records that are longer than the limits of all handles of a store.

use std::time::Duration;

use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::Bytes;
use idempotent_runtime::{Error, Idempotency, MemoryStore, Store};

use crate::protocol::guarded::{never, secs};

const MINUTE: Duration = secs(60);
const MIB: usize = 1024 * 1024;

/// The answer of a handle with this limit to a duplicate of a call with a result of `result` bytes.
async fn replayed(result: usize, limit: usize) -> Result<String, Error> {
    let store = MemoryStore::new();
    let handle = |limit| {
        let handle = Idempotency::builder(store.clone()).largest_result(limit);
        handle.build().unwrap()
    };
    let text = "x".repeat(result - 2);
    let first = handle(result).call("test").key(&1).ttl(MINUTE).replay();
    first.run(async { Ok::<_, Error>(text) }).await.unwrap();
    let duplicate = handle(limit).call("test").key(&1).ttl(MINUTE).replay();
    duplicate.run(never()).await
}

#[tokio::test(start_paused = true)]
async fn a_result_larger_than_the_limit_of_the_handle_is_a_foreign_record() {
    for (result, limit) in [(3 * MIB, MIB), (3 * MIB, 2 * MIB), (MIB + 1000, 0)] {
        let refused = replayed(result, limit).await.unwrap_err();
        assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_reads_results_up_to_its_limit_and_up_to_the_default() {
    for (result, limit) in [(3 * MIB, 3 * MIB), (MIB, MIB), (MIB, 0), (1000, 10)] {
        let replayed = replayed(result, limit).await.unwrap();
        assert_eq!(replayed.len(), result - 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_record_is_refused_even_with_a_valid_header() {
    let store = MemoryStore::new();
    let idempotency = Idempotency::new(store.clone());
    let run = || {
        let call = idempotency.call("test").key(&1).ttl(MINUTE).replay();
        call.run(async { Ok::<_, Error>(1) })
    };
    run().await.unwrap();
    let key = format!("idem:test:{}", Fingerprint::of(&(1,)).unwrap());
    let stored = store.get(&key).await.unwrap().unwrap().value;
    let mut huge = stored.to_vec();
    huge.resize(100 * MIB, b' ');
    let huge = Bytes::from(huge);
    store.replace(&key, &stored, &huge, MINUTE).await.unwrap();
    let refused = run().await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
    let refused = idempotency.peek("test", &(1,)).await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
}
