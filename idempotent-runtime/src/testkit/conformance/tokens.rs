//! One value in the place of another, for as long as that would have stood: what tokens are made of.

use bytes::Bytes;
use tokio::time::Instant;

use super::expiry::{SHORT, TOO_EARLY, gone};
use super::races::{RACERS, ROUNDS, same_for_losers, value_of, winner};
use super::subject::{LONG, LONGER, Subject, Verdict, same, stands_for};
use crate::store::Swap;

const FIRST: Bytes = Bytes::from_static(b"first");
const SECOND: Bytes = Bytes::from_static(b"second");
const THIRD: Bytes = Bytes::from_static(b"third");

pub(super) async fn the_expected_value_is_exchanged(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for (expected, value) in [(FIRST, SECOND), (SECOND, THIRD), (THIRD, FIRST)] {
        let swap = subject.exchange(&key, &expected, &value).await?;
        same("exchange", &swap, &Swap::Done)?;
        subject.stands(&key, &value).await?;
    }
    Ok(())
}

pub(super) async fn nothing_is_not_exchanged(subject: Subject) -> Verdict {
    let key = subject.key("key");
    for (expected, value) in [(FIRST, SECOND), (FIRST, FIRST), (Bytes::new(), FIRST)] {
        let swap = subject.exchange(&key, &expected, &value).await?;
        same("exchange of nothing", &swap, &Swap::Absent)?;
        subject.is_free(&key).await?;
    }
    Ok(())
}

pub(super) async fn another_value_is_not_exchanged(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for (expected, value) in [(SECOND, THIRD), (SECOND, SECOND), (Bytes::new(), SECOND)] {
        let swap = subject.exchange(&key, &expected, &value).await?;
        same("exchange of another value", &swap, &Swap::Other(FIRST))?;
        stands_for(subject.stands(&key, &FIRST).await?, LONG)?;
    }
    Ok(())
}

pub(super) async fn an_exchange_sent_twice_is_done_twice(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for _ in 0..2 {
        let swap = subject.exchange(&key, &FIRST, &SECOND).await?;
        same("exchange", &swap, &Swap::Done)?;
        stands_for(subject.stands(&key, &SECOND).await?, LONG)?;
    }
    Ok(())
}

pub(super) async fn an_exchange_leaves_the_ttl(subject: Subject) -> Verdict {
    for ttl in [LONG, LONGER] {
        let key = subject.key(ttl.as_millis());
        subject.put(&key, &FIRST, ttl).await?;
        for (expected, value) in [(FIRST, SECOND), (SECOND, FIRST), (FIRST, FIRST)] {
            let swap = subject.exchange(&key, &expected, &value).await?;
            same("exchange", &swap, &Swap::Done)?;
            stands_for(subject.stands(&key, &value).await?, ttl)?;
        }
    }
    Ok(())
}

pub(super) async fn an_exchanged_record_goes_when_the_first_would_have(
    subject: Subject,
) -> Verdict {
    // On a busy machine a short-lived record may expire before the exchange gets to it. That says nothing about the
    // store: it is tried again with one that lives longer.
    for ttl in [SHORT, SHORT * 4, SHORT * 16] {
        let key = subject.key(ttl.as_millis());
        let sent = Instant::now();
        subject.put(&key, &FIRST, ttl).await?;
        let swap = subject.exchange(&key, &FIRST, &SECOND).await?;
        if sent.elapsed() + TOO_EARLY >= ttl {
            continue;
        }
        same("exchange", &swap, &Swap::Done)?;
        let lived = gone(&subject, &key, ttl).await? - sent;
        if lived + TOO_EARLY < ttl {
            return Err(format!(
                "the record was gone after {lived:?}, instead of {ttl:?}"
            ));
        }
        return Ok(());
    }
    Err("two operations take longer than a record lives".to_owned())
}

pub(super) async fn an_exchange_revives_nothing(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, SHORT).await?;
    gone(&subject, &key, SHORT).await?;
    for value in [SECOND, FIRST] {
        let swap = subject.exchange(&key, &FIRST, &value).await?;
        same("exchange of an expired record", &swap, &Swap::Absent)?;
        subject.is_free(&key).await?;
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
        same("exchange", &swap, &Swap::Other(value.clone()))?;
    }
    let swap = subject.exchange(&key, &value, &SECOND).await?;
    same("exchange", &swap, &Swap::Done)?;
    subject.stands(&key, &SECOND).await.map(drop)
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
        same_for_losers(&answers, winner, &Swap::Other(value_of(winner)))?;
        subject.stands(&key, &value_of(winner)).await?;
    }
    Ok(())
}
