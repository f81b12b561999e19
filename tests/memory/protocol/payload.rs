//! Calls with the same key and another payload.

use std::pin::pin;

use futures_util::FutureExt as _;
use idempotence::testkit::CountingStore;
use idempotent_runtime::private::{Call, Refusal};
use idempotent_runtime::{Error, MemoryStore, Policy, Release};
use tokio::time::Instant;

use crate::protocol::guarded::{Guarded, millis, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

fn call(guarded: &Guarded, amount: u64) -> Call {
    let mut call = guarded.call(1);
    call.payload(&amount);
    call.payload("EUR");
    call
}

async fn run(guarded: &Guarded, amount: u64) -> Result<(), Error> {
    let held = call(guarded, amount)
        .claim()
        .await
        .map_err(Refusal::into_error)?;
    yielding(()).await;
    held.settle(true).await;
    Ok(())
}

fn is_mismatch(error: &Error) -> bool {
    error.code() == "payload_mismatch" && !error.is_duplicate() && error.retry_after().is_none()
}

#[tokio::test(start_paused = true)]
async fn the_payload_is_not_part_of_the_key() {
    let guarded = Guarded::in_memory(policy());
    run(&guarded, 5).await.unwrap();
    assert_eq!(run(&guarded, 5).await.unwrap_err().code(), "already_done");
    assert!(
        guarded.entry(1).await.is_some(),
        "the key does not contain the payload"
    );
}

#[tokio::test(start_paused = true)]
async fn another_payload_after_the_end_is_a_mismatch() {
    for release in [Release::OnError, Release::Never] {
        let guarded = Guarded::in_memory(Policy::new(secs(60)).release(release));
        run(&guarded, 5).await.unwrap();
        let refused = run(&guarded, 6).await.unwrap_err();
        assert!(is_mismatch(&refused), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_during_the_call_is_a_mismatch_in_any_process() {
    let guarded = Guarded::in_memory(policy());
    let _held = call(&guarded, 5).claim().await.unwrap();
    for guarded in [&guarded, &guarded.elsewhere()] {
        let refused = call(guarded, 6).claim().await.unwrap_err();
        assert!(is_mismatch(refused.error()), "{refused:?}");
        let refused = call(guarded, 5).claim().await.unwrap_err();
        assert_eq!(refused.error().code(), "in_progress");
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_does_not_wait() {
    let guarded = Guarded::in_memory(policy().wait(secs(5)));
    let _held = call(&guarded, 5).claim().await.unwrap();
    let begun = Instant::now();
    for guarded in [&guarded, &guarded.elsewhere()] {
        let refused = call(guarded, 6).claim().await.unwrap_err();
        assert!(is_mismatch(refused.error()), "{refused:?}");
    }
    assert!(begun.elapsed() < millis(5));
}

#[tokio::test(start_paused = true)]
async fn another_payload_behind_a_waiting_call_is_a_mismatch() {
    let there = Guarded::in_memory(policy().wait(secs(5)));
    let here = there.elsewhere();
    let _held = call(&there, 5).claim().await.unwrap();
    let mut waits = pin!(call(&here, 5).claim());
    assert!(waits.as_mut().now_or_never().is_none());
    let begun = Instant::now();
    let refused = tokio::select! {
        refused = call(&here, 6).claim() => refused.unwrap_err(),
        _ = waits => panic!("it still waits"),
    };
    assert!(is_mismatch(refused.error()), "{refused:?}");
    assert!(begun.elapsed() < millis(5), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_older_than_a_call_does_not_refuse_it_as_a_mismatch() {
    let there = Guarded::in_memory(policy().wait(secs(5)));
    let patient = there.elsewhere();
    let hasty = Guarded {
        policy: policy(),
        ..patient.clone()
    };
    let held = call(&there, 5).claim().await.unwrap();
    let mut waits = pin!(call(&patient, 5).claim());
    assert!(waits.as_mut().now_or_never().is_none());
    held.settle(false).await;
    // From here on the key is free, but the waiting call does not know it yet.
    assert_eq!(there.entry(1).await, None);
    for guarded in [&hasty, &patient] {
        let claimed = tokio::select! {
            biased;
            _ = waits.as_mut() => panic!("it pauses for longer"),
            claimed = call(guarded, 6).claim() => claimed,
        };
        claimed.unwrap().settle(false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_never_gets_the_result() {
    let guarded = Guarded::in_memory(policy().replay());
    run(&guarded, 5).await.unwrap();
    assert!(is_mismatch(&run(&guarded, 6).await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn a_mismatch_in_the_same_process_costs_no_command() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let _held = call(&guarded, 5).claim().await.unwrap();
    store.reset();
    call(&guarded, 6).claim().await.unwrap_err();
    assert_eq!(store.counts().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_payload_matches_any_payload() {
    let guarded = Guarded::in_memory(policy());
    let body = async {
        let refused = call(&guarded, 6).claim().await.unwrap_err();
        assert_eq!(refused.error().code(), "in_progress");
        Ok::<_, ()>(())
    };
    guarded.run(1, body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn equal_payloads_of_two_keys_are_stored_differently() {
    let guarded = Guarded::in_memory(policy());
    let payload = async |id: u64| {
        let mut call = guarded.call(id);
        call.payload(&5_u64);
        let _held = call.claim().await.unwrap();
        let line = guarded.entry(id).await.unwrap().value;
        let line = String::from_utf8(line.to_vec()).unwrap();
        line.split(' ').nth(6).unwrap().to_owned()
    };
    assert_ne!(payload(1).await, payload(2).await);
}
