//! Steps in functions with the attribute, and in calls of the builder.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotence::testkit::CountingStore;
use idempotence::{Error, Fenced, Idempotency, IdempotencyContext, MemoryStore, idempotent};

#[derive(Debug)]
enum TripError {
    NoRoom,
    Refused(Error),
}

impl From<Error> for TripError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// How often each provider was asked, and the keys that they got.
#[derive(Default)]
struct Providers {
    flights: AtomicU32,
    hotels: AtomicU32,
    has_room: AtomicU32,
}

#[idempotent(name = "trips.book", key = "trip", ttl = "1h", context = cx)]
async fn book(trip: u64, providers: &Providers) -> Result<String, TripError> {
    let flight = cx
        .step("flight", async || {
            let number = providers.flights.fetch_add(1, Ordering::Relaxed);
            Ok::<_, TripError>(format!("flight {number} by {}", cx.step_key("flight")))
        })
        .await?;
    let hotel: u32 = cx
        .step("hotel", async || {
            let number = providers.hotels.fetch_add(1, Ordering::Relaxed);
            match providers.has_room.load(Ordering::Relaxed) {
                0 => Err(TripError::NoRoom),
                _ => Ok(number),
            }
        })
        .await?;
    Ok(format!("{flight}, hotel {hotel}"))
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_done_is_not_repeated_and_a_step_that_failed_is() {
    let providers = Providers::default();
    let idempotency = Idempotency::new(MemoryStore::new());
    let trip = idempotency.scope(async {
        for _ in 0..2 {
            let failed = book(7, &providers).await;
            match failed {
                Err(TripError::NoRoom) => {}
                Err(TripError::Refused(error)) => panic!("{error}"),
                Ok(trip) => panic!("{trip}"),
            }
        }
        providers.has_room.store(1, Ordering::Relaxed);
        book(7, &providers).await.unwrap()
    });
    let trip = trip.await;
    assert!(
        trip.starts_with("flight 0 by ") && trip.ends_with(", hotel 2"),
        "{trip}"
    );
    assert_eq!(providers.flights.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_the_steps_and_removes_them() {
    let providers = Providers::default();
    let idempotency = Idempotency::new(MemoryStore::new());
    idempotency.scope(book(7, &providers)).await.unwrap_err();
    assert!(
        idempotency
            .peek("trips.book", &(7_u64,))
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        idempotency
            .forget_steps("trips.book", &(7_u64,))
            .await
            .unwrap()
    );
    assert!(
        !idempotency
            .forget_steps("trips.book", &(7_u64,))
            .await
            .unwrap()
    );
    idempotency.scope(book(7, &providers)).await.unwrap_err();
    assert_eq!(providers.flights.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn forget_removes_the_steps_of_a_call_that_died() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let runs = AtomicU32::new(0);
    let call = || {
        let call = idempotency
            .call("trips.book")
            .key(&7)
            .ttl(Duration::from_hours(1));
        call.run_with(async |cx| {
            let step = cx.step("flight", async || {
                Ok::<_, Error>(runs.fetch_add(1, Ordering::Relaxed))
            });
            step.await?;
            std::future::pending::<Result<(), Error>>().await
        })
    };
    let second = Duration::from_secs(1);
    tokio::time::timeout(second, call()).await.unwrap_err();
    let peek = idempotency
        .peek("trips.book", &(7,))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(peek.steps(), ["flight"]);
    assert!(idempotency.forget(&peek).await.unwrap());
    tokio::time::timeout(second, call()).await.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[idempotent(name = "trips.fenced", key = (), ttl = "1h", fence = true, context = cx)]
async fn fenced() -> Result<i64, Error> {
    let helper = async |cx: &IdempotencyContext<Fenced<idempotence::OneIntent>>| {
        cx.step("number", async || Ok::<_, Error>(cx.fence())).await
    };
    helper(&cx).await
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_fence_has_steps_and_removes_them_after_its_success() {
    let store = CountingStore::new(MemoryStore::new());
    let idempotency = Idempotency::new(store);
    let number = idempotency.scope(fenced()).await.unwrap();
    assert!(number > 0);
    idempotency.drain(Duration::from_mins(1)).await.unwrap();
    let peek = idempotency
        .peek("trips.fenced", &())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(peek.steps(), [""; 0]);
}

#[idempotent(name = "trips.unguarded", key = "id", ttl = "1h", when = id.is_some(), context = cx)]
async fn unguarded(id: Option<u64>) -> Result<u32, Error> {
    cx.step("flight", async || Ok(3)).await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_guarded_runs_its_steps_and_records_nothing() {
    let store = CountingStore::new(MemoryStore::new());
    let idempotency = Idempotency::new(store.clone());
    for _ in 0..2 {
        assert_eq!(idempotency.scope(unguarded(None)).await.unwrap(), 3);
    }
    assert_eq!(store.counts().total(), 0);
}
