//! What the attribute adds to a future.
#![allow(clippy::print_stdout, missing_docs)]

use idempotence::{Error, idempotent};
use tokio::task::yield_now;

#[idempotent(key = "id", ttl = "30s")]
async fn small(id: u64) -> Result<u64, Error> {
    yield_now().await;
    Ok(id)
}

async fn small_by_hand(id: u64) -> Result<u64, Error> {
    yield_now().await;
    Ok(id)
}

#[idempotent(key = "id", ttl = "30s")]
async fn big_local(id: u64) -> Result<u64, Error> {
    let local = [1_u8; 4096];
    yield_now().await;
    Ok(id + u64::from(local[usize::from(id == 1)]))
}

async fn big_local_by_hand(id: u64) -> Result<u64, Error> {
    let local = [1_u8; 4096];
    yield_now().await;
    Ok(id + u64::from(local[usize::from(id == 1)]))
}

#[test]
fn a_guarded_future_is_at_most_400_bytes_larger_than_the_plain_one() {
    let sizes = [
        (
            "small",
            size_of_val(&small_by_hand(1)),
            size_of_val(&small(1)),
        ),
        (
            "big local",
            size_of_val(&big_local_by_hand(1)),
            size_of_val(&big_local(1)),
        ),
    ];
    for (body, plain, guarded) in sizes {
        println!("{body}: {plain} bytes plain, {guarded} bytes guarded");
        assert!(guarded <= plain + 400, "{body}: {plain} → {guarded} bytes");
    }
}
