//! Calls of the builder: every option of the attribute.

use std::time::Duration;

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::{
    Error, GuardedCall, Idempotency, MemoryStore, OnCancel, OnLeaseLost, OnStoreError, Once,
    Release, Renew, Store,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{forever, never, secs};

fn on(store: &MemoryStore) -> Idempotency {
    Idempotency::new(store.clone())
}

fn pay(idempotency: &Idempotency) -> GuardedCall {
    idempotency
        .call("orders.pay")
        .key(&1_u64)
        .key("a")
        .ttl(secs(60))
        .lease(secs(10))
}

async fn remaining_ttl(store: &impl Store) -> Option<Duration> {
    let key = format!(
        "idem:orders.pay:{}",
        Fingerprint::of(&(1_u64, "a")).unwrap()
    );
    store
        .get(&key)
        .await
        .unwrap()
        .map(|entry| entry.ttl.unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_builder_makes_the_key_of_the_attribute_and_runs_once() {
    let store = MemoryStore::new();
    let idempotency = on(&store);
    let first = pay(&idempotency).run(async { Ok::<_, Error>(1) }).await;
    assert_eq!(first.unwrap(), 1);
    assert_eq!(remaining_ttl(&store).await, Some(secs(60)));
    let again = pay(&idempotency).run(never::<i32>()).await;
    let refused: Error = again.unwrap_err();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_makes_its_own_call_is_refused_after_its_wait() {
    let store = MemoryStore::new();
    let idempotency = on(&store);
    for wait in [None, Some(secs(2))] {
        let began = Instant::now();
        let inner = match wait {
            Some(wait) => pay(&idempotency).wait(wait),
            None => pay(&idempotency),
        };
        let outer = pay(&idempotency).run(async { inner.run(never::<()>()).await });
        let refused: Error = outer.await.unwrap_err();
        assert_eq!(refused.code(), "in_progress");
        assert_eq!(began.elapsed(), wait.unwrap_or_default());
    }
}

#[tokio::test(start_paused = true)]
async fn release_always_frees_the_key_and_release_never_keeps_it() {
    for (release, outcome, expected) in [
        (Release::Always, Ok(()), None),
        (Release::Never, Err(()), Some(secs(65))),
        (Release::OnError, Err(()), None),
    ] {
        let store = MemoryStore::new();
        let idempotency = on(&store);
        let call = idempotency
            .call("orders.pay")
            .key(&1_u64)
            .key("a")
            .ttl(secs(60));
        let call = call.release(release).error(|_| ());
        assert_eq!(call.run(async { outcome }).await, outcome);
        assert_eq!(remaining_ttl(&store).await, expected, "{release:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replayed_result_is_marked_as_replayed() {
    let store = MemoryStore::new();
    let idempotency = on(&store);
    let run = |value: i32| {
        pay(&idempotency)
            .replay()
            .run(async move { Ok::<_, Error>(Once::from(value)) })
    };
    assert_eq!(run(1).await.unwrap(), Once::Executed(1));
    assert_eq!(run(2).await.unwrap(), Once::Replayed(1));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Declined(u8);

#[tokio::test(start_paused = true)]
async fn chosen_errors_are_replayed() {
    let store = MemoryStore::new();
    let idempotency = on(&store);
    let run = |declined: u8| {
        pay(&idempotency)
            .error(|_| Declined(0))
            .replay()
            .replay_err(|error: &Declined| error.0 > 1)
            .run(async move { Err::<i32, _>(Declined(declined)) })
    };
    assert_eq!(run(1).await, Err(Declined(1)), "not chosen");
    assert_eq!(run(2).await, Err(Declined(2)), "chosen");
    assert_eq!(run(3).await, Err(Declined(2)), "replayed");
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_refused() {
    let store = MemoryStore::new();
    let idempotency = on(&store);
    let run = |amount: u64| {
        pay(&idempotency)
            .payload(&amount)
            .run(async { Ok::<_, Error>(()) })
    };
    run(1).await.unwrap();
    assert_eq!(run(2).await.unwrap_err().code(), "payload_mismatch");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_waits() {
    let store = MemoryStore::new();
    let idempotency = on(&store);
    let run = |millis: u64| {
        let body = async move {
            sleep(Duration::from_millis(millis)).await;
            Ok::<_, Error>(millis)
        };
        pay(&idempotency).wait(secs(5)).replay().run(body)
    };
    let (first, second) = tokio::join!(run(1000), run(1));
    assert_eq!((first.unwrap(), second.unwrap()), (1000, 1000));
}

#[tokio::test(start_paused = true)]
async fn the_caller_chooses_success_and_the_answer_to_duplicates() {
    let store = MemoryStore::new();
    let idempotency = on(&store);
    let run = |status: u16| {
        pay(&idempotency)
            .success(|reply: &Result<u16, Error>| matches!(reply, Ok(200)))
            .on_duplicate(|duplicate| {
                assert!(duplicate.endpoint() == "orders.pay");
                Ok(208)
            })
            .run(async move { Ok(status) })
    };
    assert_eq!(run(503).await.unwrap(), 503);
    assert_eq!(run(200).await.unwrap(), 200);
    assert_eq!(run(201).await.unwrap(), 208);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_frees_the_key_or_finishes() {
    let store = MemoryStore::new();
    let idempotency = on(&store);
    let call = || pay(&idempotency).error(|_| ());
    timeout(secs(1), call().on_cancel(OnCancel::Release).run(forever()))
        .await
        .unwrap_err();
    idempotency.drain(secs(5)).await.unwrap();
    assert_eq!(remaining_ttl(&store).await, None);

    let body = async {
        sleep(secs(5)).await;
        Ok::<_, Error>(7)
    };
    let finishing = pay(&idempotency).replay().run_to_end(body);
    timeout(secs(1), finishing).await.unwrap_err();
    idempotency.drain(secs(30)).await.unwrap();
    let replayed = pay(&idempotency).replay().run(async { Ok::<_, Error>(8) });
    assert_eq!(replayed.await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn on_lease_lost_stops_or_continues_the_body() {
    for (on_lease_lost, expected) in [
        (OnLeaseLost::Stop, "lease_lost"),
        (OnLeaseLost::Continue, "ok"),
    ] {
        let store = MemoryStore::new();
        let idempotency = on(&store);
        let call = pay(&idempotency)
            .renew(Renew::No)
            .on_lease_lost(on_lease_lost);
        let body = async {
            sleep(secs(20)).await;
            Ok::<_, Error>(())
        };
        let code = call
            .run(body)
            .await
            .map_or_else(|error| error.code(), |()| "ok");
        assert_eq!(code, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn on_store_error_refuses_or_runs_without_a_store() {
    for (on_store_error, expected) in [
        (OnStoreError::Refuse, "store_unavailable"),
        (OnStoreError::Run, "ok"),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        store.always(Op::Claim, Fault::Hang);
        let idempotency = Idempotency::new(store);
        let call = pay(&idempotency).on_store_error(on_store_error);
        let end = call.run(async { Ok::<_, Error>(()) }).await;
        assert_eq!(end.map_or_else(|error| error.code(), |()| "ok"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_call_is_refused_and_sends_nothing() {
    let store = CountingStore::new(MemoryStore::new());
    let idempotency = Idempotency::new(store.clone());
    let code = async |call: GuardedCall| {
        let end = call.run(never::<()>()).await;
        end.unwrap_err().code()
    };
    let long = "x".repeat(129);
    for name in ["", "a b", "a:b", "{a}", "支付", &long] {
        let call = idempotency.call(name.to_owned()).key(&1).ttl(secs(1));
        assert_eq!(code(call).await, "invalid_key", "{name}");
    }
    let without_ttl = idempotency.call("x").key(&1).ttl_from_settings();
    assert_eq!(code(without_ttl).await, "invalid_policy");
    assert_eq!(store.counts().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_after_the_payload_is_still_a_part_of_the_key() {
    let idempotency = on(&MemoryStore::new());
    for id in [1_u64, 2] {
        let outcome = idempotency
            .call("orders.pay")
            .payload("EUR")
            .key(&id)
            .ttl(secs(60))
            .run(async { Ok::<_, Error>(id) })
            .await;
        assert_eq!(outcome.unwrap(), id);
    }
}

#[tokio::test(start_paused = true)]
async fn the_order_of_options_does_not_matter() {
    let idempotency = on(&MemoryStore::new());
    for _ in 0..2 {
        let outcome = idempotency
            .call("orders.pay")
            .key(&1)
            .ttl(secs(60))
            .success(|outcome: &Result<u8, String>| outcome.as_ref().is_ok_and(|code| *code < 4))
            .error(|error: Error| error.code().to_owned())
            .run(async { Ok(5) })
            .await;
        assert_eq!(
            outcome,
            Ok(5),
            "the outcome is no success, so the body runs again"
        );
    }
}
