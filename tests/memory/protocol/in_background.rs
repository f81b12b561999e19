//! `settle = "background"`: the caller gets its result while the end of the call is on its way to the store.

use std::future::ready;
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{Error, MemoryStore, Policy, Release, Settle, Store};
use tokio::time::Instant;

use crate::protocol::drops::slow::Slow;
use crate::protocol::guarded::{Guarded, forever, millis, secs};

fn policy(release: Release) -> Policy {
    let policy = Policy::new(secs(30)).settle(Settle::Background);
    policy.release(release)
}

/// A store whose next end takes this long.
fn store_with_slow_end(release: Release, lasts: Duration) -> FaultyStore<MemoryStore> {
    let store = FaultyStore::new(MemoryStore::new());
    let end = match release {
        Release::Always => Op::Remove,
        Release::OnError | Release::Never => Op::Replace,
    };
    store.next(end, Fault::Delay(lasts));
    store
}

async fn code_of_duplicate(guarded: &Guarded) -> &'static str {
    guarded
        .run(1, forever())
        .await
        .unwrap_err()
        .refusal()
        .code()
}

#[tokio::test(start_paused = true)]
async fn the_caller_gets_its_result_before_the_store_has_the_end() {
    for release in [Release::Always, Release::OnError] {
        let guarded = Guarded::on(store_with_slow_end(release, millis(200)), policy(release));
        let began = Instant::now();
        assert_eq!(guarded.run(1, ready(Ok(7))).await.unwrap(), 7);
        assert_eq!(began.elapsed(), Duration::ZERO);
        let stored = guarded.entry(1).await.unwrap().value;
        assert!(stored.starts_with(b"idem2 R"), "{stored:?}");
        assert_eq!(code_of_duplicate(&guarded.elsewhere()).await, "in_progress");

        let still_runs = guarded.idempotency.drain(millis(100)).await.unwrap_err();
        assert_eq!(still_runs.remaining(), 1);
        guarded.settled().await;
        assert_eq!(began.elapsed(), millis(200));
        let stored = guarded.entry(1).await.map(|entry| entry.value);
        match release {
            Release::Always => assert_eq!(stored, None),
            _ => assert!(stored.unwrap().starts_with(b"idem2 D")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_equal_call_of_the_process_waits_for_the_end() {
    for wait in [None, Some(secs(5)), Some(millis(1))] {
        let of = |release| match wait {
            Some(wait) => policy(release).wait(wait),
            None => policy(release),
        };
        let always = store_with_slow_end(Release::Always, millis(200));
        let guarded = Guarded::on(always, of(Release::Always));
        let began = Instant::now();
        guarded.run(1, ready(Ok(()))).await.unwrap();
        guarded.run(1, ready(Ok(()))).await.unwrap();
        assert_eq!(began.elapsed(), millis(200));

        let on_error = store_with_slow_end(Release::OnError, millis(200));
        let guarded = Guarded::on(on_error, of(Release::OnError));
        for _ in 0..2 {
            let value = guarded.replaying(1, ready(Ok::<_, Error>(7_u32))).await;
            assert_eq!(value.unwrap(), 7);
        }
        assert_eq!(began.elapsed(), millis(400));
    }
}

#[tokio::test(start_paused = true)]
async fn an_equal_call_of_the_process_waits_for_no_silent_store() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy(Release::Always));
    store.always(Op::Remove, Fault::Hang);
    guarded.run(1, ready(Ok(()))).await.unwrap();
    let began = Instant::now();
    assert_eq!(code_of_duplicate(&guarded).await, "in_progress");
    assert!(began.elapsed() <= secs(1), "{:?}", began.elapsed());
    store.heal();
    guarded.settled().await;
    assert_eq!(guarded.entry(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_equal_call_of_a_running_body_does_not_wait() {
    let guarded = Guarded::in_memory(policy(Release::Always));
    let body = async {
        assert_eq!(code_of_duplicate(&guarded).await, "in_progress");
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_keys_of_a_call_become_free_in_the_background() {
    let guarded = Guarded::on(Slow::default(), policy(Release::Always));
    let mut call = guarded.call(1);
    call.also();
    call.also_part(&2_u64);
    call.claim().await.unwrap().settle(true).await;
    let taken = async || [guarded.entry(1).await, guarded.entry(2).await];
    assert!(taken().await.iter().all(Option::is_some));
    guarded.settled().await;
    assert_eq!(taken().await, [None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_store_in_memory_has_the_end_before_the_caller_has_its_result() {
    let guarded = Guarded::in_memory(policy(Release::Always));
    guarded.run(1, ready(Ok(()))).await.unwrap();
    assert_eq!(guarded.entry(1).await, None);
}

#[test]
fn without_a_runtime_the_caller_waits_for_the_end() {
    let guarded = Guarded::on(Slow::default(), policy(Release::Always));
    let mut call = Box::pin(guarded.run(1, ready(Ok(()))));
    while call.as_mut().now_or_never().is_none() {}
    let stored = guarded.store.get(&guarded.key(1)).now_or_never();
    assert_eq!(stored.unwrap().unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn the_option_costs_no_command() {
    let counts = async |settle| {
        let store = CountingStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy(Release::OnError).settle(settle));
        guarded.run(1, ready(Ok(()))).await.unwrap();
        guarded.settled().await;
        store.counts().total()
    };
    assert_eq!(
        counts(Settle::Background).await,
        counts(Settle::Await).await
    );
}

#[tokio::test(start_paused = true)]
async fn a_background_end_does_not_go_with_a_transaction() {
    let guarded = Guarded::in_memory(policy(Release::OnError).tx());
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "invalid_policy");
    assert!(refused.to_string().contains("`settle"), "{refused}");
}
