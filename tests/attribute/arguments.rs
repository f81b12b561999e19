//! Arguments that the body does not use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotence::{Error, Idempotency, MemoryStore, idempotent};
use tokio::time::{sleep, timeout};

/// A guard: only its destructor does something.
#[derive(Clone)]
struct Permit(Arc<AtomicBool>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[idempotent(key = "id", ttl = "1m", on_cancel = "finish")]
async fn finishing(id: u64, _permit: Permit, given_back: Arc<AtomicBool>) -> Result<bool, Error> {
    sleep(Duration::from_secs(id)).await;
    assert!(
        !given_back.load(Ordering::SeqCst),
        "the body is still running"
    );
    Ok(true)
}

#[tokio::test(start_paused = true)]
async fn unused_arguments_live_as_long_as_a_body_that_outlives_its_caller() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let given_back = Arc::new(AtomicBool::new(false));
    let permit = Permit(Arc::clone(&given_back));
    let call = idempotency.scope(finishing(60, permit, Arc::clone(&given_back)));
    timeout(Duration::from_secs(1), call).await.unwrap_err();
    assert!(!given_back.load(Ordering::SeqCst));
    idempotency.drain(Duration::from_secs(100)).await.unwrap();
    assert!(given_back.load(Ordering::SeqCst));
    let permit = Permit(Arc::new(AtomicBool::new(false)));
    let again = idempotency
        .scope(finishing(60, permit, Arc::default()))
        .await;
    assert_eq!(
        again.unwrap_err().code(),
        "already_done",
        "the body came to its end"
    );
}

struct Repo<T>(T);

impl<T> Repo<T> {
    #[idempotent(key = "id", ttl = "1m")]
    async fn sweep(id: u64) -> Result<(), Error> {
        Ok(())
    }
}

trait Job {
    #[idempotent(key = "id", ttl = "1m")]
    async fn run(id: u64) -> Result<(), Error> {
        Ok(())
    }
}

impl Job for u8 {}
impl Job for u16 {}

#[idempotent(key = "id", ttl = "1m")]
async fn generic<T: serde::Serialize>(id: T) -> Result<(), Error> {
    Ok(())
}

#[tokio::test]
async fn the_type_around_a_function_is_part_of_its_endpoint_and_type_arguments_are_not() {
    Idempotency::new(MemoryStore::new())
        .scope(async {
            Repo::<u8>::sweep(1).await.unwrap();
            Repo::<u16>::sweep(1).await.unwrap();
            <u8 as Job>::run(1).await.unwrap();
            <u16 as Job>::run(1).await.unwrap();
            generic("a").await.unwrap();
            let equal = generic("a".to_owned()).await.unwrap_err();
            assert!(equal.is_duplicate());
            assert_eq!(equal.endpoint(), "attribute.arguments.generic");
        })
        .await;
    let _ = Repo(1).0;
}
