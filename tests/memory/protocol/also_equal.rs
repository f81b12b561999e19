//! A call with several keys is a duplicate of a call with the same keys, and of no call that only shares a key with it.

use std::time::Duration;

use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::private::Call;
use idempotent_runtime::store::Bytes;
use idempotent_runtime::{ClientAction, Error, MemoryStore, Policy, Release};
use support::required_only::RequiredOnly;
use tokio::time::{Instant, sleep};

use crate::protocol::guarded::{Guarded, millis, never, run, secs};

const TTL: Duration = secs(10);

fn policy() -> Policy {
    Policy::new(TTL).release(Release::Always)
}

/// A handle on a store that claims several keys together, and one on a store that does not.
fn on_each_store(policy: Policy) -> [Guarded; 2] {
    let one_after_another = FaultyStore::new(RequiredOnly(MemoryStore::new()));
    [
        Guarded::in_memory(policy),
        Guarded::on(one_after_another, policy),
    ]
}

/// A call with these keys, of which the first names the call.
fn call(guarded: &Guarded, keys: &[u64]) -> Call {
    let mut call = guarded.call(keys[0]);
    for further in &keys[1..] {
        call.also();
        call.also_part(further);
    }
    call
}

async fn refusal(call: Call) -> Error {
    call.claim().await.unwrap_err().into_error()
}

/// Checks that the answer asks the caller to come again, because no other call does this work.
fn assert_no_duplicate(refused: &Error, keys: &[u64]) {
    assert_eq!(refused.code(), "in_progress", "{keys:?}");
    assert_eq!(refused.client_action(), ClientAction::Wait);
    assert!(!refused.is_duplicate() && !refused.is_silent(), "{keys:?}");
    assert!(refused.to_string().contains("another call"), "{refused}");
}

fn assert_duplicate(refused: &Error, keys: &[u64]) {
    assert_eq!(refused.code(), "in_progress", "{keys:?}");
    assert!(refused.is_duplicate() && refused.is_silent(), "{keys:?}");
    assert!(refused.to_string().contains("an equal call"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn only_a_call_with_the_same_keys_in_the_same_order_is_a_duplicate() {
    let all: [&[u64]; 10] = [
        &[1],
        &[2],
        &[1, 2],
        &[2, 1],
        &[1, 3],
        &[3, 1],
        &[3, 2],
        &[1, 1],
        &[1, 2, 3],
        &[1, 3, 2],
    ];
    for here in on_each_store(policy()) {
        for held in all {
            let holder = call(&here, held).claim().await.unwrap();
            for guarded in [&here, &here.elsewhere()] {
                for keys in all {
                    match call(guarded, keys).claim().await {
                        Ok(other) => {
                            let is_apart = keys.iter().all(|key| !held.contains(key));
                            assert!(is_apart, "{held:?} and {keys:?} ran at once");
                            other.settle(true).await;
                        }
                        Err(refused) if keys == held => {
                            assert_duplicate(&refused.into_error(), keys);
                        }
                        Err(refused) => assert_no_duplicate(&refused.into_error(), keys),
                    }
                }
            }
            holder.settle(true).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_success_answers_only_a_duplicate() {
    let here = Guarded::in_memory(policy());
    for guarded in [&here, &here.elsewhere()] {
        let transfer = |from: u64, to: u64| {
            let call = guarded.idempotency.call("test.pay").key(&from).also(&to);
            let call = call.ttl(TTL).release(Release::Always);
            call.on_duplicate(|_| Ok::<_, Error>("done"))
        };
        let holder = call(&here, &[1, 2]).claim().await.unwrap();
        assert_eq!(transfer(1, 2).run(never()).await.unwrap(), "done");
        for (from, to) in [(1, 3), (2, 1), (3, 2)] {
            let refused = transfer(from, to).run(never()).await.unwrap_err();
            assert_no_duplicate(&refused, &[from, to]);
        }
        holder.settle(true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_runs_after_a_call_that_shares_a_key_with_it() {
    for here in on_each_store(policy().wait(secs(60))) {
        for guarded in [&here, &here.elsewhere()] {
            let begun = Instant::now();
            // The payloads differ, which says nothing about calls with other keys.
            let with_payload = |guarded, keys, payload: u64| {
                let mut call = call(guarded, keys);
                call.payload(&payload);
                call
            };
            let first = run(with_payload(&here, &[1, 2], 5), async {
                sleep(secs(3)).await;
                Ok(())
            });
            let second = async {
                sleep(secs(1)).await;
                let mismatch = refusal(with_payload(guarded, &[1, 2], 6)).await;
                assert_eq!(mismatch.code(), "payload_mismatch");
                run(with_payload(guarded, &[1, 3], 6), async { Ok(()) }).await
            };
            let (first, second) = tokio::join!(first, second);
            first.unwrap();
            second.unwrap();
            assert!(begun.elapsed() >= secs(3), "{:?}", begun.elapsed());
        }
    }
}

/// Other functions may have the same name: with them an operator may have stored a result, or a claim that says nothing of its end.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_ended_with_one_of_the_keys_is_no_duplicate() {
    for release in [Release::OnError, Release::Never] {
        for here in on_each_store(policy()) {
            let ended = Guarded {
                policy: Policy::new(secs(30)).release(release),
                ..here.clone()
            };
            let stored = ended.replaying(1, async { Ok::<_, Error>(7_u64) });
            assert_eq!(stored.await.unwrap(), 7);
            for guarded in [&here, &here.elsewhere()] {
                for keys in [&[1, 3][..], &[3, 1]] {
                    assert_no_duplicate(&refusal(call(guarded, keys)).await, keys);
                }
            }
            let waits = Guarded {
                policy: policy().wait(secs(60)),
                ..here.elsewhere()
            };
            run(call(&waits, &[1, 3]), async { Ok(()) }).await.unwrap();
        }
    }
}

/// The answer of the store is older than the second call, which follows the first one.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_is_not_refused_by_an_old_answer_about_other_work() {
    for further in 2..8 {
        let store = FaultyStore::new(RequiredOnly(MemoryStore::new()));
        let here = Guarded::on(store.clone(), policy());
        let ended = Guarded {
            policy: Policy::new(secs(30)),
            ..here.elsewhere()
        };
        run(ended.call(1), async { Ok(()) }).await.unwrap();
        store.always(Op::Claim, Fault::Delay(millis(10)));
        let waits = Guarded {
            policy: policy().wait(secs(60)),
            ..here.clone()
        };
        let waits = run(call(&waits, &[1, further + 10]), async { Ok(()) });
        let (refused, ran) = tokio::join!(refusal(call(&here, &[1, further])), waits);
        assert_no_duplicate(&refused, &[1, further]);
        ran.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_one_key_is_no_duplicate_of_a_call_that_holds_more() {
    for here in on_each_store(policy()) {
        let holder = call(&here, &[1, 2]).claim().await.unwrap();
        for release in [Release::Always, Release::OnError, Release::Never] {
            for guarded in [&here, &here.elsewhere()] {
                let one = Guarded {
                    policy: Policy::new(secs(30)).release(release),
                    ..guarded.clone()
                };
                assert_no_duplicate(&refusal(one.call(1)).await, &[1]);
                if release != Release::Always {
                    let refused = one.replaying(2, never::<u64>()).await.unwrap_err();
                    assert_no_duplicate(&refused, &[2]);
                }
            }
        }
        holder.settle(true).await;
    }
}

/// The digest of all keys in the line of a record, with the dots after it.
fn digest(line: &str) -> Option<&str> {
    let holder = line.split(' ').nth(5)?;
    let (digest, _) = holder.split_once("..")?;
    holder.get(..digest.len() + 2)
}

#[tokio::test(start_paused = true)]
async fn only_the_records_of_a_call_with_several_keys_have_more_bytes() {
    let here = Guarded::in_memory(policy());
    let line = async |key| String::from_utf8(here.entry(key).await.unwrap().value.into()).unwrap();
    let holder = call(&here, &[1, 2]).claim().await.unwrap();
    let one = call(&here, &[3]).claim().await.unwrap();
    let (first, second, third) = (line(1).await, line(2).await, line(3).await);
    assert_eq!(digest(&first).map(str::len), Some(18), "{first}");
    assert_eq!(digest(&first), digest(&second));
    assert_eq!(digest(&third), None, "{third}");
    assert_eq!(first.len(), third.len() + 18);
    holder.settle(true).await;
    one.settle(true).await;
}

#[tokio::test(start_paused = true)]
async fn an_equal_call_comes_again_if_an_earlier_version_wrote_the_record() {
    let here = Guarded::in_memory(policy());
    let holder = call(&here, &[1, 2]).claim().await.unwrap();
    let earlier = Guarded::in_memory(policy());
    for key in [1, 2] {
        let line = String::from_utf8(here.entry(key).await.unwrap().value.into()).unwrap();
        let line = line.replacen(digest(&line).unwrap(), "", 1);
        let claimed = earlier
            .store
            .claim(&here.key(key), &Bytes::from(line), TTL)
            .await;
        claimed.unwrap();
    }
    assert_no_duplicate(&refusal(call(&earlier, &[1, 2])).await, &[1, 2]);
    // It may be the record of a call with one key, which is equal to this one.
    assert_duplicate(&refusal(call(&earlier, &[1])).await, &[1]);
    sleep(secs(12)).await;
    run(call(&earlier, &[1, 2]), async { Ok(()) })
        .await
        .unwrap();
    holder.settle(true).await;
}
