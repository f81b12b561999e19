//! Which responses are stored, and what a replay is.

use std::time::Duration;

use futures_util::future::join_all;
use idempotence::testkit::CountingStore;
use idempotence::{Idempotency, MemoryStore};
use support::forging::Forging;
use tonic::{Code, Status};

use crate::bank::{Bank, MAX_WAIT, guarding, idempotency, keyed, plain, within};
use crate::rpc::{PAY, PayReply};

const MARKER: &str = "idempotency-replayed";

/// What a client sees of a status.
fn seen(status: &Status) -> (Code, String, Vec<u8>, Option<String>) {
    let run = status.metadata().get("x-run");
    (
        status.code(),
        status.message().to_owned(),
        status.details().to_vec(),
        run.map(|run| run.to_str().unwrap().to_owned()),
    )
}

#[tokio::test]
async fn a_replay_is_the_first_response_with_its_metadata() {
    let bank = Bank::start().await;
    let first = bank.pay(keyed("a", "7")).await.unwrap();
    let replay = bank.pay(keyed("a", "7")).await.unwrap();
    assert_eq!(bank.runs(), 1);
    assert!(!first.metadata().contains_key(MARKER));
    assert_eq!(replay.metadata().get(MARKER).unwrap(), "true");
    for reply in [&first, &replay] {
        assert_eq!(reply.get_ref(), &PayReply { receipt: 1 });
        assert_eq!(reply.metadata().get("x-run").unwrap(), "1");
        let links: Vec<_> = reply.metadata().get_all("x-link").iter().collect();
        assert_eq!(links, ["a", "b"]);
    }
}

#[tokio::test]
async fn a_stored_status_is_replayed_with_its_message_details_and_metadata() {
    for code in [Code::NotFound, Code::AlreadyExists] {
        let bank = Bank::start().await;
        let order = format!("status {}", code as i32);
        let first = bank.pay(keyed("a", &order)).await.unwrap_err();
        let replay = bank.pay(keyed("a", &order)).await.unwrap_err();
        assert_eq!((first.code(), bank.runs()), (code, 1));
        assert_eq!(first.message(), "run 1: 100 % sûr");
        assert_eq!(seen(&first), seen(&replay));
        assert!(!first.metadata().contains_key(MARKER));
        assert_eq!(replay.metadata().get(MARKER).unwrap(), "true");
    }
}

#[tokio::test]
async fn a_status_that_is_not_final_frees_the_key() {
    let bank = Bank::start().await;
    let released = [2, 3, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    for (at, code) in released.into_iter().enumerate() {
        let order = format!("status {code}");
        for run in 1..=2 {
            let status = bank
                .pay(keyed(&code.to_string(), &order))
                .await
                .unwrap_err();
            assert_eq!(status.code(), Code::from_i32(code));
            assert_eq!(bank.runs(), 2 * at + run);
        }
    }
}

#[tokio::test]
async fn a_method_that_was_stopped_in_the_middle_holds_its_key() {
    for code in [Code::Cancelled, Code::DeadlineExceeded] {
        let bank = Bank::start().await;
        let order = format!("status {}", code as i32);
        let first = bank.pay(keyed("a", &order)).await.unwrap_err();
        assert_eq!(first.code(), code);
        let held = bank.pay(keyed("a", &order)).await.unwrap_err();
        let name = held.metadata().get("idempotence-code").unwrap();
        assert_eq!(
            (held.code(), name.to_str().unwrap()),
            (Code::AlreadyExists, "outcome_unknown")
        );
        assert_eq!(bank.runs(), 1);
    }
}

#[tokio::test]
async fn a_method_decides_about_its_key() {
    for (what, error) in [("decide", true), ("reply", false)] {
        let bank = Bank::start().await;
        for (decision, runs) in [("store", 1), ("release", 2), ("hold", 1)] {
            let order = format!("{what} {decision}");
            let before = bank.runs();
            let first = bank.pay(keyed(decision, &order)).await;
            let second = bank.pay(keyed(decision, &order)).await;
            assert_eq!(first.is_err(), error, "{order}");
            assert_eq!(bank.runs() - before, runs, "{order}");
            assert_eq!(second.is_err(), error || decision == "hold", "{order}");
            for status in [first.err(), second.err()].into_iter().flatten() {
                assert!(!status.metadata().contains_key("idempotence-decision"));
            }
        }
    }
}

#[tokio::test]
async fn a_refused_call_of_the_method_frees_the_key() {
    let bank = Bank::start().await;
    for run in 1..=2 {
        let status = bank.pay(keyed("a", "refused inner")).await.unwrap_err();
        // It is not stored, although `ALREADY_EXISTS` of the method itself is.
        assert_eq!((status.code(), bank.runs()), (Code::AlreadyExists, run));
    }
}

#[tokio::test]
async fn a_response_that_is_too_large_runs_once() {
    let idempotency = idempotency();
    let layer = guarding(&idempotency).response_limit(4);
    let bank = Bank::of(idempotency, layer).await;
    assert!(bank.pay(keyed("a", "7")).await.is_ok());
    let status = bank.pay(keyed("a", "7")).await.unwrap_err();
    let code = status.metadata().get("idempotence-code").unwrap();
    assert_eq!(
        (status.code(), code.to_str().unwrap()),
        (Code::AlreadyExists, "result_unavailable")
    );
    assert_eq!(bank.runs(), 1);
}

#[tokio::test]
async fn equal_calls_at_once_run_once() {
    let idempotency = idempotency();
    let layer = guarding(&idempotency).wait(MAX_WAIT);
    let bank = Bank::of(idempotency, layer).await;
    let replies = join_all((0..50).map(|_| bank.pay(keyed("a", "7")))).await;
    for reply in replies {
        assert_eq!(reply.unwrap().into_inner().receipt, 1);
    }
    assert_eq!(bank.runs(), 1);
}

#[tokio::test]
async fn a_call_that_its_client_gives_up_runs_to_its_end() {
    let idempotency = idempotency();
    let layer = guarding(&idempotency).wait(MAX_WAIT);
    let bank = Bank::of(idempotency, layer).await;
    let mut limit = Duration::from_millis(50);
    // On a busy machine a call may be given up before it runs, so then there is another one.
    while bank.runs() == 0 {
        let mut request = keyed("a", "wait");
        request.set_timeout(limit);
        let timeout = bank.pay(request).await.unwrap_err();
        assert!(
            matches!(timeout.code(), Code::Cancelled | Code::DeadlineExceeded),
            "{timeout:?}"
        );
        limit *= 2;
        assert!(limit < Duration::from_mins(1), "no call runs");
    }
    let (reply, ()) = tokio::join!(bank.pay(keyed("a", "wait")), async { bank.end() });
    assert_eq!(reply.unwrap().into_inner().receipt, 1);
    assert_eq!(bank.runs(), 1);
    within(bank.idempotency.drain(MAX_WAIT)).await.unwrap();
}

#[tokio::test]
async fn a_call_without_a_key_costs_nothing() {
    let store = CountingStore::new(MemoryStore::new());
    let idempotency = idempotence::Idempotency::new(store.clone());
    let layer = guarding(&idempotency).for_route(PAY, |pay| pay);
    let bank = Bank::of(idempotency, layer).await;
    for _ in 0..2 {
        assert!(bank.pay(plain("7")).await.is_ok());
    }
    assert_eq!((bank.runs(), store.counts().total()), (2, 0));
}

#[tokio::test]
async fn a_forged_response_does_not_reach_the_wire() {
    let idempotency = Idempotency::new(Forging::new());
    let layer = guarding(&idempotency);
    let bank = Bank::of(idempotency, layer).await;
    bank.pay(keyed("a", "7")).await.unwrap();
    let refused = bank.pay(keyed("a", "7")).await.unwrap_err();
    let name = refused.metadata().get("idempotence-code").unwrap();
    assert_eq!(name.to_str().unwrap(), "result_unavailable");
    assert_eq!(bank.runs(), 1);
}
