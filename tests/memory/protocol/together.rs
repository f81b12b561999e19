//! Many concurrent equal calls in one process share their commands.

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{
    Error, MemoryStore, OnLeaseLost, Policy, Release, Renew, Store as _, StoreErrorKind,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, never, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn a_thousand_equal_calls_send_as_many_commands_as_one() {
    for (release, wait) in [
        (Release::OnError, None),
        (Release::OnError, Some(secs(5))),
        (Release::Never, None),
        (Release::Always, None),
    ] {
        let store = CountingStore::new(MemoryStore::new());
        let mut policy = Policy::new(secs(60)).release(release);
        policy = wait.map_or(policy, |wait| policy.wait(wait));
        let guarded = Guarded::on(store.clone(), policy);
        let body = || async {
            sleep(millis(100)).await;
            Ok(())
        };
        let ends = join_all((0..1000).map(|_| guarded.run(1, body()))).await;
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
        let sent = if release == Release::Never { 1 } else { 2 };
        assert_eq!(store.counts().total(), sent, "{release:?} {wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiting_calls_share_one_result() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let body = || async {
        sleep(millis(100)).await;
        Ok::<_, Error>("receipt".to_owned())
    };
    let ends = join_all((0..1000).map(|_| guarded.replaying(1, body()))).await;
    assert!(
        ends.iter()
            .all(|end| end.as_ref().is_ok_and(|text| text == "receipt"))
    );
    assert_eq!(store.counts().total(), 2);
}

#[tokio::test(start_paused = true)]
async fn many_equal_calls_share_the_claims_to_a_slow_store() {
    let slow = FaultyStore::new(MemoryStore::new());
    slow.always(Op::Claim, Fault::Delay(millis(600)));
    let store = CountingStore::new(slow);
    let guarded = Guarded::on(store.clone(), policy());
    let calls = (0..1000).map(|_| guarded.run(1, yielding(Ok(()))));
    let ends = join_all(calls).await;
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
    let claims = store.counts().claim;
    assert!(claims <= 10, "{claims} claims");
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_share_the_answer_about_a_foreign_record() {
    let slow = FaultyStore::new(MemoryStore::new());
    let store = CountingStore::new(slow.clone());
    let guarded = Guarded::on(store.clone(), policy());
    let foreign = Bytes::from_static(b"foreign");
    let put = store.claim(&guarded.key(1), &foreign, secs(9)).await;
    put.unwrap();
    store.reset();
    slow.always(Op::Claim, Fault::Delay(millis(1)));
    for refused in join_all((0..10).map(|_| guarded.run(1, forever()))).await {
        assert_eq!(refused.unwrap_err().refusal().code(), "foreign_record");
    }
    assert_eq!(store.counts().claim, 1);
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_one_waiting_call_claims_for_all() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let failing = async {
        sleep(secs(1)).await;
        Err::<(), _>(())
    };
    let body = || async {
        sleep(secs(1)).await;
        Ok(())
    };
    let waiting = join_all((0..20).map(|_| guarded.run(1, body())));
    let (_, ended) = tokio::join!(guarded.run(1, failing), waiting);
    assert_eq!(ended.iter().filter(|end| end.is_ok()).count(), 1);
    assert_eq!(store.counts().claim, 2);
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_one_waiting_call_claims_for_all_on_a_slow_store() {
    let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    // A round trip takes time, as in every store on a server.
    store.always(Op::Claim, Fault::Delay(millis(1)));
    // The body outlasts the deadline of the handle. The waiting calls still follow the next leader.
    let failing = async {
        sleep(secs(2)).await;
        store.inner().reset();
        Err::<(), _>(())
    };
    let succeeds = || async {
        sleep(secs(1)).await;
        Ok(())
    };
    let waiting = join_all((0..100).map(|_| guarded.run(1, succeeds())));
    let (failed, ended) = tokio::join!(guarded.run(1, failing), waiting);
    assert!(failed.is_err());
    assert_eq!(ended.iter().filter(|end| end.is_ok()).count(), 1);
    let claims = store.inner().counts().claim;
    assert!(
        claims <= 2,
        "{claims} claims for one key that was freed once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_result_is_shared_only_after_it_is_stored() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let first = async {
        store.always(Op::Replace, Fault::Hang);
        Ok::<_, Error>(7)
    };
    let begun = Instant::now();
    let heals = async {
        sleep(secs(2)).await;
        store.heal();
    };
    let second = guarded.replaying(1, async { Ok(8) });
    let (first, second, ()) = tokio::join!(guarded.replaying(1, first), second, heals);
    assert_eq!((first.unwrap(), second.unwrap()), (7, 7));
    assert!(begun.elapsed() >= secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_result_recorded_in_the_background_is_shared_without_a_claim() {
    let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    store.next(Op::Replace, Fault::Hang);
    let first = timeout(millis(100), guarded.replaying(1, async { Ok(7_u64) }));
    let (first, second) = tokio::join!(first, guarded.replaying(1, never::<u64>()));
    first.unwrap_err();
    assert_eq!(second.unwrap(), 7);
    assert_eq!(store.inner().counts().claim, 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_not_stored_is_not_shared() {
    let guarded = Guarded::in_memory(policy().wait(secs(5)));
    let body = async {
        sleep(millis(100)).await;
        // An operator frees the key, and a foreign record takes it.
        let entry = guarded.entry(1).await.unwrap();
        let key = guarded.key(1);
        guarded.store.remove(&key, &entry.value).await.unwrap();
        let other = Bytes::from_static(b"foreign");
        guarded.store.claim(&key, &other, secs(60)).await.unwrap();
        Ok(7_u64)
    };
    let (first, second) = tokio::join!(
        guarded.replaying(1, body),
        guarded.replaying(1, never::<u64>())
    );
    assert_eq!(first.unwrap(), 7);
    assert_eq!(second.unwrap_err().code(), "foreign_record");
}

#[tokio::test(start_paused = true)]
async fn a_call_during_a_claim_gets_the_answer_of_the_store() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Delay(millis(100)));
    let mut first = Box::pin(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(guarded.call(1).claim());
    assert!(
        second.as_mut().now_or_never().is_none(),
        "the answer of the store is not known yet"
    );
    let _held = first.await.unwrap();
    assert_eq!(second.await.unwrap_err().error().code(), "in_progress");
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_claim_the_next_call_claims() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Fail(StoreErrorKind::Misconfigured));
    let calls = (0..3).map(|_| guarded.run(1, yielding(Ok(()))));
    let ends = join_all(calls).await;
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_claim_does_not_block_other_calls() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Delay(millis(10)));
    let mut first = Box::pin(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let begun = Instant::now();
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_a_dropped_claim_the_next_call_runs() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::LoseReply);
    let mut first = Box::pin(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let second = guarded.run(1, yielding(Ok(())));
    let third = async {
        drop(first);
        guarded.settled().await;
    };
    let (second, ()) = tokio::join!(second, third);
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_lease_another_call_runs_although_the_body_continues() {
    let policy = Policy::new(secs(60))
        .lease(secs(10))
        .renew(Renew::No)
        .on_lease_lost(OnLeaseLost::Continue);
    let guarded = Guarded::in_memory(policy);
    let (go, gone) = oneshot::channel::<()>();
    let first = async {
        let _ = gone.await;
        Ok(())
    };
    let second = async {
        sleep(secs(12)).await;
        guarded.run(1, yielding(Ok(()))).await.unwrap();
        go.send(()).unwrap();
    };
    let (first, ()) = tokio::join!(guarded.run(1, first), second);
    first.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_dropped_body_a_duplicate_asks_the_store() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let mut first = Box::pin(guarded.run(1, forever()));
    assert!(first.as_mut().now_or_never().is_none());
    drop(first);
    store.reset();
    let refused = guarded.call(1).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "in_progress");
    assert_eq!(store.counts().claim, 1);
}

#[tokio::test(start_paused = true)]
async fn handles_share_nothing_but_the_store() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let _held = guarded.call(1).claim().await.unwrap();
    store.reset();
    guarded.call(1).claim().await.unwrap_err();
    assert_eq!(store.counts().claim, 0, "a clone of the handle");
    guarded.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(store.counts().claim, 1, "another handle");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_the_same_process_is_refused_during_an_outage() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let _held = guarded.call(1).claim().await.unwrap();
    store.always(Op::Claim, Fault::Hang);
    let begun = Instant::now();
    let refused = guarded.call(1).claim().await.unwrap_err();
    assert_eq!(
        (refused.error().code(), begun.elapsed()),
        ("in_progress", secs(0))
    );
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_calls_share_their_claims_and_fail_within_the_deadline() {
    let away = FaultyStore::new(MemoryStore::new());
    away.always(Op::Claim, Fault::Hang);
    let store = CountingStore::new(away);
    let guarded = Guarded::on(store.clone(), policy());
    let begun = Instant::now();
    let calls = (0..1000).map(|_| guarded.call(1).claim());
    for end in join_all(calls).await {
        assert_eq!(end.unwrap_err().error().code(), "store_unavailable");
    }
    assert!(begun.elapsed() < millis(1500), "{:?}", begun.elapsed());
    assert!(store.counts().claim <= 20, "{:?}", store.counts());
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_fail_together_when_the_store_fails() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(60)));
    let failing = async {
        sleep(secs(1)).await;
        store.always(Op::Claim, Fault::Hang);
        Err::<(), _>(())
    };
    let begun = Instant::now();
    let waiting = join_all((0..30).map(|_| guarded.run(1, yielding(Ok(())))));
    let (_, ends) = tokio::join!(guarded.run(1, failing), waiting);
    for end in ends {
        assert_eq!(end.unwrap_err().refusal().code(), "store_unavailable");
    }
    assert!(begun.elapsed() < secs(3), "{:?}", begun.elapsed());
}
