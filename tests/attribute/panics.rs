//! After a panic the outcome is unknown, so the key stays taken.

use std::future::Future;
use std::pin::Pin;

use idempotence::{Error, Idempotency, MemoryStore, idempotent};

type Boxed = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;
type Calls = [(&'static str, fn() -> Boxed); 3];

#[idempotent(key = "id", ttl = "30s", on_cancel = "release")]
async fn in_the_body(id: u64) -> Result<(), Error> {
    tokio::task::yield_now().await;
    panic!("call {id}")
}

#[idempotent(key = "id", ttl = "30s", on_cancel = "release")]
fn before_the_future(id: u64) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {
    assert!(id != 1, "call {id}");
    Box::pin(async { Ok(()) })
}

#[idempotent(
    key = "id",
    ttl = "30s",
    on_cancel = "release",
    success = |_| panic!("is it one?")
)]
async fn in_the_success_closure(id: u64) -> Result<u64, Error> {
    tokio::task::yield_now().await;
    Ok(id)
}

#[tokio::test]
async fn a_panic_reaches_the_caller_and_the_key_stays_taken() {
    let calls: Calls = [
        ("in the body", || Box::pin(in_the_body(1))),
        ("before the future", || before_the_future(1)),
        ("in the success closure", || {
            Box::pin(async { in_the_success_closure(1).await.map(drop) })
        }),
    ];
    let idempotency = Idempotency::new(MemoryStore::new());
    for (panic, call) in calls {
        let first = idempotency.clone();
        let first = tokio::spawn(async move { first.scope(call()).await });
        assert!(first.await.unwrap_err().is_panic(), "{panic}");
        idempotency
            .drain(std::time::Duration::from_secs(5))
            .await
            .unwrap();
        let second = idempotency.scope(call()).await.unwrap_err();
        assert_eq!(second.code(), "in_progress", "{panic}");
    }
}
