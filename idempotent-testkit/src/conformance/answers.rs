//! The answer of each operation, and the state after it.

use bytes::Bytes;
use idempotent_runtime::store::{Claim, Swap};

use super::subject::{LONG, LONGER, Subject, Verdict, expect_answer};

const FIRST: Bytes = Bytes::from_static(b"first");
const SECOND: Bytes = Bytes::from_static(b"second");
const THIRD: Bytes = Bytes::from_static(b"third");

pub(super) async fn a_free_key_is_claimed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    let claim = subject.claim(&key, &FIRST, LONG).await?;
    expect_answer("`claim`", &claim, &Claim::Claimed)?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)
}

pub(super) async fn a_taken_key_answers_with_its_value(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for _ in 0..2 {
        let claim = subject.claim(&key, &SECOND, LONG).await?;
        expect_answer("`claim`", &claim, &Claim::Taken(FIRST))?;
    }
    subject.expect_stored(&key, &FIRST).await.map(drop)
}

pub(super) async fn a_repeated_claim_is_claimed_again(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let again = subject.claim(&key, &FIRST, LONGER).await?;
    expect_answer("`claim` with the stored value", &again, &Claim::Claimed)?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONG)
}

pub(super) async fn the_expected_value_is_replaced(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let swap = subject.replace(&key, &FIRST, &SECOND, LONG).await?;
    expect_answer("`replace`", &swap, &Swap::Done)?;
    subject.expect_stored(&key, &SECOND).await.map(drop)
}

pub(super) async fn a_free_key_is_not_replaced(subject: Subject) -> Verdict {
    let key = subject.key("key");
    for (expected, value) in [(FIRST, SECOND), (FIRST, FIRST), (Bytes::new(), FIRST)] {
        let swap = subject.replace(&key, &expected, &value, LONG).await?;
        expect_answer("`replace` of a free key", &swap, &Swap::Absent)?;
        subject.expect_free(&key).await?;
    }
    Ok(())
}

pub(super) async fn another_value_is_not_replaced(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for (expected, value) in [(SECOND, THIRD), (SECOND, SECOND)] {
        let swap = subject.replace(&key, &expected, &value, LONG).await?;
        expect_answer(
            "`replace` with another expected value",
            &swap,
            &Swap::Other(FIRST),
        )?;
        subject.expect_stored(&key, &FIRST).await?;
    }
    Ok(())
}

pub(super) async fn a_repeated_replace_is_done_again(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for ttl in [LONG, LONGER] {
        let swap = subject.replace(&key, &FIRST, &SECOND, ttl).await?;
        expect_answer("`replace`", &swap, &Swap::Done)?;
    }
    // The second `replace` finds its value already stored and changes nothing.
    subject.expect_ttl(subject.expect_stored(&key, &SECOND).await?, LONG)
}

pub(super) async fn the_expected_value_is_removed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let swap = subject.remove(&key, &FIRST).await?;
    expect_answer("`remove`", &swap, &Swap::Done)?;
    subject.expect_free(&key).await
}

pub(super) async fn a_free_key_is_not_removed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    let swap = subject.remove(&key, &FIRST).await?;
    expect_answer("`remove` of a free key", &swap, &Swap::Absent)?;
    subject.put(&key, &FIRST, LONG).await?;
    subject.remove(&key, &FIRST).await?;
    let swap = subject.remove(&key, &FIRST).await?;
    expect_answer("a second `remove`", &swap, &Swap::Absent)
}

pub(super) async fn another_value_is_not_removed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let swap = subject.remove(&key, &SECOND).await?;
    expect_answer(
        "`remove` with another expected value",
        &swap,
        &Swap::Other(FIRST),
    )?;
    subject.expect_stored(&key, &FIRST).await.map(drop)
}

pub(super) async fn a_removed_key_is_free(subject: Subject) -> Verdict {
    let key = subject.key("key");
    for value in [FIRST, SECOND, FIRST] {
        subject.put(&key, &value, LONG).await?;
        let swap = subject.remove(&key, &value).await?;
        expect_answer("`remove`", &swap, &Swap::Done)?;
    }
    Ok(())
}

pub(super) async fn a_free_key_has_no_value(subject: Subject) -> Verdict {
    subject.expect_free(&subject.key("key")).await
}

pub(super) async fn values_are_compared_byte_for_byte(subject: Subject) -> Verdict {
    let key = subject.key("key");
    let value = Bytes::from_static(b"value");
    subject.put(&key, &value, LONG).await?;
    for other in ["Value", "valu", "value ", "value\0", " value", ""] {
        let other = Bytes::from(other);
        let taken = subject.claim(&key, &other, LONG).await?;
        expect_answer("`claim`", &taken, &Claim::Taken(value.clone()))?;
        let kept = Swap::Other(value.clone());
        let swap = subject.replace(&key, &other, &SECOND, LONG).await?;
        expect_answer("`replace`", &swap, &kept)?;
        expect_answer("`remove`", &subject.remove(&key, &other).await?, &kept)?;
    }
    subject.expect_stored(&key, &value).await.map(drop)
}
