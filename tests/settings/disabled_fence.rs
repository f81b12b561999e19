//! The setting `disabled` and the option `fence`: a resource that compares numbers accepts the calls of a disabled endpoint.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Error, Event, Idempotency, MemoryStore, Settings, StoreErrorKind};
use tokio::time::{sleep, timeout};

use crate::{File, secs};

const SWITCH: &str = "[all]\ndisabled = true";

struct Stock {
    file: File,
    store: FaultyStore<MemoryStore>,
    handle: Idempotency,
    events: Arc<Mutex<Vec<String>>>,
}

/// What a body knows of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    fence: i64,
    guarded: bool,
    attempt: Option<u32>,
    took_over: Option<bool>,
}

impl Stock {
    fn open() -> Self {
        let (file, store) = (File::new(""), FaultyStore::new(MemoryStore::new()));
        let events = Arc::<Mutex<Vec<String>>>::default();
        let sink = Arc::clone(&events);
        let handle = Idempotency::builder(store.clone())
            .settings(Settings::file(file.path()))
            .observer(move |event: &Event<'_>| {
                sink.lock().unwrap().push(event.to_string());
            });
        let handle = handle.build().unwrap();
        Self {
            file,
            store,
            handle,
            events,
        }
    }

    async fn set(&self, settings: &str) {
        self.file.write(settings);
        self.handle.reload().await.unwrap();
    }

    /// Packs an order in a body that takes this long.
    async fn pack(&self, takes: u64) -> Run {
        let call = self.handle.call("orders.pack").key(&7).ttl(secs(60));
        let call = call.release(idempotent_runtime::Release::Always).fence();
        let run = call.run_with(async |cx| {
            sleep(secs(takes)).await;
            Ok::<_, Error>(Run {
                fence: cx.try_fence()?,
                guarded: cx.is_guarded(),
                attempt: cx.attempt(),
                took_over: cx.took_over(),
            })
        });
        run.await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_disabled_call_draws_a_number_between_the_guarded_runs_before_and_after() {
    let stock = Stock::open();
    let mut last = 0;
    for (settings, guarded, attempt) in [
        (SWITCH, false, None),
        ("", true, Some(1)),
        (SWITCH, false, None),
        ("", true, Some(1)),
    ] {
        stock.set(settings).await;
        for _ in 0..2 {
            let run = stock.pack(0).await;
            assert!(run.fence > last, "{run:?} after {last}");
            assert_eq!((run.guarded, run.attempt), (guarded, attempt));
            assert_eq!(run.took_over, guarded.then_some(false));
            last = run.fence;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_disabled_call_does_not_hide_the_end_or_the_death_of_the_holder_beside_it() {
    for dies in [false, true] {
        let stock = Stock::open();
        let holder = async {
            let pack = timeout(secs(20), stock.pack(if dies { 30 } else { 10 }));
            pack.await.is_ok()
        };
        let beside = async {
            sleep(secs(1)).await;
            stock.set(SWITCH).await;
            stock.pack(0).await
        };
        let (ended, beside) = tokio::join!(holder, beside);
        assert_eq!(ended, !dies);
        stock.set("").await;
        sleep(secs(100)).await;
        let next = stock.pack(0).await;
        assert!(next.fence > beside.fence);
        assert_eq!(next.took_over, Some(dies));
    }
}

#[tokio::test(start_paused = true)]
async fn disabled_calls_at_the_same_time_draw_different_numbers() {
    let stock = Stock::open();
    stock.set(SWITCH).await;
    for op in [Op::Claim, Op::Replace] {
        stock.store.always(op, Fault::Delay(secs(1) / 1000));
    }
    let runs = join_all((0..4).map(|_| stock.pack(0))).await;
    let mut numbers: Vec<_> = runs.iter().map(|run| run.fence).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "{runs:?}");
    assert!(numbers[0] > 0, "{runs:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_store_a_disabled_body_runs_with_the_number_zero_and_an_error_in_the_log() {
    for fault in [Fault::Fail(StoreErrorKind::NotApplied), Fault::Hang] {
        let stock = Stock::open();
        stock.set(SWITCH).await;
        stock.store.always_all(fault);
        let begun = tokio::time::Instant::now();
        assert_eq!(stock.pack(0).await.fence, 0);
        assert!(begun.elapsed() <= secs(1) + secs(1) / 1000);
        let events = stock.events.lock().unwrap().clone();
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(events[0].contains("the store is unavailable; the body runs unguarded"));
        assert!(events[1].contains("`disabled`"), "{events:?}");
    }
}
