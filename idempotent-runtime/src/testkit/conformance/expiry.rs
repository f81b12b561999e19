//! When a record goes by itself, and what changes that.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, sleep_until};

use super::subject::{LONG, LONGER, Subject, Verdict, same, stands_for};
use crate::store::{Claim, Swap};

const FIRST: Bytes = Bytes::from_static(b"first");
const SECOND: Bytes = Bytes::from_static(b"second");

pub(super) const SHORT: Duration = Duration::from_millis(300);
/// A store's clock need not tick exactly as ours does.
pub(super) const TOO_EARLY: Duration = Duration::from_millis(50);
/// A store may count in seconds, and the machine may be busy.
const TOO_LATE: Duration = Duration::from_secs(5);

pub(super) async fn a_record_lives_as_long_as_its_ttl(subject: Subject) -> Verdict {
    let key = subject.key("key");
    let sent = Instant::now();
    subject.put(&key, &FIRST, SHORT).await?;
    let gone = gone(&subject, &key, SHORT).await?;
    let lived = gone - sent;
    if lived + TOO_EARLY < SHORT {
        return Err(format!(
            "the record was gone after {lived:?}, instead of {SHORT:?}"
        ));
    }
    Ok(())
}

pub(super) async fn an_expired_record_is_absent(subject: Subject) -> Verdict {
    let keys = ["renewed", "replaced", "removed", "claimed"].map(|name| subject.key(name));
    for key in &keys {
        subject.put(key, &FIRST, SHORT).await?;
    }
    for key in &keys {
        gone(&subject, key, SHORT).await?;
    }
    let [renewed, replaced, removed, claimed] = &keys;
    let swap = subject.replace(renewed, &FIRST, &FIRST, LONG).await?;
    same("renewal of an expired record", &swap, &Swap::Absent)?;
    let swap = subject.replace(replaced, &FIRST, &SECOND, LONG).await?;
    same("replace of an expired record", &swap, &Swap::Absent)?;
    let swap = subject.remove(removed, &FIRST).await?;
    same("remove of an expired record", &swap, &Swap::Absent)?;
    let claim = subject.claim(claimed, &SECOND, LONG).await?;
    same("claim of an expired key", &claim, &Claim::Claimed)?;
    for key in [renewed, replaced, removed] {
        subject.is_free(key).await?;
    }
    stands_for(subject.stands(claimed, &SECOND).await?, LONG)
}

pub(super) async fn an_expired_key_is_claimed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, SHORT).await?;
    let deadline = Instant::now() + SHORT + TOO_LATE;
    // Only claims, no `get`: a store may not leave expiry to its reader.
    while subject.claim(&key, &SECOND, LONG).await? == Claim::Taken(FIRST) {
        if Instant::now() > deadline {
            return Err("an expired record is still told as taken".to_owned());
        }
        sleep(POLL).await;
    }
    stands_for(subject.stands(&key, &SECOND).await?, LONG)
}

pub(super) async fn an_own_record_that_expired_is_claimed_anew(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, SHORT).await?;
    gone(&subject, &key, SHORT).await?;
    subject.put(&key, &FIRST, LONG).await?;
    stands_for(subject.stands(&key, &FIRST).await?, LONG)
}

pub(super) async fn a_refused_operation_leaves_the_ttl(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    subject.claim(&key, &SECOND, LONGER).await?;
    stands_for(subject.stands(&key, &FIRST).await?, LONG)?;
    subject.replace(&key, &SECOND, &SECOND, LONGER).await?;
    stands_for(subject.stands(&key, &FIRST).await?, LONG)?;
    subject.remove(&key, &SECOND).await?;
    stands_for(subject.stands(&key, &FIRST).await?, LONG)
}

pub(super) async fn a_renewal_sets_the_ttl(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for ttl in [LONGER, LONG, LONGER] {
        let swap = subject.replace(&key, &FIRST, &FIRST, ttl).await?;
        same("renewal", &swap, &Swap::Done)?;
        stands_for(subject.stands(&key, &FIRST).await?, ttl)?;
    }
    Ok(())
}

pub(super) async fn a_renewed_record_outlives_its_first_ttl(subject: Subject) -> Verdict {
    outlives(&subject, &FIRST).await
}

pub(super) async fn a_replacement_outlives_the_first_ttl(subject: Subject) -> Verdict {
    outlives(&subject, &SECOND).await
}

pub(super) async fn a_shortened_record_is_gone(subject: Subject) -> Verdict {
    for (name, value) in [("renewed", FIRST), ("replaced", SECOND)] {
        let key = subject.key(name);
        subject.put(&key, &FIRST, LONG).await?;
        let swap = subject.replace(&key, &FIRST, &value, SHORT).await?;
        same("replace", &swap, &Swap::Done)?;
        gone(&subject, &key, SHORT).await?;
    }
    Ok(())
}

pub(super) async fn a_replacement_sets_the_ttl(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let mut standing = FIRST;
    for (value, ttl) in [(SECOND, LONGER), (FIRST, LONG)] {
        let swap = subject.replace(&key, &standing, &value, ttl).await?;
        same("replace", &swap, &Swap::Done)?;
        stands_for(subject.stands(&key, &value).await?, ttl)?;
        standing = value;
    }
    Ok(())
}

pub(super) async fn a_ttl_may_be_a_millisecond(subject: Subject) -> Verdict {
    let tick = Duration::from_millis(1);
    for ttl in [tick, tick + Duration::from_nanos(1), tick * 3 / 2] {
        let key = subject.key(ttl.as_nanos());
        subject.put(&key, &FIRST, ttl).await?;
        gone(&subject, &key, ttl).await?;
    }
    Ok(())
}

pub(super) async fn a_ttl_may_be_a_century(subject: Subject) -> Verdict {
    let century = Duration::from_hours(100 * 365 * 24);
    let key = subject.key("key");
    subject.put(&key, &FIRST, century).await?;
    // A store may not count that far; but it may not wrap around either.
    let stands = |left| {
        if left >= LONG {
            Ok(())
        } else {
            stands_for(left, century)
        }
    };
    stands(subject.stands(&key, &FIRST).await?)?;
    for value in [FIRST, SECOND] {
        let swap = subject.replace(&key, &FIRST, &value, century).await?;
        same("replace", &swap, &Swap::Done)?;
        stands(subject.stands(&key, &value).await?)?;
    }
    same("remove", &subject.remove(&key, &SECOND).await?, &Swap::Done)
}

const POLL: Duration = Duration::from_millis(5);

/// Waits until nothing stands under `key`, and returns when that was seen.
pub(super) async fn gone(subject: &Subject, key: &str, ttl: Duration) -> Result<Instant, String> {
    let deadline = Instant::now() + ttl + TOO_LATE;
    while subject.get(key).await?.is_some() {
        if Instant::now() > deadline {
            return Err(format!(
                "a record of {ttl:?} still stands {TOO_LATE:?} later"
            ));
        }
        sleep(POLL).await;
    }
    Ok(Instant::now())
}

/// Checks that a record that was replaced by `value` in time stands when its first time is over.
async fn outlives(subject: &Subject, value: &Bytes) -> Verdict {
    // On a busy machine a short-lived record may expire before the next operation gets to it. That
    // says nothing about the store: it is tried again with one that lives longer.
    for ttl in [SHORT, SHORT * 4, SHORT * 16] {
        let key = subject.key(ttl.as_millis());
        let sent = Instant::now();
        subject.put(&key, &FIRST, ttl).await?;
        let swap = subject.replace(&key, &FIRST, value, LONG).await?;
        if sent.elapsed() + TOO_EARLY >= ttl {
            continue;
        }
        same("replace", &swap, &Swap::Done)?;
        sleep_until(sent + ttl + TOO_EARLY).await;
        return stands_for(subject.stands(&key, value).await?, LONG);
    }
    Err("two operations take longer than a record lives".to_owned())
}
