//! Replay: duplicates get the result of the first call.

use std::cell::Cell;
use std::fmt::Debug;

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::private::{replaying, returns};
use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{
    DuplicateState, Error, Idempotency, MemoryStore, Once, Policy, Release, Replay, StoreErrorKind,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::protocol::guarded::{Guarded, answered, never, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    no: u64,
    lines: Vec<(String, f64)>,
    note: Option<String>,
}

fn receipt() -> Receipt {
    Receipt {
        no: u64::MAX,
        lines: vec![("a \"b\"\n".to_owned(), 0.1 + 0.2)],
        note: None,
    }
}

/// Runs a first call and a duplicate in another process. Returns the result of the duplicate.
async fn replayed<T: Serialize + DeserializeOwned>(value: T) -> T {
    let guarded = Guarded::in_memory(policy());
    guarded.replaying(1, yielding(Ok(value))).await.unwrap();
    guarded.elsewhere().replaying(1, never()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_gets_the_first_result() {
    assert_eq!(replayed(receipt()).await, receipt());
}

#[tokio::test(start_paused = true)]
async fn empty_values_are_replayed() {
    async fn same<T: Serialize + DeserializeOwned + Clone + PartialEq + Debug>(value: T) {
        assert_eq!(replayed(value.clone()).await, value);
    }
    same(()).await;
    same(0_u8).await;
    same(false).await;
    same(String::new()).await;
    same(Vec::<u8>::new()).await;
    same(None::<u8>).await;
    same(Some(None::<u8>)).await;
    same(Some(Some(0_u8))).await;
    same(Some(())).await;
    for float in [
        f64::NAN,
        f64::INFINITY,
        -0.0,
        f64::MIN_POSITIVE / 3.0,
        0.1 + 0.2,
    ] {
        assert_eq!(replayed(float).await.to_bits(), float.to_bits());
        assert_eq!(
            replayed(Some(float)).await.unwrap().to_bits(),
            float.to_bits()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_costs_one_command_and_a_first_call_two() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    guarded.replaying(1, yielding(Ok(7))).await.unwrap();
    assert_eq!(store.counts().total(), 2);
    store.reset();
    assert_eq!(guarded.replaying(1, never::<i32>()).await.unwrap(), 7);
    assert_eq!(store.counts().total(), 1);
}

#[tokio::test(start_paused = true)]
async fn once_says_whether_the_result_was_replayed() {
    let guarded = Guarded::in_memory(policy());
    let first = guarded.replaying(1, async { Ok(Once::Executed(7)) }).await;
    assert_eq!(first.unwrap(), Once::Executed(7));
    let again = guarded.replaying(1, never::<Once<i32>>()).await;
    assert_eq!(again.unwrap(), Once::Replayed(7));
}

#[tokio::test(start_paused = true)]
async fn a_result_is_replayed_until_the_ttl_ends() {
    let guarded = Guarded::in_memory(policy());
    guarded.replaying(1, yielding(Ok(1))).await.unwrap();
    tokio::time::advance(secs(59)).await;
    assert_eq!(guarded.replaying(1, never::<i32>()).await.unwrap(), 1);
    tokio::time::advance(secs(1)).await;
    assert_eq!(guarded.replaying(1, yielding(Ok(2))).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_stored_and_the_next_call_runs() {
    let guarded = Guarded::in_memory(policy());
    let failed = guarded.call(2).claim().await.unwrap();
    let error = guarded.call(2).claim().await.unwrap_err().into_error();
    guarded
        .replaying(1, async { Err::<u8, _>(error) })
        .await
        .unwrap_err();
    drop(failed);
    assert_eq!(guarded.replaying(1, yielding(Ok(2))).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_no_longer_fits_its_type_is_an_error_and_not_a_second_run() {
    let guarded = Guarded::in_memory(policy());
    guarded.replaying(1, yielding(Ok(receipt()))).await.unwrap();
    for refused in [
        guarded.replaying(1, never::<u64>()).await.unwrap_err(),
        guarded
            .replaying(1, never::<Vec<Receipt>>())
            .await
            .unwrap_err(),
    ] {
        assert_eq!(refused.code(), "result_unavailable");
        assert!(refused.to_string().contains("another type"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_damaged_is_an_error_and_not_a_second_run() {
    let guarded = Guarded::in_memory(policy());
    guarded.replaying(1, yielding(Ok(receipt()))).await.unwrap();
    let whole = guarded.entry(1).await.unwrap().value;
    let start = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut stored = whole.clone();
    for damaged in [
        whole.slice(..start),
        whole.slice(..whole.len() - 1),
        Bytes::from([&whole[..], b"x"].concat()),
        Bytes::from([&whole[..start], &[0xff, 0xfe]].concat()),
    ] {
        let key = guarded.key(1);
        let swap = guarded.store.replace(&key, &stored, &damaged, secs(60));
        swap.await.unwrap();
        let refused = guarded.replaying(1, never::<Receipt>()).await.unwrap_err();
        assert_eq!(refused.code(), "result_unavailable");
        stored = damaged;
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_is_reported_to_duplicates() {
    let guarded = Guarded::in_memory(policy());
    let idempotency = Idempotency::builder(std::sync::Arc::clone(&guarded.store))
        .largest_result(10)
        .build()
        .unwrap();
    let guarded = Guarded {
        idempotency,
        ..guarded
    };
    let (fits, large) = ("12345678".to_owned(), "123456789".to_owned());
    assert_eq!(
        guarded
            .replaying(1, yielding(Ok(fits.clone())))
            .await
            .unwrap(),
        fits
    );
    assert_eq!(guarded.replaying(1, never::<String>()).await.unwrap(), fits);
    assert_eq!(
        guarded
            .replaying(2, yielding(Ok(large.clone())))
            .await
            .unwrap(),
        large
    );
    let refused = guarded.replaying(2, never::<String>()).await.unwrap_err();
    assert_eq!(refused.code(), "result_unavailable");
    assert!(
        refused.is_duplicate() && refused.to_string().contains("too large"),
        "{refused}"
    );
    assert_eq!(guarded.taken_for(2).await, Some(secs(60)));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_encoded_is_reported_to_duplicates() {
    let guarded = Guarded::in_memory(policy());
    let pairs = std::collections::BTreeMap::from([((1, 2), 3)]);
    guarded
        .replaying(1, yielding(Ok(pairs.clone())))
        .await
        .unwrap();
    let refused = guarded.replaying(1, async { Ok(pairs) }).await.unwrap_err();
    assert_eq!(refused.code(), "result_unavailable");
}

#[tokio::test(start_paused = true)]
async fn without_replay_a_stored_result_is_ignored() {
    let guarded = Guarded::in_memory(policy());
    guarded.replaying(1, yielding(Ok(receipt()))).await.unwrap();
    let refused = guarded
        .run(1, yielding(Ok(())))
        .await
        .unwrap_err()
        .refusal();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_done_without_replay_is_already_done() {
    let guarded = Guarded::in_memory(policy());
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    let refused = guarded.replaying(1, never::<u8>()).await.unwrap_err();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn with_release_false_the_result_is_stored_as_long_as_the_claim() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).release(Release::Never));
    let body = async {
        tokio::time::sleep(secs(20)).await;
        Ok(7)
    };
    guarded.replaying(1, body).await.unwrap();
    assert_eq!(guarded.taken_for(1).await, Some(secs(45)));
    assert_eq!(
        guarded
            .elsewhere()
            .replaying(1, never::<i32>())
            .await
            .unwrap(),
        7
    );
}

#[tokio::test(start_paused = true)]
async fn a_success_without_room_in_the_store_does_not_run_again() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    assert_eq!(guarded.replaying(1, yielding(Ok(7))).await.unwrap(), 7);
    let refused = guarded.replaying(1, never::<i32>()).await.unwrap_err();
    assert!(refused.is_duplicate());
    assert_eq!(guarded.taken_for(1).await, Some(secs(60)));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Declined {
    NoMoney(u64),
    TryAgain,
    Refused,
}

impl From<Error> for Declined {
    fn from(_: Error) -> Self {
        Self::Refused
    }
}

async fn charge(guarded: &Guarded, ran: &Cell<u32>, outcome: Declined) -> Result<u8, Declined> {
    let returns = replaying(returns::<Result<u8, Declined>>())
        .replay_err(|error| matches!(error, Declined::NoMoney(_)));
    let body = async {
        ran.set(ran.get() + 1);
        Err(outcome)
    };
    answered(returns, guarded.call(1), body).await
}

#[tokio::test(start_paused = true)]
async fn a_chosen_error_is_stored_and_replayed() {
    let guarded = Guarded::in_memory(policy().replay());
    let ran = Cell::new(0);
    for _ in 0..2 {
        let declined = charge(&guarded, &ran, Declined::NoMoney(5)).await;
        assert_eq!(declined, Err(Declined::NoMoney(5)));
    }
    assert_eq!((ran.get(), guarded.taken_for(1).await), (1, Some(secs(60))));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_not_chosen_frees_the_key() {
    let guarded = Guarded::in_memory(policy().replay());
    let ran = Cell::new(0);
    for _ in 0..2 {
        let declined = charge(&guarded, &ran, Declined::TryAgain).await;
        assert_eq!(declined, Err(Declined::TryAgain));
    }
    assert_eq!((ran.get(), guarded.taken_for(1).await), (2, None));
}

#[tokio::test(start_paused = true)]
async fn a_stored_error_is_not_a_success_for_a_function_without_replay_err() {
    let guarded = Guarded::in_memory(policy().replay());
    let ran = Cell::new(0);
    charge(&guarded, &ran, Declined::NoMoney(5))
        .await
        .unwrap_err();
    let replaying = guarded.replaying(1, never::<u8>()).await.unwrap_err();
    let plain = Guarded {
        policy: policy(),
        ..guarded.clone()
    };
    let plain = plain.run(1, async { Ok(()) }).await.unwrap_err().refusal();
    for refused in [replaying, plain] {
        assert_eq!(refused.code(), "result_unavailable");
        let state = refused.duplicate().unwrap().state();
        assert_eq!(state, DuplicateState::Failed);
        assert!(refused.to_string().contains("`replay_err`"), "{refused}");
    }
    let returns = returns::<Result<u8, Error>>();
    let refused = guarded.call(1).claim().await.unwrap_err();
    let answered = returns.answered(refused, |_| Ok(200));
    assert!(
        answered.is_err(),
        "an answer for successes does not apply to a stored error"
    );
    let peeked = guarded.idempotency.peek("test.pay", &(1_u64,));
    assert_eq!(
        peeked.await.unwrap().unwrap().state(),
        DuplicateState::Failed
    );
}

#[derive(Debug, PartialEq)]
enum Reply {
    Created(u64),
    Refused(&'static str),
}

impl idempotent_runtime::Outcome for Reply {
    fn refused(error: Error) -> Self {
        Self::Refused(error.code())
    }

    fn is_success(&self) -> bool {
        matches!(self, Self::Created(_))
    }
}

impl Replay for Reply {
    type Kept = u64;

    fn kept(&self) -> Option<impl Serialize> {
        match self {
            Self::Created(id) => Some(id),
            Self::Refused(_) => None,
        }
    }

    fn replayed(id: u64) -> Self {
        Self::Created(id)
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_return_type_chooses_what_is_stored() {
    let guarded = Guarded::in_memory(policy().replay());
    for body in [Reply::Created(7), Reply::Refused("never run")] {
        let returns = replaying(returns::<Reply>());
        let reply = answered(returns, guarded.call(1), async { body }).await;
        assert_eq!(reply, Reply::Created(7));
    }
}
