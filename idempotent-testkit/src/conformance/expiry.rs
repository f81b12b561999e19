//! When a record expires, and which operations change that.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, Swap};
use tokio::time::{Instant, sleep, sleep_until};

use super::lifetime::{POLL, TOO_EARLY, expires_in_time, until_measured};
use super::subject::{LONG, LONGER, Subject, Verdict, expect_answer};

const FIRST: Bytes = Bytes::from_static(b"first");
const SECOND: Bytes = Bytes::from_static(b"second");

pub(super) const SHORT: Duration = Duration::from_millis(300);
/// The last attempt on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

pub(super) async fn a_record_lives_as_long_as_its_ttl(subject: Subject) -> Verdict {
    let lives = async |subject: Subject, ttl: Duration| {
        let (key, sent) = (subject.key("key"), Instant::now());
        subject.put(&key, &FIRST, ttl).await?;
        let is_gone = async |_| Ok(subject.get(&key).await?.is_none());
        expires_in_time(&subject, "a record", sent, ttl, is_gone).await
    };
    until_measured(&subject, SHORT, lives).await
}

pub(super) async fn an_expired_record_is_absent(subject: Subject) -> Verdict {
    let keys = ["renewed", "replaced", "removed", "claimed"].map(|name| subject.key(name));
    for key in &keys {
        subject.put(key, &FIRST, SHORT).await?;
    }
    for key in &keys {
        wait_until_expired(&subject, key, SHORT).await?;
    }
    let [renewed, replaced, removed, claimed] = &keys;
    let swap = subject.replace(renewed, &FIRST, &FIRST, LONG).await?;
    expect_answer(
        "`replace` of an expired record by the same record",
        &swap,
        &Swap::Absent,
    )?;
    let swap = subject.replace(replaced, &FIRST, &SECOND, LONG).await?;
    expect_answer("`replace` of an expired record", &swap, &Swap::Absent)?;
    let swap = subject.remove(removed, &FIRST).await?;
    expect_answer("`remove` of an expired record", &swap, &Swap::Absent)?;
    let claim = subject.claim(claimed, &SECOND, LONG).await?;
    expect_answer("`claim` of an expired key", &claim, &Claim::Claimed)?;
    for key in [renewed, replaced, removed] {
        subject.expect_free(key).await?;
    }
    subject.expect_ttl(subject.expect_stored(claimed, &SECOND).await?, LONG)
}

pub(super) async fn an_expired_key_is_claimed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, SHORT).await?;
    let deadline = Instant::now() + SHORT + subject.too_late(SHORT);
    loop {
        let asked = Instant::now();
        // Only claims and no `get`: a store must not rely on reads to remove expired records.
        if subject.claim(&key, &SECOND, LONG).await? != Claim::Taken(FIRST) {
            break;
        }
        if asked > deadline {
            return Err(
                "`claim` returned Taken for an expired key, but must return Claimed".to_owned(),
            );
        }
        sleep(POLL).await;
    }
    subject.expect_ttl(subject.expect_stored(&key, &SECOND).await?, LONG)
}

pub(super) async fn the_owner_of_an_expired_record_can_claim_again(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, SHORT).await?;
    wait_until_expired(&subject, &key, SHORT).await?;
    subject.put(&key, &FIRST, LONG).await?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)
}

pub(super) async fn a_refused_operation_does_not_change_the_ttl(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    subject.claim(&key, &SECOND, LONGER).await?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)?;
    subject.replace(&key, &SECOND, &SECOND, LONGER).await?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)?;
    subject.remove(&key, &SECOND).await?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)
}

pub(super) async fn a_renewal_sets_the_ttl(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for ttl in [LONGER, LONG, LONGER] {
        let swap = subject.replace(&key, &FIRST, &FIRST, ttl).await?;
        expect_answer(
            "`replace` of a record by the same record",
            &swap,
            &Swap::Done,
        )?;
        subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, ttl)?;
    }
    Ok(())
}

pub(super) async fn a_renewed_record_outlives_its_first_ttl(subject: Subject) -> Verdict {
    outlives(&subject, &FIRST).await
}

pub(super) async fn a_replacement_outlives_the_first_ttl(subject: Subject) -> Verdict {
    outlives(&subject, &SECOND).await
}

pub(super) async fn a_shortened_record_expires_earlier(subject: Subject) -> Verdict {
    for (name, value) in [("renewed", FIRST), ("replaced", SECOND)] {
        let key = subject.key(name);
        subject.put(&key, &FIRST, LONG).await?;
        let swap = subject.replace(&key, &FIRST, &value, SHORT).await?;
        expect_answer("`replace`", &swap, &Swap::Done)?;
        wait_until_expired(&subject, &key, SHORT).await?;
    }
    Ok(())
}

pub(super) async fn a_replacement_sets_the_ttl(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let mut stored = FIRST;
    for (value, ttl) in [(SECOND, LONGER), (FIRST, LONG)] {
        let swap = subject.replace(&key, &stored, &value, ttl).await?;
        expect_answer("`replace`", &swap, &Swap::Done)?;
        subject.expect_ttl(subject.expect_stored(&key, &value).await?, ttl)?;
        stored = value;
    }
    Ok(())
}

pub(super) async fn a_ttl_may_be_a_millisecond(subject: Subject) -> Verdict {
    let tick = Duration::from_millis(1);
    for ttl in [tick, tick + Duration::from_nanos(1), tick * 3 / 2] {
        let key = subject.key(ttl.as_nanos());
        subject.put(&key, &FIRST, ttl).await?;
        wait_until_expired(&subject, &key, ttl).await?;
    }
    Ok(())
}

pub(super) async fn a_ttl_may_be_a_century(subject: Subject) -> Verdict {
    let century = Duration::from_hours(100 * 365 * 24);
    let key = subject.key("key");
    subject.put(&key, &FIRST, century).await?;
    // A store may shorten a century, but its time to live must not overflow.
    let expect_long = |remaining| {
        if remaining >= LONG {
            Ok(())
        } else {
            subject.expect_ttl(remaining, century)
        }
    };
    expect_long(subject.expect_stored(&key, &FIRST).await?)?;
    for value in [FIRST, SECOND] {
        let swap = subject.replace(&key, &FIRST, &value, century).await?;
        expect_answer("`replace`", &swap, &Swap::Done)?;
        expect_long(subject.expect_stored(&key, &value).await?)?;
    }
    expect_answer(
        "`remove`",
        &subject.remove(&key, &SECOND).await?,
        &Swap::Done,
    )
}

/// Waits until nothing is stored under `key`.
pub(super) async fn wait_until_expired(subject: &Subject, key: &str, ttl: Duration) -> Verdict {
    let too_late = subject.too_late(ttl);
    let deadline = Instant::now() + ttl + too_late;
    loop {
        // The store answers after this time. A busy machine may look at its clock long after the answer.
        let asked = Instant::now();
        if subject.get(key).await?.is_none() {
            return Ok(());
        }
        if asked > deadline {
            return Err(format!(
                "`get` still returned a record with a time to live of {ttl:?}, {too_late:?} after it should have expired"
            ));
        }
        sleep(POLL).await;
    }
}

/// Checks that a record that was replaced by `value` in time is still stored after its first time to live.
async fn outlives(subject: &Subject, value: &Bytes) -> Verdict {
    // On a busy machine a short-lived record may expire before the next operation. That is not a mistake of the store, so the
    // case tries again with a longer time to live.
    for ttl in [SHORT, SHORT * 4, SHORT * 16, LONGEST] {
        let key = subject.key(ttl.as_millis());
        let sent = Instant::now();
        subject.put(&key, &FIRST, ttl).await?;
        let swap = subject.replace(&key, &FIRST, value, LONG).await?;
        if sent.elapsed() + TOO_EARLY >= ttl {
            continue;
        }
        expect_answer("`replace`", &swap, &Swap::Done)?;
        sleep_until(sent + ttl + TOO_EARLY).await;
        return subject.expect_ttl(subject.expect_stored(&key, value).await?, LONG);
    }
    Err(format!(
        "two operations took longer than {LONGEST:?}; run the suite on a faster machine"
    ))
}
