//! The bytes that the attribute adds to a future.

use std::future::Future;

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

#[idempotent(key = "id", ttl = "30s", replay = true)]
async fn replaying(id: u64) -> Result<u64, Error> {
    yield_now().await;
    Ok(id)
}

#[idempotent(
    key = "id",
    ttl = "30s",
    payload = "amount",
    wait = "2s",
    replay = true,
    replay_err = |_| true,
    error = |error| error.code().to_owned(),
)]
async fn every_option(id: u64, amount: u64) -> Result<u64, String> {
    yield_now().await;
    Ok(id + amount)
}

async fn every_option_by_hand(id: u64, amount: u64) -> Result<u64, String> {
    yield_now().await;
    Ok(id + amount)
}

#[idempotent(key = "id", ttl = "30s", replay = true)]
async fn big_result(id: u64) -> Result<[u64; 32], Error> {
    yield_now().await;
    Ok([id; 32])
}

async fn big_result_by_hand(id: u64) -> Result<[u64; 32], Error> {
    yield_now().await;
    Ok([id; 32])
}

/// Prints the sizes of both futures.
fn compare<T>(
    body: &str,
    room: usize,
    plain: &impl Future<Output = T>,
    guarded: &impl Future<Output = T>,
) {
    let (plain, guarded) = (size_of_val(plain), size_of_val(guarded));
    println!("{body}: {plain} bytes plain, {guarded} bytes guarded");
    assert!(guarded <= plain + room, "{body}: {plain} → {guarded} bytes");
}

#[test]
fn a_guarded_future_is_at_most_400_bytes_larger_than_the_plain_one() {
    compare("small", 400, &small_by_hand(1), &small(1));
    compare("big local", 400, &big_local_by_hand(1), &big_local(1));
    compare("with replay", 400, &small_by_hand(1), &replaying(1));
}

#[test]
fn a_guarded_future_is_at_most_440_bytes_larger_with_all_options_for_duplicates() {
    compare(
        "every option",
        440,
        &every_option_by_hand(1, 1),
        &every_option(1, 1),
    );
}

#[test]
fn a_guarded_future_has_room_for_one_outcome() {
    let outcome = size_of::<Result<[u64; 32], Error>>();
    compare(
        "big result",
        400 + outcome,
        &big_result_by_hand(1),
        &big_result(1),
    );
}
