//! The numbers of claims.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::port::testkit::{fence_ttl, open_fence};
use idempotent_runtime::store::{Fence, FencedClaim, StoreErrorKind, Swap};
use tokio::time::Instant;

use super::expiry::wait_until_expired;
use super::subject::{LONG, LONGER, Subject, Verdict, expect_answer};

const RACERS: usize = 16;
const ROUNDS: usize = 10;
/// The time to live of a claim that must expire.
const SHORT: Duration = Duration::from_millis(300);
const FIRST: Bytes = Bytes::from_static(b"idem1 R first\n\xff");
const SECOND: Bytes = Bytes::from_static(b"idem1 R second\n");

pub(super) async fn a_fenced_claim_stores_the_value(subject: Subject) -> Verdict {
    let (key, fence) = keys(&subject, "key");
    claimed(&subject, &key, &FIRST, LONG).await?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)?;
    let entry = subject.get(&fence).await?;
    let Some(ttl) = entry.and_then(|entry| entry.ttl) else {
        return Err("`claim_fenced` stored no number with a time to live".to_owned());
    };
    subject.expect_ttl(ttl, fence_ttl(LONG))
}

pub(super) async fn a_fenced_claim_of_a_taken_key_changes_nothing(subject: Subject) -> Verdict {
    let (key, fence) = keys(&subject, "key");
    claimed(&subject, &key, &FIRST, LONG).await?;
    let before = subject.get(&fence).await?.map(|entry| entry.value);
    let claim = subject.claim_fenced(&key, &fence, &SECOND, LONGER).await?;
    let taken = FencedClaim::Taken(FIRST);
    expect_answer("`claim_fenced` of a taken key", &claim, &taken)?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)?;
    let after = subject.get(&fence).await?.map(|entry| entry.value);
    expect_answer("`get` of the number", &after, &before)
}

pub(super) async fn a_repeated_fenced_claim_has_the_same_fence(subject: Subject) -> Verdict {
    let (key, fence_key) = keys(&subject, "key");
    for value in [FIRST, SECOND] {
        let first = claimed(&subject, &key, &value, LONG).await?;
        for _ in 0..2 {
            let again = subject
                .claim_fenced(&key, &fence_key, &value, LONGER)
                .await?;
            let same = FencedClaim::Claimed(first);
            expect_answer("a repeated `claim_fenced`", &again, &same)?;
        }
        subject.expect_ttl(subject.expect_stored(&key, &value).await?, LONG)?;
        subject.remove(&key, &value).await?;
    }
    Ok(())
}

pub(super) async fn a_fence_is_larger_after_a_removal(subject: Subject) -> Verdict {
    let key = keys(&subject, "key").0;
    let mut last = 0;
    for attempt in 1..=20 {
        let value = Bytes::from(format!("claim {attempt}"));
        let fence = claimed(&subject, &key, &value, LONG).await?;
        expect_larger(fence, last)?;
        last = fence.number;
        subject.remove(&key, &value).await?;
    }
    Ok(())
}

pub(super) async fn a_fence_is_larger_after_the_claim_expired(subject: Subject) -> Verdict {
    let key = keys(&subject, "key").0;
    let mut ttl = SHORT;
    let first = loop {
        let begun = Instant::now();
        let first = claimed(&subject, &key, &FIRST, ttl).await;
        // A slow store may issue the fence when the claim has expired.
        let is_late = begun.elapsed() >= ttl && subject.get(&key).await?.is_none();
        if first.is_ok() || !is_late || ttl >= SHORT * 64 {
            break first?;
        }
        ttl *= 4;
    };
    wait_until_expired(&subject, &key, ttl).await?;
    let second = claimed(&subject, &key, &SECOND, LONG).await?;
    expect_larger(second, first.number)?;
    expect_answer("`took_over`", &second.took_over, &true)
}

pub(super) async fn a_fence_is_larger_than_a_stored_number(subject: Subject) -> Verdict {
    let (key, fence_key) = keys(&subject, "key");
    // A number from the future: the clock was set back.
    let number = 8_999_999_999_999_990;
    let stored = Bytes::from(format!("idem1 F fence={number} attempt=6 ended\n"));
    subject.put(&fence_key, &stored, LONGER).await?;
    let next = claimed(&subject, &key, &FIRST, LONG).await?;
    let expected = Fence {
        number: number + 1,
        attempt: 7,
        took_over: false,
    };
    expect_answer("the fence after a larger number", &next, &expected)
}

pub(super) async fn a_claim_after_an_open_claim_takes_over(subject: Subject) -> Verdict {
    let (key, fence_key) = keys(&subject, "key");
    let mut last = claimed(&subject, &key, &FIRST, LONG).await?;
    expect_answer(
        "the first fence",
        &(last.attempt, last.took_over),
        &(1, false),
    )?;
    for attempt in 2..=3 {
        // The holder of the key is gone, and has not ended the fence.
        let held = if attempt == 2 { FIRST } else { SECOND };
        let next = if attempt == 2 { SECOND } else { FIRST };
        subject.remove(&key, &held).await?;
        last = claimed(&subject, &key, &next, LONG).await?;
        let found = (last.attempt, last.took_over);
        expect_answer("the fence after an open claim", &found, &(attempt, true))?;
    }
    let ended = Bytes::from(format!("idem1 F fence={} attempt=0 ended\n", last.number));
    let swap = subject
        .replace(&fence_key, &open_fence(&last, &FIRST), &ended, LONG)
        .await?;
    expect_answer("`replace` of an open fence", &swap, &Swap::Done)?;
    subject.remove(&key, &FIRST).await?;
    let next = claimed(&subject, &key, &SECOND, LONG).await?;
    expect_larger(next, last.number)?;
    let found = (next.attempt, next.took_over);
    expect_answer("the fence after an ended claim", &found, &(1, false))
}

pub(super) async fn a_foreign_fence_is_not_changed(subject: Subject) -> Verdict {
    let (key, fence_key) = keys(&subject, "key");
    for foreign in [
        "7",
        "idem1 F fence=07 attempt=1 ended\n",
        "idem1 F fence=7 attempt=1 ended\nx",
    ] {
        let foreign = Bytes::from_static(foreign.as_bytes());
        subject.put(&fence_key, &foreign, LONG).await?;
        let answer = subject.try_claim_fenced(&key, &fence_key, &FIRST).await;
        let expected = Err(StoreErrorKind::Misconfigured);
        expect_answer("`claim_fenced` with a foreign fence", &answer, &expected)?;
        subject.expect_free(&key).await?;
        subject.expect_stored(&fence_key, &foreign).await?;
        subject.remove(&fence_key, &foreign).await?;
    }
    Ok(())
}

pub(super) async fn each_of_many_holders_has_a_larger_number(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let (key, fence_key) = keys(&subject, round);
        let resource = Arc::new(AtomicI64::new(0));
        let race = |subject: Subject, racer| {
            let (key, fence_key) = (key.clone(), fence_key.clone());
            let resource = Arc::clone(&resource);
            async move {
                // Each holder gives the key up at once, so the key has many holders, one after the other.
                for turn in 0..4 {
                    let value = Bytes::from(format!("racer {racer} {turn}"));
                    match subject.try_claim_fenced(&key, &fence_key, &value).await {
                        Ok(FencedClaim::Claimed(fence)) => {
                            expect_larger(fence, resource.swap(fence.number, SeqCst))?;
                            subject.remove(&key, &value).await?;
                        }
                        // The store may give up while others claim and remove the record.
                        Ok(FencedClaim::Taken(_)) | Err(StoreErrorKind::NotApplied) => {}
                        Err(kind) => return Err(format!("`claim_fenced` failed: {kind:?}")),
                    }
                }
                Ok(())
            }
        };
        subject.race(RACERS, race).await?;
        let next = claimed(&subject, &key, &SECOND, LONG).await?;
        expect_larger(next, resource.load(SeqCst))?;
    }
    Ok(())
}

/// The key of a record, and the key of its fence.
fn keys(subject: &Subject, name: impl std::fmt::Display) -> (String, String) {
    let key = subject.key(name);
    let fence_key = format!("fence:{{{key}}}");
    (key, fence_key)
}

/// Claims a free key.
async fn claimed(
    subject: &Subject,
    key: &str,
    value: &Bytes,
    ttl: Duration,
) -> Result<Fence, String> {
    let fence_key = format!("fence:{{{key}}}");
    match subject.claim_fenced(key, &fence_key, value, ttl).await? {
        FencedClaim::Claimed(fence) => Ok(fence),
        taken @ FencedClaim::Taken(_) => Err(format!(
            "`claim_fenced` of a free key returned {taken:?}, but must claim it"
        )),
    }
}

fn expect_larger(fence: Fence, last: i64) -> Verdict {
    let number = fence.number;
    if number > last && number < 1 << 53 {
        return Ok(());
    }
    Err(format!(
        "`claim_fenced` returned the number {number} after {last}, but must return a larger number below 2^53"
    ))
}
