//! Errors after which it is not known whether the work is done: the option `hold_err`.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::private::{Call, replaying, returns, returns_with};
use idempotent_runtime::{
    DuplicateState, Error, Idempotency, MemoryStore, Policy, Release, StoreErrorKind,
};
use tokio::time::{sleep, timeout};

use crate::protocol::fences;
use crate::protocol::guarded::{Guarded, answered, secs};

#[derive(Debug)]
pub(super) enum PayError {
    Timeout,
    Declined,
    Refused(Error),
}

impl From<Error> for PayError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl PayError {
    fn is_unknown(&self) -> bool {
        matches!(self, Self::Timeout)
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Declined => "declined",
            Self::Refused(error) => error.code(),
        }
    }
}

pub(super) type Paid = Result<u64, PayError>;

/// Runs a call with the option `hold_err`, with the code that the attribute writes. Returns the code of its error.
pub(super) async fn pay(guarded: &Guarded, body: impl Future<Output = Paid>) -> &'static str {
    pay_by(guarded.call(1), body).await
}

async fn pay_by(call: Call, body: impl Future<Output = Paid>) -> &'static str {
    let returns = returns::<Paid>().hold_err(PayError::is_unknown);
    let paid = answered(returns, call, body).await;
    paid.map_or_else(|error| error.code(), |_| "paid")
}

fn never() -> impl Future<Output = Paid> {
    poll_fn(|_| panic!("the body of a duplicate ran"))
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_holds_the_key_for_the_whole_ttl() {
    for release in [Release::OnError, Release::Always, Release::Never] {
        let guarded = Guarded::in_memory(Policy::new(secs(60)).release(release));
        // With `release = false` the ttl of the claim ends before the body does.
        let body = async {
            sleep(secs(100)).await;
            Err(PayError::Timeout)
        };
        assert_eq!(pay(&guarded, body).await, "timeout", "{release:?}");
        assert_eq!(guarded.taken_for(1).await, Some(secs(60)), "{release:?}");
        for process in [&guarded, &guarded.elsewhere()] {
            let refused = pay(process, never()).await;
            assert_eq!(refused, "outcome_unknown", "{release:?}");
        }
        sleep(secs(61)).await;
        assert_eq!(pay(&guarded, async { Ok(1) }).await, "paid", "{release:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_errors_free_the_key_and_successes_are_recorded() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)));
    let declined = async { Err(PayError::Declined) };
    assert_eq!(pay(&guarded, declined).await, "declined");
    assert_eq!(guarded.taken_for(1).await, None);
    assert_eq!(pay(&guarded, async { Ok(1) }).await, "paid");
    assert_eq!(pay(&guarded, never()).await, "already_done");
}

#[tokio::test(start_paused = true)]
async fn the_record_of_an_unknown_outcome_is_a_running_call_with_a_mark() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)));
    pay(&guarded, async { Err(PayError::Timeout) }).await;
    let record = guarded.entry(1).await.unwrap().value;
    let line = String::from_utf8(record.to_vec()).unwrap();
    assert!(line.starts_with("idem2 R "), "{line}");
    assert!(line.contains(" 60000 "), "{line}");
    assert!(line.ends_with(" - unencodable\n"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_an_unknown_outcome_does_not_wait() {
    let guarded = Guarded::in_memory(Policy::new(secs(3600)).wait(secs(600)));
    pay(&guarded, async { Err(PayError::Timeout) }).await;
    for process in [&guarded, &guarded.elsewhere()] {
        let refused = timeout(secs(1), pay(process, never())).await.unwrap();
        assert_eq!(refused, "outcome_unknown");
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_that_waits_for_a_running_call_learns_that_its_outcome_is_unknown() {
    let guarded = Guarded::in_memory(Policy::new(secs(3600)).wait(secs(600)));
    let first = async {
        sleep(secs(5)).await;
        Err(PayError::Timeout)
    };
    let elsewhere = guarded.elsewhere();
    let (first, here, there) = tokio::join!(
        pay(&guarded, first),
        pay(&guarded, never()),
        pay(&elsewhere, never())
    );
    let expected = ["timeout", "outcome_unknown", "outcome_unknown"];
    assert_eq!([first, here, there], expected);
}

#[tokio::test(start_paused = true)]
async fn the_error_says_what_was_called_since_when_and_how_to_find_out() {
    let guarded = Guarded::in_memory(Policy::new(secs(3600)));
    pay(&guarded, async { Err(PayError::Timeout) }).await;
    sleep(secs(5)).await;
    let returns = returns::<Paid>().hold_err(PayError::is_unknown);
    let refused = answered(returns, guarded.call(1), never()).await;
    let Err(PayError::Refused(error)) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.is_duplicate() && !error.is_silent());
    assert_eq!(
        (error.http_status(), error.client_action().as_str()),
        (409, "refresh")
    );
    let text = error.to_string();
    let (site, what) = text.split_once(": ").unwrap();
    assert!(site.starts_with("call of `test.pay` with key "), "{text}");
    assert!(what.contains("an equal call ended "), "{text}");
    assert!(
        what.contains("find out what it did before you repeat it"),
        "{text}"
    );
    assert!(what.contains("`Idempotency::forget`"), "{text}");
    assert_eq!(error.duplicate().unwrap().state(), DuplicateState::Unknown);
}

#[tokio::test(start_paused = true)]
async fn forget_frees_the_key_of_an_unknown_outcome() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)));
    pay(&guarded, async { Err(PayError::Timeout) }).await;
    let peek = guarded.idempotency.peek("test.pay", &(1_u64,)).await;
    let peek = peek.unwrap().unwrap();
    assert_eq!(peek.state(), DuplicateState::Unknown);
    assert!(guarded.idempotency.forget(&peek).await.unwrap());
    assert_eq!(pay(&guarded, async { Ok(1) }).await, "paid");
}

/// `on_duplicate` usually makes a success, which would acknowledge a message whose work may not be done.
#[tokio::test(start_paused = true)]
async fn on_duplicate_does_not_answer_for_an_unknown_outcome() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let call = || {
        let call = idempotency.call("orders.pay").key(&1).ttl(secs(60));
        call.hold_err(PayError::is_unknown).on_duplicate(|_| Ok(0))
    };
    let first: Paid = call().run(async { Err(PayError::Timeout) }).await;
    assert_eq!(first.unwrap_err().code(), "timeout");
    let second: Paid = call().run(never()).await;
    assert_eq!(second.unwrap_err().code(), "outcome_unknown");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_not_replayed_and_is_no_success() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).replay());
    let call = |outcome: Result<u64, String>| {
        let returns =
            returns_with::<Result<u64, String>, _>(|error: Error| error.code().to_owned());
        let returns = replaying(returns.success(|_| true)).replay_err(|_| true);
        let returns = returns.hold_err(|error| error == "timeout");
        answered(returns, guarded.call(1), async { outcome })
    };
    assert_eq!(
        call(Err("timeout".to_owned())).await,
        Err("timeout".to_owned())
    );
    assert_eq!(call(Ok(1)).await, Err("outcome_unknown".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_stored_in_one_command_and_again_after_a_lost_reply() {
    let counting = Arc::new(CountingStore::new(MemoryStore::new()));
    let guarded = Guarded::on(Arc::clone(&counting), Policy::new(secs(60)));
    pay(&guarded, async { Err(PayError::Timeout) }).await;
    assert_eq!(counting.counts().total(), 2);
    let faulty = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(faulty.clone(), Policy::new(secs(60)));
    faulty.next(Op::Replace, Fault::LoseReply);
    pay(&guarded, async { Err(PayError::Timeout) }).await;
    guarded.settled().await;
    assert_eq!(faulty.remaining_faults(), 0);
    assert_eq!(pay(&guarded.elsewhere(), never()).await, "outcome_unknown");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_that_finds_no_room_keeps_the_key_and_is_marked_later() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)).lease(secs(10)));
    store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    pay(&guarded, async { Err(PayError::Timeout) }).await;
    assert_eq!(guarded.taken_for(1).await, Some(secs(60)));
    guarded.settled().await;
    assert_eq!(store.remaining_faults(), 0);
    for process in [&guarded, &guarded.elsewhere()] {
        assert_eq!(pay(process, never()).await, "outcome_unknown");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_gives_no_token_back() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).give_back());
    let tokens = guarded.idempotency.tokens();
    let token = tokens.issue(&7_u64, "orders.submit", secs(600)).await;
    let token = token.unwrap();
    let call = |id| guarded.call_with_token(id, token.as_str(), 7, "orders.submit");
    let timeout = async { Err(PayError::Timeout) };
    assert_eq!(pay_by(call(1), timeout).await, "timeout");
    assert_eq!(pay_by(call(1), never()).await, "outcome_unknown");
    assert_eq!(pay_by(call(2), never()).await, "token_used");
}

/// As after a panic: the next holder must look what the earlier one did.
#[tokio::test(start_paused = true)]
async fn the_call_after_an_unknown_outcome_takes_over() {
    let guarded = Guarded::in_memory(fences::policy());
    pay(&guarded, async { Err(PayError::Timeout) }).await;
    sleep(secs(61)).await;
    let (_, attempt, took_over) = fences::facts(&guarded).await;
    assert_eq!((attempt, took_over), (2, true));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_runs_to_its_end_without_its_caller_holds_its_key() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)));
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    let call = guarded.idempotency.call("test.pay").key(&1_u64);
    let call = call.ttl(secs(60)).hold_err(PayError::is_unknown);
    let body = async move {
        sleep(secs(2)).await;
        ended.store(true, Ordering::SeqCst);
        Err(PayError::Timeout)
    };
    let dropped: Result<Paid, _> = timeout(secs(1), call.run_to_end(body)).await;
    dropped.unwrap_err();
    guarded.settled().await;
    assert!(has_ended.load(Ordering::SeqCst));
    assert_eq!(pay(&guarded, never()).await, "outcome_unknown");
}
