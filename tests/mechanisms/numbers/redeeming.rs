//! One order is inserted per number, with any hint.

use std::collections::HashSet;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::StoreErrorKind;
use idempotent_runtime::store::Hint;
use idempotent_runtime::{Error, Event, EventKind, Idempotency, MemoryStore, OrderNumbers, Placed};
use tokio::sync::Barrier;
use tokio::time::Instant;

use crate::numbers::{SECRET, USER, numbers};

/// A table with a unique index, and the hints that its inserts got.
#[derive(Debug, Clone, Default)]
struct Orders(Arc<Mutex<(HashSet<i64>, Vec<Hint>)>>);

impl Orders {
    fn insert(&self, number: i64, hint: Hint) -> Placed {
        let (orders, hints) = &mut *self.0.lock().unwrap();
        hints.push(hint);
        if orders.insert(number) {
            Placed::New(())
        } else {
            Placed::Again
        }
    }

    async fn place(&self, numbers: &OrderNumbers, text: &str) -> Result<Placed, Error> {
        let insert = async |number, hint| Ok::<_, Error>(self.insert(number, hint));
        numbers.redeem(text, &USER, insert).await
    }

    fn hints(&self) -> Vec<Hint> {
        self.0.lock().unwrap().1.clone()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().0.len()
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_submit_gets_the_same_order_and_a_hint() {
    let store = CountingStore::new(MemoryStore::new());
    let (numbers, orders) = (numbers(store.clone()).await, Orders::default());
    let number = numbers.issue(&USER).unwrap();
    store.reset();
    assert_eq!(
        orders.place(&numbers, number.as_str()).await.unwrap(),
        Placed::New(())
    );
    assert_eq!((store.counts().set_insert, store.counts().total()), (1, 1));
    assert_eq!(
        orders.place(&numbers, number.as_str()).await.unwrap(),
        Placed::Again
    );
    assert_eq!((store.counts().set_insert, store.counts().total()), (2, 2));
    assert_eq!(orders.hints(), [Hint::Unseen, Hint::PerhapsSeen]);
    assert_eq!(
        *orders.0.lock().unwrap().0.iter().next().unwrap(),
        number.value()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_many_concurrent_submits_inserts_the_order() {
    let store = MemoryStore::new();
    let (here, there) = (numbers(store.clone()).await, numbers(store).await);
    for _ in 0..20 {
        let orders = Orders::default();
        let number = here.issue(&USER).unwrap().to_string();
        let barrier = Arc::new(Barrier::new(50));
        let submits = (0..50).map(|submit| {
            let numbers = if submit % 2 == 0 {
                here.clone()
            } else {
                there.clone()
            };
            let (orders, number, barrier) = (orders.clone(), number.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                orders.place(&numbers, &number).await.unwrap()
            })
        });
        let mut new = 0;
        for submit in submits.collect::<Vec<_>>() {
            new += u32::from(submit.await.unwrap() == Placed::New(()));
        }
        assert_eq!((new, orders.count()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_that_was_seen_is_not_refused() {
    let (numbers, orders) = (numbers(MemoryStore::new()).await, Orders::default());
    let number = numbers.issue(&USER).unwrap();
    let rejected = numbers.redeem(number.as_str(), &USER, async |_, _| {
        Err::<Placed, _>(AppError::OutOfStock)
    });
    assert_eq!(
        rejected.await,
        Err(AppError::OutOfStock),
        "the error of the caller is returned"
    );
    assert_eq!(
        orders.place(&numbers, number.as_str()).await.unwrap(),
        Placed::New(())
    );
    assert_eq!(orders.hints(), [Hint::PerhapsSeen]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_submit_leaves_at_most_a_hint() {
    let store = MemoryStore::new();
    let (numbers, orders) = (numbers(store.clone()).await, Orders::default());
    let number = numbers.issue(&USER).unwrap();
    let hanging = numbers.redeem(number.as_str(), &USER, async |_, _| {
        pending::<Result<Placed, Error>>().await
    });
    assert!(hanging.now_or_never().is_none());
    assert_eq!(store.len(), 2, "the machine id, and the hint");
    assert_eq!(
        orders.place(&numbers, number.as_str()).await.unwrap(),
        Placed::New(())
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_hint_costs_only_its_time() {
    for fault in [
        Fault::Hang,
        Fault::Fail(StoreErrorKind::Unknown),
        Fault::Fail(StoreErrorKind::Full),
        Fault::Fail(StoreErrorKind::Misconfigured),
        Fault::LoseReply,
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let (numbers, orders) = (numbers(store.clone()).await, Orders::default());
        store.always(Op::SetInsert, fault);
        let began = Instant::now();
        let number = numbers.issue(&USER).unwrap();
        assert_eq!(
            orders.place(&numbers, number.as_str()).await.unwrap(),
            Placed::New(())
        );
        assert!(began.elapsed() <= Duration::from_millis(251), "{fault:?}");
        assert_eq!(
            orders.place(&numbers, number.as_str()).await.unwrap(),
            Placed::Again
        );
        assert_eq!(orders.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_reply_a_number_does_not_count_as_seen() {
    let store = FaultyStore::new(MemoryStore::new());
    let (numbers, orders) = (numbers(store.clone()).await, Orders::default());
    store.next(Op::SetInsert, Fault::LoseReply);
    let number = numbers.issue(&USER).unwrap();
    let _ = orders.place(&numbers, number.as_str()).await.unwrap();
    assert_eq!(store.remaining_faults(), 0);
    assert_eq!(orders.hints(), [Hint::Unseen]);
}

#[tokio::test(start_paused = true)]
async fn a_redeemed_number_and_a_refused_one_are_one_event_each() {
    let events: Arc<Mutex<Vec<EventKind>>> = Arc::default();
    let recorded = Arc::clone(&events);
    let idempotency = Idempotency::builder(MemoryStore::new())
        .observer(move |event: &Event<'_>| {
            assert_eq!(event.endpoint(), "orders");
            recorded.lock().unwrap().push(event.kind());
        })
        .build()
        .unwrap();
    let numbers = OrderNumbers::new(&idempotency, "orders", SECRET)
        .await
        .unwrap();
    let orders = Orders::default();
    let number = numbers.issue(&USER).unwrap();
    let _ = orders.place(&numbers, number.as_str()).await.unwrap();
    let _ = orders.place(&numbers, number.as_str()).await.unwrap();
    assert!(orders.place(&numbers, "made up").await.is_err());
    assert!(numbers.check(number.as_str(), &0).is_err());
    let expected = [
        EventKind::NumberIssued,
        EventKind::FirstSeen,
        EventKind::SeenBefore,
        EventKind::TokenRejected,
        EventKind::TokenRejected,
    ];
    assert_eq!(*events.lock().unwrap(), expected);
}

/// The error type of a caller, which includes the error of this crate.
#[derive(Debug, PartialEq, Eq)]
enum AppError {
    OutOfStock,
    Refused(&'static str),
}

impl From<Error> for AppError {
    fn from(error: Error) -> Self {
        Self::Refused(error.code())
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_becomes_the_error_type_of_the_caller() {
    let numbers = numbers(MemoryStore::new()).await;
    let number = numbers.issue(&USER).unwrap();
    let other = numbers.redeem(number.as_str(), &0, async |_, _| {
        Err::<Placed, _>(AppError::OutOfStock)
    });
    assert_eq!(other.await, Err(AppError::Refused("token_unknown")));
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_the_store_lost_costs_only_an_insert_that_fails() {
    let store = MemoryStore::new();
    let (numbers, orders) = (numbers(store.clone()).await, Orders::default());
    let number = numbers.issue(&USER).unwrap();
    let _ = orders.place(&numbers, number.as_str()).await.unwrap();
    let elsewhere = crate::numbers::numbers(MemoryStore::new()).await;
    assert_eq!(
        orders.place(&elsewhere, number.as_str()).await.unwrap(),
        Placed::Again
    );
    assert_eq!(orders.hints(), [Hint::Unseen, Hint::Unseen]);
    assert_eq!(orders.count(), 1);
}
