//! Tests of the storm: its counts are right, and its assertion fails for every way in which a function is not guarded.

use std::future::{Ready, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotence::testkit::{Fault, FaultyStore, Op, StormReport, assert_ran_once, storm};
use idempotent_runtime::{
    Error, GuardedCall, Idempotency, MemoryStore, OnStoreError, Release, StoreErrorKind,
};
use tokio::task::yield_now;

const CALLS: usize = 20;

fn handle() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

fn pay(idempotency: &Idempotency, key: usize) -> GuardedCall {
    let call = idempotency.call("orders.pay").key(&key);
    call.ttl(Duration::from_mins(1))
}

fn nothing() -> Ready<Result<(), Error>> {
    ready(Ok(()))
}

/// The text of the panic of the assertion.
fn complaint<R>(report: &StormReport<R>) -> String {
    let assertion = catch_unwind(AssertUnwindSafe(|| assert_ran_once(report)));
    *assertion.unwrap_err().downcast::<String>().unwrap()
}

#[tokio::test]
async fn one_call_runs_and_the_others_are_refused() {
    let (idempotency, bodies) = (handle(), AtomicUsize::new(0));
    let report = storm(&idempotency, CALLS, |_| {
        pay(&idempotency, 1).run(async {
            bodies.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
            Ok::<_, Error>(())
        })
    });
    let report = report.await;
    assert_ran_once(&report);
    assert_eq!(bodies.into_inner(), 1);
    assert_eq!((report.calls(), report.ran()), (CALLS, 1));
    assert_eq!((report.refused(), report.replayed()), (CALLS - 1, 0));
    assert_eq!(
        (report.failed(), report.unserved(), report.unguarded()),
        (0, 0, 0)
    );
    let ok = report.results().iter().filter(|result| result.is_ok());
    assert_eq!(ok.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn duplicates_that_wait_get_the_result() {
    let idempotency = handle();
    let report = storm(&idempotency, CALLS, |number| {
        let call = pay(&idempotency, 1).replay().wait(Duration::from_secs(5));
        call.run(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Error>(number)
        })
    });
    let report = report.await;
    assert_ran_once(&report);
    assert_eq!((report.ran(), report.replayed()), (1, CALLS - 1));
    let results: Vec<usize> = report
        .into_results()
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(results, [results[0]; CALLS]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_on_several_threads_are_counted() {
    let idempotency = handle();
    let report = storm(&idempotency, CALLS, |_| {
        let call = pay(&idempotency, 1);
        tokio::spawn(call.run(nothing()))
    });
    assert_ran_once(&report.await);
}

#[tokio::test]
async fn calls_find_the_handle_in_their_scope() {
    let idempotency = handle();
    let report = storm(&idempotency, CALLS, |_| async {
        let current = Idempotency::current().expect("the handle of the storm");
        pay(&current, 1).run(nothing()).await
    });
    assert_ran_once(&report.await);
}

#[tokio::test]
async fn a_guarded_body_may_make_a_guarded_call() {
    let idempotency = handle();
    let report = storm(&idempotency, CALLS, |_| {
        let checkout = idempotency
            .call("checkout")
            .key(&1)
            .ttl(Duration::from_mins(1));
        checkout.run(async { pay(&idempotency, 1).run(nothing()).await })
    });
    let report = report.await;
    assert_ran_once(&report);
    assert_eq!(report.ran(), 2);
}

#[tokio::test]
async fn events_before_and_after_the_storm_do_not_count() {
    let idempotency = handle();
    pay(&idempotency, 1).run(nothing()).await.unwrap();
    let report = storm(&idempotency, CALLS, |_| pay(&idempotency, 2).run(nothing())).await;
    pay(&idempotency, 3).run(nothing()).await.unwrap();
    assert_ran_once(&report);
    assert_eq!(report.ran(), 1);
}

#[tokio::test]
async fn an_unguarded_function_fails_the_assertion() {
    let report = storm(&handle(), CALLS, |_| async { "paid" }).await;
    assert_eq!((report.ran(), report.unguarded()), (0, CALLS));
    let complaint = complaint(&report);
    assert!(
        complaint.contains("20 of 20 calls did not use this handle"),
        "{complaint}"
    );
    assert!(complaint.contains("#[idempotent]"), "{complaint}");
}

#[tokio::test]
async fn a_call_on_another_handle_fails_the_assertion() {
    let (idempotency, other) = (handle(), handle());
    let report = storm(&idempotency, CALLS, |number| {
        let used = if number == 7 { &other } else { &idempotency };
        pay(used, 1).run(nothing())
    });
    let report = report.await;
    assert_eq!((report.ran(), report.unguarded()), (1, 1));
    let complaint = complaint(&report);
    assert!(
        complaint.contains("1 of 20 calls did not use this handle"),
        "{complaint}"
    );
}

#[tokio::test]
async fn different_keys_fail_the_assertion() {
    let idempotency = handle();
    let report = storm(&idempotency, CALLS, |number| {
        pay(&idempotency, number).run(nothing())
    });
    let complaint = complaint(&report.await);
    assert!(
        complaint.contains("`orders.pay`: 20 ran, 0 failed"),
        "{complaint}"
    );
    assert!(
        complaint.contains("20 different keys: look at `key`"),
        "{complaint}"
    );
}

#[tokio::test]
async fn bodies_one_after_the_other_fail_the_assertion() {
    let idempotency = handle();
    let report = storm(&idempotency, CALLS, |_| {
        let call = pay(&idempotency, 1).release(Release::Always);
        call.run(nothing())
    });
    let complaint = complaint(&report.await);
    assert!(
        complaint.contains("20 bodies of one key ran one after the other"),
        "{complaint}"
    );
}

#[tokio::test]
async fn a_body_that_fails_fails_the_assertion() {
    let (idempotency, bodies) = (handle(), AtomicUsize::new(0));
    let report = storm(&idempotency, CALLS, |_| {
        pay(&idempotency, 1).error(|_| "refused").run(async {
            match bodies.fetch_add(1, Ordering::Relaxed) {
                0 => Err("the bank is closed"),
                _ => Ok(()),
            }
        })
    });
    let report = report.await;
    assert_eq!((report.ran(), report.failed()), (1, 1));
    let complaint = complaint(&report);
    assert!(
        complaint.contains("1 bodies failed or were dropped"),
        "{complaint}"
    );
}

#[tokio::test]
async fn calls_without_a_guard_fail_the_assertion() {
    let idempotency = handle();
    let report = storm(&idempotency, CALLS, |number| {
        pay(&idempotency, 1).when(number > 2).run(nothing())
    });
    let report = report.await;
    assert_eq!((report.ran(), report.unguarded()), (1, 3));
    let complaint = complaint(&report);
    assert!(
        complaint.contains("3 calls were not guarded: look at `when`"),
        "{complaint}"
    );
}

#[tokio::test]
async fn a_store_that_fails_fails_the_assertion() {
    for (on_store_error, expected) in [
        (
            OnStoreError::Refuse,
            "20 calls were not served: call of `orders.pay`",
        ),
        (OnStoreError::Run, "20 bodies ran without a claim"),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
        let builder = Idempotency::builder(store).deadline(Duration::from_millis(1));
        let idempotency = builder.build().unwrap();
        let report = storm(&idempotency, CALLS, |_| {
            let call = pay(&idempotency, 1).on_store_error(on_store_error);
            call.run(nothing())
        });
        let complaint = complaint(&report.await);
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[tokio::test]
async fn a_key_that_was_taken_before_fails_the_assertion() {
    let idempotency = handle();
    pay(&idempotency, 1).run(nothing()).await.unwrap();
    let report = storm(&idempotency, CALLS, |_| pay(&idempotency, 1).run(nothing())).await;
    assert_eq!((report.ran(), report.refused()), (0, CALLS));
    let complaint = complaint(&report);
    assert!(
        complaint.contains("the key was taken before the storm"),
        "{complaint}"
    );
}

#[tokio::test]
async fn duplicates_with_another_payload_fail_the_assertion() {
    let idempotency = handle();
    let report = storm(&idempotency, CALLS, |sent_at| {
        let call = pay(&idempotency, 1).payload(&sent_at);
        call.run(nothing())
    });
    let report = report.await;
    assert_eq!((report.ran(), report.refused()), (1, CALLS - 1));
    let complaint = complaint(&report);
    assert!(
        complaint.contains("19 calls were refused with `PayloadMismatch`"),
        "{complaint}"
    );
}

#[tokio::test]
async fn a_storm_without_calls_fails_the_assertion() {
    let complaint = complaint(&storm(&handle(), 0, |_| async {}).await);
    assert!(complaint.contains("the storm has no calls"), "{complaint}");
}

#[tokio::test]
async fn a_disabled_endpoint_fails_the_assertion() {
    let name = format!("idempotence-storm-{}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, "[all]\ndisabled = true\n").unwrap();
    let settings = idempotent_runtime::Settings::file(&file);
    let builder = Idempotency::builder(MemoryStore::new()).settings(settings);
    let idempotency = builder.build().unwrap();
    std::fs::remove_file(file).unwrap();
    let report = storm(&idempotency, CALLS, |_| pay(&idempotency, 1).run(nothing()));
    let report = report.await;
    assert_eq!((report.ran(), report.unguarded()), (0, CALLS));
    let complaint = complaint(&report);
    assert!(complaint.contains("the setting `disabled`"), "{complaint}");
}
