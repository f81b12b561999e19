//! Calls with permits: at most so many hold a key at once.

mod line;
mod race;
mod waiting;

use std::future::{Ready, ready};
use std::time::SystemTime;

use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::private::Held;
use idempotent_runtime::store::{Bytes, Claim};
use idempotent_runtime::{
    Error, Idempotency, MemoryStore, OnCancel, OnStoreError, Policy, Release, Renew, Settle,
    StoreErrorKind,
};
use support::required_only::RequiredOnly;
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, secs};
use crate::protocol::observed::Observed;

const PERMITS: u32 = 3;

fn policy() -> Policy {
    Policy::new(secs(10))
        .release(Release::Always)
        .permits(PERMITS)
}

fn nothing() -> Ready<Result<(), ()>> {
    ready(Ok(()))
}

async fn held(guarded: &Guarded) -> Held {
    guarded.call(1).claim().await.unwrap()
}

async fn refused(guarded: &Guarded) -> Error {
    guarded.call(1).claim().await.unwrap_err().into_error()
}

/// How many calls hold the key, if no other can.
async fn holders(guarded: &Guarded) -> usize {
    match refused(guarded).await {
        Error::InProgress(running) => running.holders(),
        error => panic!("{error}"),
    }
}

/// How many permits are free now.
async fn free(guarded: &Guarded) -> usize {
    let mut held = Vec::new();
    while let Ok(permit) = guarded.call(1).claim().await {
        held.push(permit);
    }
    let free = held.len();
    for permit in held {
        permit.settle(true).await;
    }
    free
}

/// Two handles on one store, of which each answer takes a moment.
fn two_processes(policy: Policy) -> [Guarded; 2] {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Delay(millis(5)));
    let here = Guarded::on(store, policy);
    let there = here.elsewhere();
    [here, there]
}

#[tokio::test(start_paused = true)]
async fn so_many_calls_hold_a_key_and_the_error_counts_them() {
    let here = Guarded::in_memory(policy());
    let there = here.elsewhere();
    let one = held(&here).await;
    let (other, third) = (held(&there).await, held(&here).await);
    for guarded in [&here, &there] {
        assert_eq!(holders(guarded).await, 3);
        guarded.run(2, nothing()).await.unwrap();
    }
    one.settle(true).await;
    assert_eq!(free(&there).await, 1);
    other.settle(false).await;
    third.settle(true).await;
    assert_eq!(free(&there).await, 3);
}

#[tokio::test(start_paused = true)]
async fn the_permit_of_a_killed_holder_is_free_after_its_lease() {
    let guarded = Guarded::in_memory(policy().renew(Renew::No));
    let mut killed = Box::pin(guarded.run(1, forever()));
    assert!(killed.as_mut().now_or_never().is_none());
    let elsewhere = guarded.elsewhere();
    assert_eq!(free(&elsewhere).await, 2);
    sleep(secs(9)).await;
    assert_eq!(free(&elsewhere).await, 2);
    sleep(secs(3)).await;
    assert_eq!(free(&elsewhere).await, 3);
    drop(killed);
}

#[tokio::test(start_paused = true)]
async fn a_long_body_keeps_its_permit() {
    let guarded = Guarded::in_memory(policy());
    let elsewhere = guarded.elsewhere();
    let body = async {
        for _ in 0..50 {
            sleep(secs(1)).await;
            assert_eq!(free(&elsewhere).await, 2);
        }
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    assert_eq!(free(&elsewhere).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_body_leaves_its_permit_as_on_cancel_says() {
    for (on_cancel, left) in [(OnCancel::Keep, 2), (OnCancel::Release, 3)] {
        let guarded = Guarded::in_memory(policy().on_cancel(on_cancel));
        timeout(secs(25), guarded.run(1, forever()))
            .await
            .unwrap_err();
        guarded.settled().await;
        assert_eq!(free(&guarded).await, left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_at_any_instant_before_its_body_holds_nothing() {
    for after in 1..40 {
        let [here, there] = two_processes(policy().wait(secs(60)));
        let two = [held(&there).await, held(&there).await];
        let ended = timeout(millis(after), async {
            held(&here).await.settle(true).await
        });
        let _ = ended.await;
        here.settled().await;
        for permit in two {
            permit.settle(true).await;
        }
        let there = Guarded {
            policy: policy(),
            ..there
        };
        assert_eq!(free(&there).await, 3, "{after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_permits_holds_one_of_them() {
    let here = Guarded::in_memory(policy());
    let before = Guarded {
        policy: Policy::new(secs(10)).release(Release::Always),
        ..here.elsewhere()
    };
    let old = held(&before).await;
    assert_eq!(free(&here).await, 2);
    let all = [held(&here).await, held(&here).await];
    assert_eq!(holders(&here).await, 3);
    old.settle(true).await;
    assert_eq!(free(&here).await, 1);
    drop(all);
}

#[derive(Debug)]
enum Ended {
    Refused(Error),
    Unknown,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_whose_outcome_is_unknown_is_held_for_its_ttl() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let export = |body: Result<(), Ended>| {
        let call = idempotency.call("exports").key(&1).permits(2);
        let call = call.ttl(secs(10)).release(Release::Always);
        let call = call.hold_err(|ended: &Ended| matches!(ended, Ended::Unknown));
        call.run(async { body })
    };
    let unknown = export(Err(Ended::Unknown)).await;
    assert!(matches!(unknown, Err(Ended::Unknown)));
    for _ in 0..5 {
        export(Ok(())).await.expect("the other permit is free");
    }
    let unknown = export(Err(Ended::Unknown)).await;
    assert!(matches!(unknown, Err(Ended::Unknown)));
    let Err(Ended::Refused(refused)) = export(Ok(())).await else {
        panic!("both permits are held");
    };
    // A call with permits does work of its own, so the unknown outcome of another call says nothing about it.
    assert_eq!(
        (refused.code(), refused.is_duplicate()),
        ("in_progress", false)
    );
    let holder = refused.duplicate().unwrap();
    assert_eq!(holder.holders(), 2);
    assert!(holder.retry_after() > secs(9), "{refused}");
    sleep(secs(11)).await;
    export(Ok(())).await.unwrap();
}

/// Three holders, whose process claimed their permits 6 s ago, for 11 s, and renewed none.
async fn die_with_all_permits(guarded: &Guarded) {
    let all = [
        held(guarded).await,
        held(guarded).await,
        held(guarded).await,
    ];
    let keys = guarded
        .store
        .list("idem:", None, 10)
        .await
        .unwrap()
        .unwrap();
    for permit in all {
        permit.settle(true).await;
    }
    let since = humantime::format_rfc3339_millis(SystemTime::now() - secs(6));
    for (number, key) in keys.records.iter().enumerate() {
        let record = format!(
            "idem1 R owner=0000000000000000000000000000000{number} payload=- since={since} for=11000ms by=web-3:4242 codec=-\n"
        );
        let record = Bytes::from(record);
        let claim = guarded.store.claim(&key.key, &record, secs(5)).await;
        assert_eq!(claim.unwrap(), Claim::Claimed);
    }
}

#[tokio::test(start_paused = true)]
async fn holders_that_may_be_dead_are_asked_for_at_once() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    die_with_all_permits(&guarded).await;
    store.always(Op::Get, Fault::Delay(millis(5)));
    let began = Instant::now();
    assert_eq!(holders(&guarded).await, 3);
    let took = began.elapsed();
    assert!(took >= millis(5) && took < millis(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn each_holder_that_does_not_renew_is_reported_once() {
    let dead = Guarded::in_memory(policy());
    die_with_all_permits(&dead).await;
    let observed = Observed::default();
    let here = observed.on(&dead);
    for _ in 0..5 {
        assert_eq!(holders(&here).await, 3);
        here.settled().await;
    }
    let mut events = observed.take();
    events.sort();
    assert_eq!(events[..5], ["in_progress"; 5]);
    assert_eq!(events[5..], ["stuck"; 3]);
    sleep(secs(6)).await;
    here.run(1, nothing()).await.unwrap();
    assert_eq!(observed.take(), ["took_over", "executed"]);
}

#[tokio::test(start_paused = true)]
async fn an_operator_finds_all_holders_by_the_digits_of_a_log_line_and_frees_one() {
    let here = Guarded::in_memory(policy().permits(2));
    let all = [held(&here).await, held(&here).await];
    let there = here.elsewhere();
    let text = refused(&there).await.to_string();
    let digits = Fingerprint::of(&(1_u64,)).unwrap().to_string();
    assert!(text.contains(&digits[..8]), "{text}");
    let idempotency = &there.idempotency;
    let found = idempotency.peek_digits("test.pay", &digits[..8]).await;
    let found = found.unwrap().expect("the store lists its keys");
    assert_eq!(found.len(), 2);
    assert!(idempotency.forget(&found[0]).await.unwrap());
    assert_eq!(free(&there).await, 1);
    drop(all);
}

#[tokio::test(start_paused = true)]
async fn permits_stay_taken_for_at_least_their_time() {
    let guarded = Guarded::in_memory(policy().at_least(secs(5)));
    for _ in 0..3 {
        guarded.run(1, nothing()).await.unwrap();
        sleep(secs(1)).await;
    }
    assert_eq!(holders(&guarded).await, 3);
    sleep(millis(2100)).await;
    assert_eq!(
        free(&Guarded {
            policy: policy(),
            ..guarded
        })
        .await,
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_permit_or_a_refusal_costs_one_round_trip() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let mut all = Vec::new();
    for _ in 0..3 {
        store.reset();
        all.push(held(&guarded).await);
        assert_eq!((store.counts().claim_any, store.counts().total()), (1, 1));
    }
    store.reset();
    assert_eq!(holders(&guarded).await, 3);
    assert_eq!((store.counts().claim_any, store.counts().total()), (1, 1));
    for permit in all {
        permit.settle(true).await;
    }
    assert_eq!((store.counts().remove, store.counts().total()), (3, 4));
}

#[tokio::test(start_paused = true)]
async fn with_four_operations_a_free_permit_costs_one_round_trip_and_a_refusal_reads_the_others_at_once()
 {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(RequiredOnly(store.clone()), policy());
    guarded.run(1, nothing()).await.unwrap();
    assert_eq!((store.counts().claim, store.counts().remove), (1, 1));
    assert_eq!(store.counts().total(), 2);
    let _all = [
        held(&guarded).await,
        held(&guarded).await,
        held(&guarded).await,
    ];
    store.reset();
    assert_eq!(holders(&guarded).await, 3);
    assert_eq!((store.counts().claim, store.counts().get), (1, 2));
    assert_eq!(store.counts().total(), 3);

    // Three answers, one after another: the claim, the other permits, and the claim of the one that is free.
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Delay(millis(5)));
    let here = Guarded::on(RequiredOnly(store), policy());
    let there = here.elsewhere();
    let _two = [held(&here).await, held(&here).await];
    let began = Instant::now();
    there.run(1, nothing()).await.unwrap();
    assert!(began.elapsed() <= millis(20), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_decides_as_with_one_holder() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let _two = [held(&guarded).await, held(&guarded).await];
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    assert_eq!(refused(&guarded).await.code(), "store_unavailable");
    let running = Guarded {
        policy: policy().on_store_error(OnStoreError::Run),
        ..guarded.clone()
    };
    running.run(1, nothing()).await.unwrap();

    // A waiting call waits on while the leases of the holders last.
    store.heal();
    let third = held(&guarded).await;
    let waiting = Guarded {
        policy: policy().wait(secs(60)),
        ..guarded.elsewhere()
    };
    let outage = async {
        sleep(secs(1)).await;
        store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
        sleep(secs(4)).await;
        store.heal();
        third.settle(true).await;
    };
    let (ran, ()) = tokio::join!(waiting.run(1, nothing()), outage);
    ran.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_in_half_of_the_deadline_gives_permits() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Delay(millis(500)));
    for guarded in [
        Guarded::on(RequiredOnly(store.clone()), policy()),
        Guarded::on(store, policy()),
    ] {
        let permit = held(&guarded).await;
        permit.settle(true).await;
        guarded.settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_takes_no_second_permit() {
    for (op, fault) in [Op::Claim, Op::ClaimAny]
        .into_iter()
        .flat_map(|op| [Fault::LoseReply, Fault::ApplyThenHang].map(|fault| (op, fault)))
    {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = match op {
            Op::Claim => Guarded::on(RequiredOnly(store.clone()), policy()),
            _ => Guarded::on(store.clone(), policy()),
        };
        store.next(op, fault);
        let permit = held(&guarded).await;
        assert_eq!(store.remaining_faults(), 0);
        guarded.settled().await;
        assert_eq!(free(&guarded.elsewhere()).await, 2);
        permit.settle(true).await;
        assert_eq!(free(&guarded.elsewhere()).await, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_lacks_a_permit_is_no_duplicate_whatever_their_number() {
    for permits in [1, 2, 3, 17] {
        let policy = policy().permits(permits);
        let slot_by_slot = Guarded::on(RequiredOnly(MemoryStore::new()), policy);
        for here in [Guarded::in_memory(policy), slot_by_slot] {
            let mut running = Vec::new();
            for _ in 0..permits {
                running.push(held(&here).await);
            }
            for guarded in [&here, &here.elsewhere()] {
                let refused = refused(guarded).await;
                let holders = refused.duplicate().unwrap().holders();
                assert_eq!(holders, running.len());
                assert!(!refused.is_duplicate() && !refused.is_silent(), "{permits}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn options_that_do_not_go_with_permits_are_refused() {
    let policies = [
        policy().permits(0),
        policy().permits(101),
        policy().permits(u32::MAX),
        policy().release(Release::OnError),
        policy().release(Release::Never),
        policy().fence(),
        policy().replay(),
        policy().tx(),
        policy().settle(Settle::Background),
    ];
    for policy in policies {
        let refused = refused(&Guarded::in_memory(policy)).await;
        assert_eq!(refused.code(), "invalid_policy", "{policy:?}");
    }
    let guarded = Guarded::in_memory(policy());
    let (mut also, mut payload) = (guarded.call(1), guarded.call(1));
    also.also();
    also.also_part(&2);
    payload.payload(&2);
    for call in [also, payload] {
        let refused = call.claim().await.unwrap_err().into_error();
        assert_eq!(refused.code(), "invalid_policy");
    }
    let call = || guarded.idempotency.call("test.pay").key(&1_u64);
    let answering = call().on_duplicate(|_| Ok(()));
    let answering = answering.ttl(secs(10)).release(Release::Always);
    let refused = answering.permits(2).run(async { Ok::<_, Error>(()) }).await;
    assert_eq!(refused.unwrap_err().code(), "invalid_policy");
}
