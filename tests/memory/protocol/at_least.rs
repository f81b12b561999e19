//! `at_least`: the key stays taken for a time after its claim, however quick the call was.

use std::cell::Cell;
use std::future::ready;

use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::private::Call;
use idempotent_runtime::{Error, MemoryStore, OnCancel, Policy, Release, Renew, StoreErrorKind};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, run, secs};
use crate::protocol::observed::Observed;

const TICKS: u32 = 100;
const PERIOD: u64 = 10;
/// How far the clocks of the two machines differ, in seconds.
const SKEW: u64 = 3;

/// Two machines start a job in each period, each by its own clock. Returns how often the job ran.
async fn runs(policy: Policy, outcome: Result<(), ()>) -> u32 {
    let runs = Cell::new(0);
    let first = Guarded::in_memory(policy);
    let second = first.elsewhere();
    let began = Instant::now();
    let machine = async |guarded: &Guarded, behind: u64| {
        for tick in 0..u64::from(TICKS) {
            sleep_until(began + secs(tick * PERIOD + behind)).await;
            let job = async {
                runs.set(runs.get() + 1);
                outcome
            };
            let _ = guarded.run(1, job).await;
        }
    };
    tokio::join!(machine(&first, 0), machine(&second, SKEW));
    runs.get()
}

#[tokio::test(start_paused = true)]
async fn two_machines_whose_clocks_are_3_s_apart_run_100_ticks_100_times() {
    let policy = |release| Policy::new(secs(9)).release(release);
    for (release, outcome) in [
        (Release::Always, Ok(())),
        (Release::Always, Err(())),
        (Release::OnError, Ok(())),
        (Release::OnError, Err(())),
        (Release::Never, Ok(())),
        (Release::Never, Err(())),
    ] {
        let with = runs(policy(release).at_least(secs(5)), outcome).await;
        assert_eq!(with, TICKS, "{release:?}, {outcome:?}");
    }
    // Without the option, and with a shorter time than the clocks differ, a quick job runs twice.
    let always = policy(Release::Always);
    assert_eq!(runs(always, Ok(())).await, 2 * TICKS);
    assert_eq!(runs(always.at_least(secs(2)), Ok(())).await, 2 * TICKS);
    assert_eq!(runs(policy(Release::OnError), Err(())).await, 2 * TICKS);
}

fn policy() -> Policy {
    Policy::new(secs(60))
        .release(Release::Always)
        .at_least(secs(5))
}

#[tokio::test(start_paused = true)]
async fn the_key_is_free_after_the_longer_of_the_body_and_at_least() {
    for (lasts, remains) in [(0, Some(5)), (2, Some(3)), (5, None), (7, None)] {
        let guarded = Guarded::in_memory(policy());
        let body = async {
            sleep(secs(lasts)).await;
            Ok(())
        };
        guarded.run(1, body).await.unwrap();
        assert_eq!(guarded.taken_for(1).await, remains.map(secs), "{lasts} s");
    }
}

#[tokio::test(start_paused = true)]
async fn until_then_a_call_gets_the_answer_of_a_running_call_or_waits() {
    let first = Guarded::in_memory(policy());
    let observed = Observed::default();
    let second = observed.on(&first);
    let began = Instant::now();
    first.run(1, ready(Ok(()))).await.unwrap();
    for guarded in [&first, &second] {
        let refused = guarded.run(1, ready(Ok(()))).await.unwrap_err().refusal();
        assert!(matches!(refused, Error::InProgress(_)), "{refused:?}");
    }
    let waiting = Guarded {
        policy: policy().wait(secs(30)),
        ..second
    };
    waiting.run(1, ready(Ok(()))).await.unwrap();
    let waited = began.elapsed();
    assert!((secs(5)..secs(8)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_stays_taken_is_not_reported_as_stuck() {
    let policy = Policy::new(secs(12)).release(Release::Always);
    let first = Guarded::in_memory(policy.at_least(secs(10)));
    let observed = Observed::default();
    let second = observed.on(&first);
    first.run(1, ready(Ok(()))).await.unwrap();
    for _ in 0..9 {
        sleep(secs(1)).await;
        second.run(1, ready(Ok(()))).await.unwrap_err();
        second.settled().await;
    }
    let events = observed.take();
    assert!(!events.iter().any(|event| event == "stuck"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_that_frees_its_key_keeps_it_for_the_rest() {
    let guarded = Guarded::in_memory(policy().on_cancel(OnCancel::Release));
    timeout(secs(1), guarded.run(1, forever()))
        .await
        .unwrap_err();
    guarded.settled().await;
    assert_eq!(guarded.taken_for(1).await, Some(secs(4)));
}

/// A call with the keys 1 and 2.
fn of_two_keys(guarded: &Guarded) -> Call {
    let mut call = guarded.call(1);
    call.also();
    call.also_part(&2);
    call
}

#[tokio::test(start_paused = true)]
async fn each_key_of_a_call_stays_taken_for_the_time_from_its_own_claim_on() {
    // The call waits 2 s for its second key, in the order of the store.
    for dropped in [false, true] {
        let policy = policy().on_cancel(OnCancel::Release).wait(secs(30));
        let guarded = Guarded::in_memory(policy);
        let mut keys = [1, 2];
        keys.sort_by_key(|id| guarded.key(*id));
        let short = Guarded {
            policy: Policy::new(secs(2)).renew(Renew::No),
            ..guarded.elsewhere()
        };
        let dead = short.call(keys[1]).claim().await.unwrap();
        let call = run(of_two_keys(&guarded), sleep(millis(500)).map(Ok::<(), ()>));
        let began = Instant::now();
        if dropped {
            let ends = run(of_two_keys(&guarded), forever());
            timeout(secs(4), ends).await.unwrap_err();
            drop(call);
        } else {
            call.await.unwrap();
        }
        guarded.settled().await;
        let (passed, [first, second]) = (began.elapsed(), keys.map(|id| guarded.taken_for(id)));
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        assert!((first + passed).abs_diff(secs(5)) < millis(5), "{first:?}");
        assert!(second >= first + secs(1), "{first:?} {second:?}");
        drop(dead);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_the_end_keeps_the_key_no_longer() {
    for fault in [Fault::LoseReply, Fault::Fail(StoreErrorKind::Unknown)] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy());
        store.next(Op::Replace, fault);
        let began = Instant::now();
        guarded.run(1, ready(Ok(()))).await.unwrap();
        guarded.settled().await;
        assert_eq!(store.remaining_faults(), 0);
        let until = began.elapsed() + guarded.taken_for(1).await.unwrap();
        assert!(
            (secs(5)..secs(5) + millis(10)).contains(&until),
            "{until:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_option_costs_no_command() {
    let counts = async |policy: Policy| {
        let store = CountingStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy);
        guarded.run(1, ready(Ok(()))).await.unwrap();
        guarded.settled().await;
        store.counts().total()
    };
    let without = Policy::new(secs(60)).release(Release::Always);
    assert_eq!(counts(policy()).await, counts(without).await);
}
