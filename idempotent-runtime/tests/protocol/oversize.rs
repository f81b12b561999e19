//! What stands under a key and is longer than any record that the handles of a store write.

use std::time::Duration;

use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::Bytes;
use idempotent_runtime::{Error, Idempotency, MemoryStore, Store};

use crate::guarded::{never, secs};

const MINUTE: Duration = secs(60);
const MIB: usize = 1024 * 1024;

/// The answer to a duplicate of a call with a result of so many bytes, from a handle with this limit.
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
async fn a_result_that_is_larger_than_the_handle_keeps_is_foreign() {
    for (result, limit) in [(3 * MIB, MIB), (3 * MIB, 2 * MIB), (MIB + 1000, 0)] {
        let refused = replayed(result, limit).await.unwrap_err();
        assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_reads_what_it_keeps_and_what_one_with_the_default_does() {
    for (result, limit) in [(3 * MIB, 3 * MIB), (MIB, MIB), (MIB, 0), (1000, 10)] {
        let replayed = replayed(result, limit).await.unwrap();
        assert_eq!(replayed.len(), result - 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_record_is_refused_whatever_its_line_says() {
    let store = MemoryStore::new();
    let idempotency = Idempotency::new(store.clone());
    let run = || {
        let call = idempotency.call("test").key(&1).ttl(MINUTE).replay();
        call.run(async { Ok::<_, Error>(1) })
    };
    run().await.unwrap();
    let key = format!("idem:test:{}", Fingerprint::of(&(1,)).unwrap());
    let standing = store.get(&key).await.unwrap().unwrap().value;
    let mut huge = standing.to_vec();
    huge.resize(100 * MIB, b' ');
    let huge = Bytes::from(huge);
    store.replace(&key, &standing, &huge, MINUTE).await.unwrap();
    let refused = run().await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
    let refused = idempotency.peek("test", &(1,)).await.unwrap_err();
    assert!(matches!(refused, Error::ForeignRecord(_)), "{refused}");
}
