//! Runs that have lost their lease: what they record does not outlive the success of another run.

use futures_util::FutureExt as _;
use tokio::join;
use tokio::time::timeout;

use super::recorders::{Cable, Run, cut_until, process};
use super::*;
use crate::OnLeaseLost;

/// What a run returned, if it ran.
type Returned = Option<Result<u32, Error>>;

/// What the first run and a later call get from the step, the later call after the success of the second run has expired. The first run
/// is cut off from the store until the second 21.
async fn after_a_success(
    first_run: Run,
    second_run: Run,
    delay: impl FnOnce(&Cable),
) -> (Returned, Returned) {
    let store = Arc::new(MemoryStore::new());
    let ((first, cable), (second, _)) = (process(&store), process(&store));
    delay(&cable);
    let got = async {
        let got = first_run.on(&first).await;
        while entry(&store, call_key()).await.is_some() {
            sleep(Duration::from_millis(10)).await;
        }
        got
    };
    let (got, _, ()) = join!(got, second_run.on(&second), cut_until(&cable, 21));
    let later = Run {
        value: 3,
        succeeds: true,
        ..Run::default()
    };
    (got, later.on(&second).await)
}

/// Whether the first run has learned that its step is not recorded, and the later call has run the step.
fn is_taken_back((first, later): &(Returned, Returned)) -> bool {
    matches!(first, Some(Err(Error::LeaseLost(_)))) && matches!(later, Some(Ok(3)))
}

async fn entry(store: &MemoryStore, key: String) -> Option<crate::store::Entry> {
    store.get(&key).await.expect("the store in memory")
}

/// The second run succeeds at second 17, and the first run records its step at 25.
fn a_record_after_a_success_is_refused() -> bool {
    on_paused_clock(async {
        let first = Run {
            takes: 25_000,
            value: 1,
            ..Run::default()
        };
        let second = Run {
            at: 16_000,
            takes: 1_000,
            value: 2,
            succeeds: true,
            ..Run::default()
        };
        is_taken_back(&after_a_success(first, second, |_| {}).await)
    })
}

/// The second run has no step. It succeeds at 25.2, while the record of the first run is on its way, from 25 to 25.4.
fn a_record_that_crosses_a_success_is_taken_back() -> bool {
    on_paused_clock(async {
        let first = Run {
            takes: 25_000,
            value: 1,
            ..Run::default()
        };
        let second = Run {
            at: 16_000,
            rests: 9_200,
            succeeds: true,
            ..Run::default()
        };
        let got = after_a_success(first, second, |cable| cable.delay(400)).await;
        is_taken_back(&got)
    })
}

/// The first run has recorded a step in its lease. The second run succeeds without another step, and cannot remove the record. The first
/// run then replaces the record.
fn a_replaced_record_does_not_outlive_a_success() -> bool {
    on_paused_clock(async {
        let store = Arc::new(MemoryStore::new());
        let ((first, cable), (second, other_cable)) = (process(&store), process(&store));
        let call = first.call("trip").key(&1).ttl(TTL).lease(LEASE);
        let first = call
            .on_lease_lost(OnLeaseLost::Continue)
            .run_with(async |cx: Cx| {
                cx.step("flight", async || Ok::<_, Failed>(1_u32)).await?;
                let hotel = async || {
                    sleep(Duration::from_secs(25)).await;
                    Ok::<_, Failed>(2)
                };
                cx.step("hotel", hotel).await
            });
        let taking_over = Run {
            at: 16_000,
            value: 3,
            rests: 1_000,
            succeeds: true,
            ..Run::default()
        };
        let second = async {
            let got = taking_over.on(&second).await;
            other_cable.cut(true);
            got
        };
        let (first, second, ()) = join!(first, second, cut_until(&cable, 21));
        let done = entry(&store, call_key()).await.and_then(|done| done.ttl);
        let steps = entry(&store, steps_key()).await.and_then(|steps| steps.ttl);
        matches!(first, Err(Failed::Refused(Error::LeaseLost(_))))
            && matches!(second, Some(Ok(1)))
            && steps < done
    })
}

/// The first run blocks its thread for longer than its lease, and another run succeeds meanwhile.
fn a_run_that_blocked_its_thread_records_nothing() -> bool {
    on_paused_clock(async {
        let store = Arc::new(MemoryStore::new());
        let ((first, _), second) = (process(&store), Idempotency::new(Arc::clone(&store)));
        let call = |idempotency: &Idempotency| {
            let call = idempotency.call("trip").key(&1).ttl(TTL).lease(LEASE);
            call.on_lease_lost(OnLeaseLost::Stop)
        };
        let blocked: Result<u32, Error> = call(&first)
            .run_with(async |cx: Cx| {
                cx.step("flight", async || {
                    let _ = tokio::time::advance(LEASE + LEASE).now_or_never();
                    let success = call(&second).run_with(async |_: Cx| Ok::<_, Error>(()));
                    let success = success.now_or_never().expect("the store answers at once");
                    let _ = tokio::time::advance(LEASE).now_or_never();
                    success.map(|()| 1)
                })
                .await
            })
            .await;
        sleep(TTL.saturating_sub(LEASE / 2)).await;
        let later = call(&second)
            .run_with(async |cx: Cx| cx.step("flight", async || Ok::<_, Error>(3)).await);
        matches!(blocked, Err(Error::LeaseLost(_))) && matches!(later.await, Ok(3))
    })
}

/// The success of the second run has expired, and a third run is at work, when the first run records its step.
fn a_run_that_was_lost_for_longer_than_its_ttl_records_nothing() -> bool {
    on_paused_clock(async {
        let store = Arc::new(MemoryStore::new());
        let ((first, cable), (second, _)) = (process(&store), process(&store));
        let first_run = Run {
            takes: 650_000,
            value: 1,
            ..Run::default()
        };
        let success = Run {
            at: 16_000,
            succeeds: true,
            ..Run::default()
        };
        let third_run = Run {
            at: 640_000,
            takes: 20_000,
            value: 3,
            succeeds: true,
            ..Run::default()
        };
        let (first, _, third, ()) = join!(
            first_run.on(&first),
            success.on(&second),
            third_run.on(&second),
            cut_until(&cable, 645)
        );
        matches!(first, Some(Err(Error::LeaseLost(_)))) && matches!(third, Some(Ok(3)))
    })
}

#[test]
fn a_lost_run_records_nothing_after_the_success_of_another() {
    assert_kept(
        a_record_after_a_success_is_refused,
        &[Mutation::RecordsUnchecked],
    );
}

#[test]
fn what_a_lost_run_records_while_another_succeeds_is_taken_back() {
    assert_kept(
        a_record_that_crosses_a_success_is_taken_back,
        &[Mutation::RecordsUnchecked, Mutation::ChecksOnlyBefore],
    );
}

#[test]
fn a_lost_run_does_not_prolong_an_earlier_record_after_the_success_of_another() {
    assert_kept(
        a_replaced_record_does_not_outlive_a_success,
        &[Mutation::RecordsUnchecked],
    );
}

#[test]
fn a_run_that_blocked_its_thread_records_nothing_after_the_success_of_another() {
    assert_kept(
        a_run_that_blocked_its_thread_records_nothing,
        &[Mutation::RecordsUnchecked, Mutation::ChecksOnlyAfter],
    );
}

#[test]
fn a_run_that_was_lost_for_its_whole_ttl_records_nothing() {
    assert_kept(
        a_run_that_was_lost_for_longer_than_its_ttl_records_nothing,
        &[Mutation::RecordsUnchecked],
    );
}

#[test]
fn a_step_that_was_dropped_while_its_record_is_read_may_begin_again() {
    on_paused_clock(async {
        let (idempotency, cable) = process(&Arc::new(MemoryStore::new()));
        let call = idempotency.call("trip").key(&1).ttl(TTL);
        let ended: Result<(), Failed> = call
            .run_with(async |cx: Cx| {
                cable.cut(true);
                let dropped = cx.step("flight", async || Ok::<_, Failed>(0));
                assert!(timeout(Duration::from_millis(1), dropped).await.is_err());
                cable.cut(false);
                assert_eq!(cx.step("flight", async || Ok::<_, Failed>(1)).await?, 1);
                Ok(())
            })
            .await;
        assert!(ended.is_ok(), "{ended:?}");
    });
}

#[test]
fn a_step_whose_read_failed_may_begin_again() {
    on_paused_clock(async {
        let store = Arc::new(MemoryStore::new());
        let (idempotency, cable) = process(&store);
        for value in [1, 2] {
            let call = idempotency.call("trip").key(&1).ttl(TTL);
            let failed: Result<(), Failed> = call
                .run_with(async |cx: Cx| {
                    cable.cut(true);
                    let unread = cx.step("flight", async || Ok::<_, Error>(0)).await;
                    assert!(matches!(unread, Err(Error::Unavailable(_))), "{unread:?}");
                    cable.cut(false);
                    assert_eq!(cx.step("flight", async || Ok::<_, Failed>(value)).await?, 1);
                    Err(Failed::Body)
                })
                .await;
            assert!(matches!(failed, Err(Failed::Body)), "{failed:?}");
        }
    });
}
