//! Batches of calls: a stream of outcomes, several calls at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt as _, Stream as _, StreamExt as _, stream};
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{
    Error, Idempotency, IdempotencyContext, MemoryStore, OnCancel, StoreErrorKind,
};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{forever, secs};

fn handle() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

/// The largest number of bodies that ran at the same time.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    async fn stay(&self) -> Result<(), Error> {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        sleep(Duration::from_millis(10)).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn each_item_has_its_outcome_and_duplicates_are_refused() {
    let (idempotency, bodies) = (handle(), &AtomicUsize::new(0));
    let rows: Vec<(u32, String)> = (0..1000)
        .map(|row| (row % 990, format!("row {row}")))
        .collect();
    let import = idempotency.call("import.row").ttl(secs(60));
    let mut outcomes = import.run_each(&rows, 64, |call, (number, text)| async move {
        let body = async {
            bodies.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Error>(text.len())
        };
        (number, text, call.key(number).run(body).await)
    });
    let (mut imported, mut refused) = (BTreeSet::new(), 0);
    while let Some((number, text, outcome)) = outcomes.next().await {
        match outcome {
            Ok(length) => {
                assert_eq!(length, text.len(), "the outcome belongs to its item");
                assert!(imported.insert(number), "row {number} ran once");
            }
            Err(error) => {
                assert!(error.is_duplicate(), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!((imported.len(), refused), (990, 10));
    assert_eq!(bodies.load(Ordering::Relaxed), 990);
}

#[tokio::test(start_paused = true)]
async fn at_most_limit_calls_run_and_a_limit_of_zero_is_one() {
    for (limit, most) in [(0, 1), (1, 1), (7, 7), (500, 100)] {
        let (idempotency, crowd) = (handle(), &Crowd::default());
        let call = idempotency.call("import.row").ttl(secs(60));
        let outcomes = call.run_each(0..100, limit, |call, row| async move {
            call.key(&row).run(crowd.stay()).await
        });
        assert_eq!(outcomes.count().await, 100);
        assert_eq!(crowd.most.load(Ordering::Relaxed), most, "limit {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_come_as_the_calls_end_and_a_slow_call_delays_no_other() {
    let (idempotency, began) = (handle(), Instant::now());
    let call = idempotency.call("import.row").ttl(secs(60));
    let outcomes = call.run_each([50, 0, 9, 1, 2], 2, |call, delay| async move {
        let body = async {
            sleep(secs(delay)).await;
            Ok::<_, Error>(delay)
        };
        call.key(&delay).run(body).await
    });
    let order: Vec<u64> = outcomes.map(Result::unwrap).collect().await;
    assert_eq!(order, [0, 9, 1, 2, 50]);
    assert_eq!(began.elapsed(), secs(50));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_one_call_stops_no_other() {
    let store = FaultyStore::new(MemoryStore::new());
    store.next(Op::Claim, Fault::Fail(StoreErrorKind::Misconfigured));
    let idempotency = Idempotency::new(store);
    let call = idempotency.call("import.row").ttl(secs(60));
    let call = call.error(|error: Error| error.code().to_owned());
    let outcomes = call.run_each(0..10, 1, |call, row| async move {
        let outcome = if row % 2 == 0 {
            Ok(())
        } else {
            Err("bad row".to_owned())
        };
        (row, call.key(&row).run(ready(outcome)).await)
    });
    let outcomes: BTreeMap<i32, Result<(), String>> = outcomes.collect().await;
    assert_eq!(outcomes.len(), 10);
    for (row, outcome) in outcomes {
        let expected = match row {
            0 => Err("store_misconfigured".to_owned()),
            row if row % 2 == 0 => Ok(()),
            _ => Err("bad row".to_owned()),
        };
        assert_eq!(outcome, expected, "row {row}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_is_taken_when_its_call_begins() {
    let (idempotency, taken) = (handle(), &AtomicUsize::new(0));
    let items = (0..100).inspect(|_| {
        taken.fetch_add(1, Ordering::Relaxed);
    });
    let call = idempotency.call("import.row").ttl(secs(60));
    let mut outcomes = call.run_each(items, 4, |call, row| async move {
        let body = async {
            sleep(secs(row)).await;
            Ok::<_, Error>(())
        };
        call.key(&row).run(body).await
    });
    assert_eq!(
        taken.load(Ordering::Relaxed),
        0,
        "nothing begins before the first poll"
    );
    assert_eq!(outcomes.size_hint(), (100, Some(100)));
    outcomes.next().await.unwrap().unwrap();
    assert_eq!(taken.load(Ordering::Relaxed), 4);
    outcomes.next().await.unwrap().unwrap();
    assert_eq!(taken.load(Ordering::Relaxed), 5);
    assert_eq!(outcomes.size_hint(), (98, Some(98)));
    assert_eq!(outcomes.count().await, 98);
}

#[tokio::test(start_paused = true)]
async fn items_may_come_from_a_stream() {
    let idempotency = handle();
    let rows = stream::unfold(0, |row| async move {
        sleep(secs(1)).await;
        (row < 5).then_some((row, row + 1))
    });
    let call = idempotency.call("import.row").ttl(secs(60));
    let outcomes = call.run_each_of(rows, 8, |call, row| async move {
        call.key(&row).run(ready(Ok::<_, Error>(row))).await
    });
    let rows: Vec<i32> = outcomes.map(Result::unwrap).collect().await;
    assert_eq!(rows, [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_drops_its_calls_and_begins_no_other() {
    for (on_cancel, free) in [(OnCancel::Release, 2), (OnCancel::Keep, 0)] {
        let (idempotency, begun) = (handle(), &AtomicUsize::new(0));
        let template = || {
            let call = idempotency.call("import.row").ttl(secs(600));
            call.error(|_| ()).on_cancel(on_cancel)
        };
        let mut outcomes = template().run_each(0..100, 2, |call, row| async move {
            begun.fetch_add(1, Ordering::Relaxed);
            call.key(&row).run(forever()).await
        });
        timeout(secs(1), outcomes.next()).await.unwrap_err();
        drop(outcomes);
        idempotency.drain(secs(5)).await.unwrap();
        assert_eq!(begun.load(Ordering::Relaxed), 2);
        let again = template().run_each(0..2, 2, |call, row| async move {
            call.key(&row).run(ready(Ok::<_, ()>(()))).await
        });
        let ran = again.filter(|outcome| ready(outcome.is_ok()));
        assert_eq!(ran.count().await, free, "{on_cancel:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_next_drops_no_call_and_loses_no_outcome() {
    let (idempotency, begun) = (handle(), &AtomicUsize::new(0));
    let call = idempotency.call("import.row").ttl(secs(60));
    let mut outcomes = call.run_each(0..3, 3, |call, row| async move {
        let body = async {
            begun.fetch_add(1, Ordering::Relaxed);
            sleep(secs(5)).await;
            Ok::<_, Error>(())
        };
        call.key(&row).run(body).await
    });
    for _ in 0..3 {
        timeout(secs(1), outcomes.next()).await.unwrap_err();
    }
    let ended: Vec<_> = outcomes.collect().await;
    assert!(ended.iter().all(Result::is_ok));
    assert_eq!((ended.len(), begun.load(Ordering::Relaxed)), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_body_comes_out_of_next_and_drops_no_other_call() {
    let (idempotency, begun) = (handle(), &AtomicUsize::new(0));
    let call = idempotency.call("import.row").ttl(secs(60));
    let mut outcomes = call.run_each(0..4, 3, |call, row| async move {
        let body = async {
            begun.fetch_add(1, Ordering::Relaxed);
            sleep(secs(row)).await;
            assert_ne!(row, 1, "a planned panic");
            Ok::<_, Error>(row)
        };
        call.key(&row).run(body).await
    });
    assert_eq!(outcomes.next().await.unwrap().unwrap(), 0);
    let panic = AssertUnwindSafe(outcomes.next()).catch_unwind().await;
    assert!(panic.is_err(), "the panic comes out");
    let others: Vec<_> = outcomes.map(Result::unwrap).collect().await;
    assert_eq!(others, [2, 3]);
    assert_eq!(begun.load(Ordering::Relaxed), 4, "no body ran twice");
    let again = idempotency.call("import.row").ttl(secs(60)).key(&1_u64);
    let refused = again.run(ready(Ok::<_, Error>(1))).await;
    let refused = refused.expect_err("the outcome of the panicked body is unknown");
    assert!(refused.is_duplicate(), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_body_of_a_batch_may_have_its_context() {
    let idempotency = handle();
    let call = idempotency.call("import.row").ttl(secs(60));
    let outcomes = call.run_each(0..3, 2, |call, row| async move {
        let body = async |cx: IdempotencyContext<_>| cx.try_downstream_key("bank.charge");
        call.key(&row).run_with(body).await
    });
    let keys: BTreeSet<_> = outcomes.map(Result::unwrap).collect().await;
    assert_eq!(keys.len(), 3, "each call has its own key");
}

#[tokio::test(start_paused = true)]
async fn each_copy_has_the_parts_and_the_options_of_the_first_call() {
    let idempotency = &handle();
    let run = |tenant: &'static str, payload: &'static str| async move {
        let call = idempotency.call("import.row").key(tenant).payload(payload);
        let call = call.ttl(secs(60)).replay();
        let outcomes = call.run_each([1, 2, 3], 1, |call, row| async move {
            let outcome = call
                .key(&row)
                .run(ready(Ok::<_, Error>(payload.to_owned())))
                .await;
            outcome.unwrap_or_else(|error| error.code().to_owned())
        });
        outcomes.collect::<Vec<_>>().await
    };
    assert_eq!(run("a", "v1").await, ["v1"; 3]);
    assert_eq!(run("a", "v2").await, ["payload_mismatch"; 3]);
    assert_eq!(run("b", "v2").await, ["v2"; 3]);
    let first = idempotency
        .call("import.row")
        .key("a")
        .key(&1)
        .ttl(secs(60))
        .replay();
    let replayed = first.run(ready(Ok::<_, Error>("again".to_owned()))).await;
    assert_eq!(replayed.unwrap(), "v1", "the key is the parts of both");
}

#[tokio::test(start_paused = true)]
async fn a_token_of_the_first_call_is_redeemed_by_one_copy() {
    let idempotency = handle();
    let token = idempotency
        .tokens()
        .issue(&7, "import", secs(60))
        .await
        .unwrap();
    let call = idempotency
        .call("import.row")
        .ttl(secs(60))
        .token(&token, &7, "import");
    let outcomes = call.run_each(0..20, 20, |call, row| async move {
        let outcome = call.key(&row).run(ready(Ok::<_, Error>(()))).await;
        outcome.map_or_else(|error| error.code(), |()| "ok")
    });
    let mut codes: Vec<_> = outcomes.collect().await;
    codes.sort_unstable();
    assert_eq!(codes[0], "ok");
    assert_eq!(codes[1..], ["token_used"; 19]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_name_is_the_error_of_each_item() {
    let idempotency = handle();
    let call = idempotency.call("import row").ttl(secs(60));
    let outcomes = call.run_each(0..3, 2, |call, row| async move {
        let outcome = call.key(&row).run(ready(Ok::<_, Error>(()))).await;
        outcome.unwrap_err().code()
    });
    assert_eq!(outcomes.collect::<Vec<_>>().await, ["invalid_key"; 3]);
}

/// A task must be `Send`, also with borrowed items.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_may_run_in_its_own_task() {
    let idempotency = handle();
    let batch = tokio::spawn(async move {
        let rows: Vec<String> = (0..100).map(|row| row.to_string()).collect();
        let call = idempotency.call("import.row").ttl(secs(60));
        let mut outcomes = call.run_each(&rows, 10, |call, row| async move {
            let body = async {
                yield_now().await;
                Ok::<_, Error>(row.len())
            };
            (row, call.key(row).run(body).await)
        });
        let mut sum = 0;
        while let Some((row, outcome)) = outcomes.next().await {
            sum += outcome.unwrap_or_else(|error| panic!("row {row}: {error}"));
        }
        sum
    });
    assert_eq!(batch.await.unwrap(), 10 + 2 * 90);
}
