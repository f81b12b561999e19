//! `exchange`, which replaces a value and does not change its time to live. One-time tokens need it.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::Swap;
use tokio::time::Instant;

use super::expiry::{SHORT, wait_until_expired};
use super::lifetime::{TOO_EARLY, expires_in_time, until_measured};
use super::races::{RACERS, ROUNDS, expect_losers, value_of, winner};
use super::subject::{LONG, LONGER, Subject, Verdict, expect_answer};

const FIRST: Bytes = Bytes::from_static(b"first");
const SECOND: Bytes = Bytes::from_static(b"second");
const THIRD: Bytes = Bytes::from_static(b"third");

pub(super) async fn the_expected_value_is_exchanged(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for (expected, value) in [(FIRST, SECOND), (SECOND, THIRD), (THIRD, FIRST)] {
        let swap = subject.exchange(&key, &expected, &value).await?;
        expect_answer("`exchange`", &swap, &Swap::Done)?;
        subject.expect_stored(&key, &value).await?;
    }
    Ok(())
}

pub(super) async fn a_free_key_is_not_exchanged(subject: Subject) -> Verdict {
    let key = subject.key("key");
    for (expected, value) in [(FIRST, SECOND), (FIRST, FIRST), (Bytes::new(), FIRST)] {
        let swap = subject.exchange(&key, &expected, &value).await?;
        expect_answer("`exchange` of a free key", &swap, &Swap::Absent)?;
        subject.expect_free(&key).await?;
    }
    Ok(())
}

pub(super) async fn another_value_is_not_exchanged(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for (expected, value) in [(SECOND, THIRD), (SECOND, SECOND), (Bytes::new(), SECOND)] {
        let swap = subject.exchange(&key, &expected, &value).await?;
        expect_answer(
            "`exchange` with another expected value",
            &swap,
            &Swap::Other(FIRST),
        )?;
        subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)?;
    }
    Ok(())
}

pub(super) async fn a_repeated_exchange_is_done_again(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for _ in 0..2 {
        let swap = subject.exchange(&key, &FIRST, &SECOND).await?;
        expect_answer("`exchange`", &swap, &Swap::Done)?;
        subject.expect_ttl(subject.expect_stored(&key, &SECOND).await?, LONG)?;
    }
    Ok(())
}

pub(super) async fn an_exchange_does_not_change_the_ttl(subject: Subject) -> Verdict {
    for ttl in [LONG, LONGER] {
        let key = subject.key(ttl.as_millis());
        subject.put(&key, &FIRST, ttl).await?;
        for (expected, value) in [(FIRST, SECOND), (SECOND, FIRST), (FIRST, FIRST)] {
            let swap = subject.exchange(&key, &expected, &value).await?;
            expect_answer("`exchange`", &swap, &Swap::Done)?;
            subject.expect_ttl(subject.expect_stored(&key, &value).await?, ttl)?;
        }
    }
    Ok(())
}

pub(super) async fn an_exchanged_record_expires_at_its_first_time(subject: Subject) -> Verdict {
    let lives = async |subject: Subject, ttl: Duration| {
        let (key, sent) = (subject.key("key"), Instant::now());
        subject.put(&key, &FIRST, ttl).await?;
        let swap = subject.exchange(&key, &FIRST, &SECOND).await?;
        if sent.elapsed() + TOO_EARLY >= ttl {
            return Ok(false);
        }
        expect_answer("`exchange`", &swap, &Swap::Done)?;
        let is_gone = async |_| Ok(subject.get(&key).await?.is_none());
        expires_in_time(&subject, "an exchanged record", sent, ttl, is_gone).await
    };
    until_measured(&subject, SHORT, lives).await
}

pub(super) async fn an_exchange_does_not_revive_an_expired_record(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, SHORT).await?;
    wait_until_expired(&subject, &key, SHORT).await?;
    for value in [SECOND, FIRST] {
        let swap = subject.exchange(&key, &FIRST, &value).await?;
        expect_answer("`exchange` of an expired record", &swap, &Swap::Absent)?;
        subject.expect_free(&key).await?;
    }
    Ok(())
}

pub(super) async fn an_exchange_compares_byte_for_byte(subject: Subject) -> Verdict {
    let key = subject.key("key");
    let value = Bytes::from_static(b"value\0\xff");
    subject.put(&key, &value, LONG).await?;
    for other in [
        &b"Value\0\xff"[..],
        b"value\0",
        b"value\0\xfe",
        b"value\0\xff ",
        b"",
    ] {
        let other = Bytes::from_static(other);
        let swap = subject.exchange(&key, &other, &SECOND).await?;
        expect_answer("`exchange`", &swap, &Swap::Other(value.clone()))?;
    }
    let swap = subject.exchange(&key, &value, &SECOND).await?;
    expect_answer("`exchange`", &swap, &Swap::Done)?;
    subject.expect_stored(&key, &SECOND).await.map(drop)
}

pub(super) async fn one_of_many_exchanges_wins(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let key = subject.key(round);
        subject.put(&key, &FIRST, LONG).await?;
        let race = |subject: Subject, racer| {
            let key = key.clone();
            async move { subject.exchange(&key, &FIRST, &value_of(racer)).await }
        };
        let answers = subject.race(RACERS, race).await?;
        let winner = winner(&answers, &Swap::Done)?;
        expect_losers(&answers, winner, &Swap::Other(value_of(winner)))?;
        subject.expect_stored(&key, &value_of(winner)).await?;
    }
    Ok(())
}
