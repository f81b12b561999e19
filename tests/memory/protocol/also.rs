//! Calls with several keys: all are held or none.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::{Future, Ready, ready};
use std::pin::pin;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::private::Call;
use idempotent_runtime::{
    Error, MemoryStore, OnCancel, OnLeaseLost, Policy, Release, Renew, Store, StoreErrorKind,
};
use support::required_only::RequiredOnly;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Failed, Guarded, forever, millis, run, secs};
use crate::protocol::observed::Observed;

const TTL: std::time::Duration = secs(10);

fn policy() -> Policy {
    Policy::new(TTL).release(Release::Always)
}

/// A call with the key `from`, and the further keys `to`.
fn transfer(guarded: &Guarded, from: u64, to: &[u64]) -> Call {
    let mut call = guarded.call(from);
    for to in to {
        call.also();
        call.also_part(to);
    }
    call
}

fn nothing() -> Ready<Result<(), ()>> {
    ready(Ok(()))
}

async fn taken(guarded: &Guarded, accounts: &[u64]) -> Vec<u64> {
    let mut taken = Vec::new();
    for account in accounts {
        if guarded.entry(*account).await.is_some() {
            taken.push(*account);
        }
    }
    taken
}

/// The account whose key the error names.
fn named(error: &Error) -> u64 {
    let text = error.to_string();
    let names = |account: &u64| {
        let fingerprint = Fingerprint::of(&(account,)).unwrap();
        text.contains(&format!("{fingerprint:?}"))
    };
    (0..10).find(names).expect("the error names an account")
}

async fn refusal(call: Call) -> Error {
    call.claim().await.unwrap_err().into_error()
}

/// A store that does not claim several keys together.
fn one_after_another() -> FaultyStore<RequiredOnly<MemoryStore>> {
    FaultyStore::new(RequiredOnly(MemoryStore::new()))
}

/// Two handles on one store, of which each answer takes a moment.
fn two_processes(policy: Policy) -> [Guarded; 2] {
    two_processes_on(FaultyStore::new(MemoryStore::new()), policy)
}

fn two_processes_on<S: Store>(store: FaultyStore<S>, policy: Policy) -> [Guarded; 2] {
    store.always_all(Fault::Delay(millis(5)));
    let here = Guarded::on(store, policy);
    let there = here.elsewhere();
    [here, there]
}

/// The accounts in use. Two bodies never use one account.
#[derive(Default)]
struct Accounts(RefCell<HashSet<u64>>);

impl Accounts {
    async fn used(&self, accounts: [u64; 2]) -> Result<(), ()> {
        for account in accounts {
            assert!(
                self.0.borrow_mut().insert(account),
                "two bodies use account {account}"
            );
        }
        sleep(millis(50)).await;
        for account in accounts {
            assert!(self.0.borrow_mut().remove(&account));
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn crossing_calls_that_wait_all_run_one_after_another() {
    let policy = policy().wait(secs(120));
    all_run(&two_processes(policy)).await;
    all_run(&two_processes_on(one_after_another(), policy)).await;
}

async fn all_run(processes: &[Guarded; 2]) {
    let accounts = Accounts::default();
    let calls = (0..40_u64).map(|number| {
        let (from, to) = (number % 4, (number / 4 + number % 4 + 1) % 4);
        let to = if to == from { (to + 1) % 4 } else { to };
        let guarded = &processes[usize::from(number % 3 == 0)];
        run(transfer(guarded, from, &[to]), accounts.used([from, to]))
    });
    let ended = timeout(secs(110), join_all(calls)).await;
    let ended = ended.expect("no call waits for ever");
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert!(taken(&processes[0], &[0, 1, 2, 3]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_of_two_crossing_calls_that_do_not_wait_runs() {
    for (one, other) in [(1, 2), (2, 1), (3, 7), (7, 3)] {
        one_runs(two_processes(policy()), one, other).await;
        one_runs(two_processes_on(one_after_another(), policy()), one, other).await;
    }
}

async fn one_runs([here, there]: [Guarded; 2], one: u64, other: u64) {
    {
        let body = || async {
            sleep(secs(1)).await;
            Ok(())
        };
        let (first, second) = tokio::join!(
            run(transfer(&here, one, &[other]), body()),
            run(transfer(&there, other, &[one]), body())
        );
        assert_ne!(first.is_ok(), second.is_ok(), "{first:?} {second:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_taken_key_and_no_other_key_stays_taken() {
    names_the_taken_key(&Guarded::in_memory(policy())).await;
    names_the_taken_key(&Guarded::on(one_after_another(), policy())).await;
}

async fn names_the_taken_key(here: &Guarded) {
    for guarded in [here, &here.elsewhere()] {
        for busy in 0..6 {
            let held = here.call(busy).claim().await.unwrap();
            let all = [0, 1, 2, 3, 4, 5];
            let refused = refusal(transfer(guarded, 0, &all[1..])).await;
            assert_eq!((refused.code(), named(&refused)), ("in_progress", busy));
            assert_eq!(
                taken(here, &all).await,
                [busy],
                "the other keys are free at once"
            );
            held.settle(true).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_further_key_is_the_key_of_another_call() {
    let here = Guarded::in_memory(policy());
    let held = transfer(&here, 1, &[2, 3]).claim().await.unwrap();
    for guarded in [&here, &here.elsewhere()] {
        for account in [1, 2, 3] {
            let refused = refusal(guarded.call(account)).await;
            assert_eq!((refused.code(), named(&refused)), ("in_progress", account));
        }
    }
    held.settle(true).await;
    for account in [1, 2, 3] {
        here.elsewhere().run(account, nothing()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn equal_keys_are_claimed_once() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(1)));
    run(transfer(&guarded, 1, &[1, 2, 1, 2]), nothing())
        .await
        .unwrap();
    let counts = store.counts();
    assert_eq!((counts.claim_all, counts.remove, counts.total()), (1, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_than_its_wait_for_all_keys() {
    let here = Guarded::in_memory(policy());
    let waiting = Guarded {
        policy: here.policy.wait(secs(5)),
        ..here.elsewhere()
    };
    let begun = Instant::now();
    // Each key becomes free after 3 s more.
    let holders = (1..5).map(|account| {
        let order = key_order(&here, &[1, 2, 3, 4]);
        let place = order.iter().position(|one| *one == account).unwrap();
        let here = &here;
        async move {
            here.run(account, async move {
                sleep(secs(3 * (place as u64 + 1))).await;
                Ok(())
            })
            .await
        }
    });
    let (_, refused) = tokio::join!(join_all(holders), async {
        let refused = refusal(transfer(&waiting, 1, &[2, 3, 4])).await;
        (refused, begun.elapsed())
    });
    assert_eq!(refused.0.code(), "in_progress");
    assert_eq!(named(&refused.0), key_order(&here, &[1, 2, 3, 4])[1]);
    assert!(
        refused.1 >= secs(5) && refused.1 < millis(5100),
        "{:?}",
        refused.1
    );
    assert!(taken(&here, &[1, 2, 3, 4]).await.is_empty());
}

/// The accounts in the order of their keys in the store.
fn key_order(guarded: &Guarded, accounts: &[u64]) -> Vec<u64> {
    let mut accounts = accounts.to_vec();
    accounts.sort_by_key(|account| guarded.key(*account));
    accounts
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_key_renews_the_keys_that_it_holds() {
    let here = Guarded::in_memory(policy().wait(secs(200)));
    let order = key_order(&here, &[1, 2]);
    let waiting = here.elsewhere();
    let long = here.run(order[1], async {
        sleep(secs(100)).await;
        Ok(())
    });
    let crossing = run(transfer(&waiting, order[1], &[order[0]]), nothing());
    let watched = async {
        sleep(secs(50)).await;
        assert!(
            here.entry(order[0]).await.is_some(),
            "5 leases later it is still held"
        );
    };
    let (long, crossing, ()) = tokio::join!(long, crossing, watched);
    long.unwrap();
    crossing.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_waits_holds_nothing() {
    let here = Guarded::in_memory(policy().wait(secs(60)));
    let waiting = here.elsewhere();
    for busy in [1, 2, 3] {
        let held = here.call(busy).claim().await.unwrap();
        let waits = run(transfer(&waiting, 1, &[2, 3]), nothing());
        assert!(timeout(secs(5), waits).await.is_err());
        waiting.settled().await;
        assert_eq!(taken(&here, &[1, 2, 3]).await, [busy]);
        held.settle(true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_at_any_instant_holds_nothing() {
    for after in 1..60 {
        let [here, _] = if after < 30 {
            two_processes(policy())
        } else {
            two_processes_on(one_after_another(), policy())
        };
        let after = after % 30 + 1;
        let call = transfer(&here, 1, &[2, 3]).claim();
        let ended = timeout(millis(after), async {
            call.await.unwrap().settle(true).await
        });
        if ended.await.is_ok() {
            assert!(after >= 10, "{after}");
        }
        here.settled().await;
        assert!(taken(&here, &[1, 2, 3]).await.is_empty(), "{after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_body_leaves_all_keys_as_on_cancel_says() {
    for (on_cancel, left) in [(OnCancel::Keep, &[1, 2][..]), (OnCancel::Release, &[])] {
        let guarded = Guarded::in_memory(policy().on_cancel(on_cancel));
        let running = run(transfer(&guarded, 1, &[2]), forever());
        assert!(timeout(secs(25), running).await.is_err());
        guarded.settled().await;
        assert_eq!(taken(&guarded, &[1, 2]).await, left);
        sleep(secs(12)).await;
        assert!(
            taken(&guarded, &[1, 2]).await.is_empty(),
            "the leases have expired"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_a_call_that_is_never_polled_again_become_free() {
    let guarded = Guarded::in_memory(policy().renew(Renew::No));
    let mut running = Box::pin(run(transfer(&guarded, 1, &[2]), forever()));
    assert!(running.as_mut().now_or_never().is_none());
    let elsewhere = guarded.elsewhere();
    assert!(elsewhere.run(2, nothing()).await.is_err());
    sleep(secs(12)).await;
    elsewhere.run(1, nothing()).await.unwrap();
    elsewhere.run(2, nothing()).await.unwrap();
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_long_body_keeps_all_keys() {
    let guarded = Guarded::in_memory(policy());
    let elsewhere = guarded.elsewhere();
    let body = async {
        for _ in 0..50 {
            sleep(secs(1)).await;
            assert_eq!(taken(&guarded, &[1, 2, 3]).await, [1, 2, 3]);
            assert!(elsewhere.run(3, nothing()).await.is_err());
        }
        Ok(())
    };
    run(transfer(&guarded, 1, &[2, 3]), body).await.unwrap();
    assert!(taken(&guarded, &[1, 2, 3]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_context_knows_the_lease_that_ends_first() {
    let store = one_after_another();
    store.always(Op::Claim, Fault::Delay(millis(400)));
    let guarded = Guarded::on(store, policy());
    let order = key_order(&guarded, &[1, 2, 3]);
    for key in [0, 2] {
        let others: Vec<_> = order
            .iter()
            .copied()
            .filter(|one| *one != order[key])
            .collect();
        let held = transfer(&guarded, order[key], &others)
            .claim()
            .await
            .unwrap();
        let remaining = held
            .context::<idempotent_runtime::AnyIntent>()
            .lease_remaining();
        assert_eq!(remaining, Some(millis(8800)));
        held.settle(true).await;
    }
}

async fn remove(guarded: &Guarded, account: u64) {
    let entry = guarded.entry(account).await.unwrap();
    let removed = guarded
        .store
        .remove(&guarded.key(account), &entry.value)
        .await;
    removed.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_of_any_key_stops_the_body() {
    for lost in [1, 2, 3] {
        let guarded = Guarded::in_memory(policy());
        let observed = Observed::default();
        let body = async {
            remove(&guarded, lost).await;
            forever().await
        };
        let call = transfer(&observed.on(&guarded), 1, &[2, 3]);
        let ended = timeout(secs(10), run(call, body))
            .await
            .expect("the body is stopped");
        let Err(Failed::Refused(error)) = ended else {
            panic!("the lease is lost");
        };
        assert_eq!((error.code(), named(&error)), ("lease_lost", lost));
        assert_eq!(observed.take(), ["overrun", "lease_lost"]);
        assert_eq!(
            taken(&guarded, &[1, 2, 3]).await.len(),
            2,
            "the outcome is unknown"
        );
        sleep(secs(12)).await;
        assert!(taken(&guarded, &[1, 2, 3]).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_continues_after_a_lost_lease_frees_the_other_keys() {
    for lost in [1, 2, 3] {
        let guarded = Guarded::in_memory(policy().on_lease_lost(OnLeaseLost::Continue));
        let elsewhere = guarded.elsewhere();
        let other = RefCell::new(None);
        let body = async {
            remove(&guarded, lost).await;
            sleep(secs(30)).await;
            let claimed = elsewhere.call(lost).claim().await.unwrap();
            *other.borrow_mut() = Some(claimed);
            Ok(())
        };
        run(transfer(&guarded, 1, &[2, 3]), body).await.unwrap();
        guarded.settled().await;
        let left = taken(&guarded, &[1, 2, 3]).await;
        assert_eq!(left, [lost], "the record of another call stays");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_before_all_keys_are_claimed_refuses_the_call() {
    let store = one_after_another();
    let short = Policy::new(millis(500)).release(Release::Always);
    let guarded = Guarded::on(store.clone(), short.renew(Renew::No));
    store.always(Op::Claim, Fault::Delay(millis(300)));
    let refused = refusal(transfer(&guarded, 1, &[2, 3, 4, 5])).await;
    assert_eq!(refused.code(), "store_unavailable");
    assert!(
        refused.to_string().contains("the lease of one key"),
        "{refused}"
    );
    assert!(taken(&guarded, &[1, 2, 3, 4, 5]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_emits_one_end() {
    let here = Guarded::in_memory(policy());
    let observed = Observed::default();
    let guarded = observed.on(&here.elsewhere());
    run(transfer(&guarded, 1, &[2, 3]), nothing())
        .await
        .unwrap();
    assert_eq!(observed.take(), ["executed"]);
    let held = here.call(3).claim().await.unwrap();
    refusal(transfer(&guarded, 1, &[2, 3])).await;
    assert_eq!(observed.take(), ["in_progress"]);
    held.settle(true).await;
    let running = run(transfer(&guarded, 1, &[2, 3]), forever());
    assert!(pin!(running).now_or_never().is_none());
    assert_eq!(observed.take(), ["cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn no_body_runs_while_the_store_is_unavailable() {
    for claims in 0..3 {
        let store = one_after_another();
        let run_anyway = policy().on_store_error(idempotent_runtime::OnStoreError::Run);
        let guarded = Guarded::on(store.clone(), run_anyway);
        for _ in 0..claims {
            store.next(Op::Claim, Fault::Delay(millis(1)));
        }
        store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
        let refused = refusal(transfer(&guarded, 1, &[2, 3])).await;
        assert_eq!(refused.code(), "store_unavailable");
        assert!(taken(&guarded, &[1, 2, 3]).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_gets_no_answer_frees_all_keys_later() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    for fault in [
        Fault::Fail(StoreErrorKind::NotApplied),
        Fault::LoseReply,
        Fault::Hang,
    ] {
        store.next(Op::Remove, fault);
    }
    run(transfer(&guarded, 1, &[2, 3]), nothing())
        .await
        .unwrap();
    guarded.settled().await;
    assert!(taken(&guarded, &[1, 2, 3]).await.is_empty());
    assert_eq!(store.remaining_faults(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_holds_all_keys() {
    let guarded = Guarded::in_memory(policy());
    let idempotency = &guarded.idempotency;
    let call = |from: u64, to: u64| {
        let call = idempotency.call("test.pay").key(&from).also(&to).ttl(TTL);
        call.release(Release::Always)
    };
    let unknown = call(1, 2).hold_err(|error: &Failed| matches!(error, Failed::Body));
    let unknown = unknown.error(Failed::Refused);
    assert!(
        unknown
            .run(async { Err::<(), _>(Failed::Body) })
            .await
            .is_err()
    );
    let refused = async |from, to| {
        let refused = call(from, to).run(async { Ok::<_, Error>(()) }).await;
        refused.unwrap_err()
    };
    assert_eq!(refused(1, 2).await.code(), "outcome_unknown");
    for (from, to) in [(1, 3), (3, 2), (2, 1)] {
        let other = refused(from, to).await;
        assert_eq!((other.code(), other.is_duplicate()), ("in_progress", false));
        let holder = other.duplicate().unwrap();
        assert!(holder.retry_after() + secs(1) > TTL, "{other}");
    }
    assert_eq!(taken(&guarded, &[1, 2, 3]).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_room_for_the_mark_of_a_further_key_holds_all_keys() {
    for full in 0..2 {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy());
        let observed = Observed::default();
        let idempotency = observed.on(&guarded).idempotency;
        let call = idempotency.call("test.pay").key(&1_u64).also(&2_u64);
        let call = call.ttl(TTL).release(Release::Always);
        let call = call.hold_err(|error: &Failed| matches!(error, Failed::Body));
        let body = async {
            for _ in 0..full {
                store.next(Op::Replace, Fault::Delay(millis(1)));
            }
            store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
            Err::<(), _>(Failed::Body)
        };
        call.error(Failed::Refused).run(body).await.unwrap_err();
        sleep(secs(9)).await;
        assert_eq!(taken(&guarded, &[1, 2]).await, [1, 2]);
        assert_eq!(observed.take(), ["failed", "outcome_unknown", "not_kept"]);
        idempotency.drain(secs(60)).await.unwrap();
        assert_eq!(taken(&guarded, &[1, 2]).await, [1, 2]);
        let duplicate = refusal(transfer(&guarded, 1, &[2])).await;
        assert_eq!(duplicate.code(), "outcome_unknown");
    }
}

#[tokio::test(start_paused = true)]
async fn a_further_key_with_another_record_at_the_end_is_reported() {
    for lost in [1, 2] {
        let guarded = Guarded::in_memory(policy().renew(Renew::No));
        let observed = Observed::default();
        let call = transfer(&observed.on(&guarded), 1, &[2]);
        let other = RefCell::new(None);
        let body = async {
            remove(&guarded, lost).await;
            let claimed = guarded.elsewhere().call(lost).claim().await.unwrap();
            *other.borrow_mut() = Some(claimed);
            Ok(())
        };
        run(call, body).await.unwrap();
        assert_eq!(observed.take(), ["executed", "unrecorded"]);
        assert_eq!(taken(&guarded, &[1, 2]).await, [lost]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_loses_a_key_while_it_waits_is_refused_at_once_and_holds_none() {
    let here = Guarded::in_memory(policy().wait(secs(200)));
    let order = key_order(&here, &[1, 2, 3]);
    let elsewhere = here.elsewhere();
    for lost in [0, 1] {
        let observed = Observed::default();
        let held = here.call(order[2]).claim().await.unwrap();
        let waiting = transfer(&observed.on(&elsewhere), order[2], &order[..2]);
        let (refused, ()) = tokio::join!(timeout(secs(20), refusal(waiting)), async {
            sleep(secs(1)).await;
            remove(&here, order[lost]).await;
        });
        let refused = refused.expect("the call does not wait for the last key");
        assert_eq!(refused.code(), "store_unavailable");
        assert_eq!(named(&refused), order[lost]);
        assert_eq!(observed.take(), ["overrun", "store_error"]);
        assert_eq!(taken(&here, &[1, 2, 3]).await, [order[2]]);
        held.settle(true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_this_process_finds_a_further_key_taken_until_its_removal_is_answered() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().on_lease_lost(OnLeaseLost::Continue));
    let body = async {
        remove(&guarded, 1).await;
        sleep(secs(10)).await;
        store.next(Op::Remove, Fault::Delay(millis(500)));
        Ok(())
    };
    let ended = run(transfer(&guarded, 1, &[2]), body);
    let duplicate = async {
        sleep(millis(10_100)).await;
        store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
        let refused = refusal(guarded.call(2)).await;
        assert_eq!(refused.code(), "in_progress", "without a look at the store");
        store.heal();
    };
    let (ended, ()) = tokio::join!(ended, duplicate);
    ended.unwrap();
    assert!(taken(&guarded, &[2]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_error_says_which_key_of_the_call_is_taken() {
    let here = Guarded::in_memory(policy());
    for guarded in [&here, &here.elsewhere()] {
        for (busy, also) in [(1, None), (2, Some(0)), (3, Some(1))] {
            let held = here.call(busy).claim().await.unwrap();
            let refused = refusal(transfer(guarded, 1, &[2, 3])).await;
            assert_eq!(refused.duplicate().unwrap().also(), also);
            held.settle(true).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn options_that_do_not_go_with_further_keys_are_refused() {
    let guarded = |policy| Guarded::in_memory(policy);
    let contradictions = [
        (Policy::new(TTL), "release = true"),
        (policy().fence(), "fence"),
        (policy().replay(), "replay"),
        (policy().tx(), "tx"),
    ];
    for (policy, named) in contradictions {
        let refused = refusal(transfer(&guarded(policy), 1, &[2])).await;
        assert_eq!(refused.code(), "invalid_policy");
        assert!(refused.to_string().contains(named), "{refused}");
    }
    let mut with_token = transfer(&guarded(policy()), 1, &[2]);
    let token = "0123456789abcdef".repeat(4);
    with_token.token(&token, &1, "orders.submit");
    let refused = refusal(with_token).await;
    assert!(refused.to_string().contains("token"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_several_parts_and_a_further_key_of_one_are_refused() {
    let guarded = Guarded::in_memory(policy());
    let call = |tuple| {
        let call = guarded.idempotency.call("test.pay");
        let call = if tuple {
            call.key(&("shop", 1))
        } else {
            call.key("shop").key(&1)
        };
        call.also(&("shop", 2)).ttl(TTL).release(Release::Always)
    };
    let refused = call(false).run(async { Ok::<_, Error>(()) }).await;
    assert_eq!(refused.unwrap_err().code(), "invalid_key");
    call(true).run(async { Ok::<_, Error>(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unguarded_call_claims_no_further_key() {
    let guarded = Guarded::in_memory(policy());
    let mut call = transfer(&guarded, 1, &[2]);
    call.when(false);
    let ran = Cell::new(false);
    let body = async {
        assert!(taken(&guarded, &[1, 2]).await.is_empty());
        ran.set(true);
        Ok(())
    };
    run(call, body).await.unwrap();
    assert!(ran.get());
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_body_keeps_all_keys_for_their_lease() {
    let guarded = Guarded::in_memory(policy());
    let started = Notify::new();
    let body = async {
        started.notify_one();
        panic!("the body panics")
    };
    let call = std::panic::AssertUnwindSafe(run::<()>(transfer(&guarded, 1, &[2]), body));
    assert!(Box::pin(call.catch_unwind()).await.is_err());
    guarded.settled().await;
    assert_eq!(taken(&guarded, &[1, 2]).await, [1, 2]);
}

#[allow(dead_code)]
fn is_send(guarded: &Guarded) -> impl Future + Send {
    transfer(guarded, 1, &[2]).claim()
}
