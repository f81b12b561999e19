//! Callers that are dropped before their answer, and callers that get no answer.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{
    Error, Event, EventKind, Idempotency, MemoryStore, SeenSet, StoreErrorKind,
};
use tokio::time::{sleep, timeout};

use crate::seen::{DAY, added, is_first, set_of};

const SECOND: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_mins(5);

/// A set on a store with injected faults, and its events.
struct Faulty {
    store: FaultyStore<CountingStore<MemoryStore>>,
    idempotency: Idempotency,
    seen: SeenSet,
    events: Arc<Mutex<Vec<EventKind>>>,
}

impl Faulty {
    fn new() -> Self {
        let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
        let events = Arc::new(Mutex::new(Vec::new()));
        let observer = {
            let events = Arc::clone(&events);
            move |event: &Event<'_>| events.lock().unwrap().push(event.kind())
        };
        let builder = Idempotency::builder(store.clone()).observer(observer);
        let idempotency = builder.build().unwrap();
        Self {
            store,
            seen: set_of(&idempotency, DAY),
            idempotency,
            events,
        }
    }

    /// Waits for the work in the background.
    async fn drained(&self) {
        self.idempotency.drain(MAX_WAIT).await.unwrap();
    }

    fn members(&self) -> usize {
        self.store.inner().inner().len()
    }

    fn take_events(&self) -> Vec<EventKind> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_limit_bounds_how_many_members_are_removed() {
    for (limit, taken_out) in [(0, 0), (2, 2), (3, 3)] {
        let store = FaultyStore::new(MemoryStore::new());
        let handle = Idempotency::builder(store.clone()).cleanup_limit(limit);
        let handle = handle.build().unwrap();
        let seen = set_of(&handle, DAY);
        store.always(Op::SetInsert, Fault::ApplyThenHang);
        for member in 0..3 {
            let first = Box::pin(seen.first_time(&member)).now_or_never();
            assert!(first.is_none(), "{first:?}");
        }
        store.heal();
        handle.drain(MAX_WAIT).await.unwrap();
        for member in 0..3 {
            assert_eq!(is_first(&seen, member).await, member < taken_out, "{limit}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_dropped_before_its_answer_leaves_no_member() {
    for fault in [
        Fault::ApplyThenHang,
        Fault::Hang,
        Fault::LoseReply,
        Fault::Delay(SECOND),
        Fault::ApplyLate(SECOND / 2),
    ] {
        let faulty = Faulty::new();
        faulty.store.always(Op::SetInsert, fault);
        let first = timeout(SECOND / 10, faulty.seen.first_time(&42)).await;
        assert!(first.is_err(), "{fault:?}: {first:?}");
        assert_eq!(
            faulty.take_events(),
            [EventKind::OperationCancelled],
            "{fault:?}"
        );
        faulty.drained().await;
        // Wait until every delayed request has arrived.
        sleep(SECOND).await;
        assert_eq!(faulty.members(), 0, "{fault:?}");
        faulty.store.heal();
        assert!(is_first(&faulty.seen, 42).await, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_dropped_at_any_poll_leaves_no_member() {
    let mut polls = 0;
    loop {
        let faulty = Faulty::new();
        faulty.store.next(Op::SetInsert, Fault::ApplyThenHang);
        faulty.store.next(Op::SetInsert, Fault::LoseReply);
        faulty.store.next(Op::SetInsert, Fault::Delay(SECOND / 10));
        let ended = {
            let mut first = pin!(faulty.seen.first_time(&42));
            let mut remaining = polls;
            poll_fn(|cx| {
                if remaining == 0 {
                    return Poll::Ready(None);
                }
                remaining -= 1;
                first.as_mut().poll(cx).map(Some)
            })
            .await
        };
        if let Some(first) = ended {
            assert!(
                first.unwrap().is_first(),
                "the retry must not find the member of the dropped call"
            );
            assert_eq!(faulty.members(), 1);
            break;
        }
        faulty.drained().await;
        assert_eq!(faulty.members(), 0, "after {polls} polls");
        polls += 1;
    }
    assert!(polls > 4, "{polls}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_refused_by_an_unavailable_store_leaves_no_member() {
    for fault in [Fault::LoseReply, Fault::ApplyThenHang, Fault::Hang] {
        let faulty = Faulty::new();
        faulty.store.always(Op::SetInsert, fault);
        let error = faulty.seen.first_time(&42).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        assert_eq!(
            faulty.take_events(),
            [EventKind::OperationFailed],
            "{fault:?}"
        );
        faulty.drained().await;
        assert_eq!(faulty.members(), 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_add_that_was_refused_at_once_is_not_removed() {
    let faulty = Faulty::new();
    let full = Fault::Fail(StoreErrorKind::Full);
    faulty.store.next(Op::SetInsert, full);
    let error = faulty.seen.first_time(&42).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    faulty.drained().await;
    let counts = faulty.store.inner().counts();
    assert_eq!((counts.set_remove, counts.total()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_does_not_make_the_adder_a_duplicate() {
    for fault in [Fault::LoseReply, Fault::ApplyThenHang] {
        let faulty = Faulty::new();
        faulty.store.next(Op::SetInsert, fault);
        assert!(is_first(&faulty.seen, 42).await, "{fault:?}");
        assert!(!is_first(&faulty.seen, 42).await, "{fault:?}");
        assert_eq!(faulty.members(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_caller_does_not_remove_the_member_of_another_caller() {
    let faulty = Faulty::new();
    let _first = added(&faulty.seen, 42).await;
    faulty.store.next(Op::SetInsert, Fault::ApplyThenHang);
    let second = timeout(SECOND / 10, faulty.seen.first_time(&42)).await;
    assert!(second.is_err());
    faulty.drained().await;
    assert!(!is_first(&faulty.seen, 42).await);
}

#[tokio::test(start_paused = true)]
async fn a_member_is_taken_back_even_if_the_reply_is_lost() {
    for fault in [Fault::LoseReply, Fault::ApplyThenHang] {
        let faulty = Faulty::new();
        let first = added(&faulty.seen, 42).await;
        faulty.store.next(Op::SetRemove, fault);
        assert!(first.take_back().await.unwrap(), "{fault:?}");
        assert_eq!(faulty.members(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn taking_back_continues_after_a_drop() {
    let faulty = Faulty::new();
    let first = added(&faulty.seen, 42).await;
    faulty.store.next(Op::SetRemove, Fault::Hang);
    let back = timeout(SECOND / 10, first.take_back()).await;
    assert!(back.is_err());
    faulty.drained().await;
    assert!(is_first(&faulty.seen, 42).await);

    let again = added(&faulty.seen, 43).await;
    faulty.store.always(Op::SetRemove, Fault::Hang);
    let error = again.take_back().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    faulty.store.heal();
    faulty.drained().await;
    assert!(is_first(&faulty.seen, 43).await);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_be_removed_is_reported() {
    let faulty = Faulty::new();
    faulty.store.always(Op::SetInsert, Fault::LoseReply);
    faulty.store.always(Op::SetRemove, Fault::Hang);
    faulty.seen.first_time(&42).await.unwrap_err();
    faulty.drained().await;
    let expected = [EventKind::OperationFailed, EventKind::NotWithdrawn];
    assert_eq!(faulty.take_events(), expected);
}
