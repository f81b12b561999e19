//! What each operation answers, and what it leaves behind.

use bytes::Bytes;

use super::subject::{LONG, LONGER, Subject, Verdict, same, stands_for};
use crate::store::{Claim, Swap};

const FIRST: Bytes = Bytes::from_static(b"first");
const SECOND: Bytes = Bytes::from_static(b"second");
const THIRD: Bytes = Bytes::from_static(b"third");

pub(super) async fn a_free_key_is_claimed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    let claim = subject.claim(&key, &FIRST, LONG).await?;
    same("claim", &claim, &Claim::Claimed)?;
    stands_for(subject.stands(&key, &FIRST).await?, LONG)
}

pub(super) async fn a_taken_key_answers_with_what_stands_there(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for _ in 0..2 {
        let claim = subject.claim(&key, &SECOND, LONG).await?;
        same("claim", &claim, &Claim::Taken(FIRST))?;
    }
    subject.stands(&key, &FIRST).await.map(drop)
}

pub(super) async fn a_claim_sent_twice_is_claimed_twice(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let again = subject.claim(&key, &FIRST, LONGER).await?;
    same(
        "claim with the value that stands there",
        &again,
        &Claim::Claimed,
    )?;
    stands_for(subject.stands(&key, &FIRST).await?, LONG)
}

pub(super) async fn the_expected_value_is_replaced(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let swap = subject.replace(&key, &FIRST, &SECOND, LONG).await?;
    same("replace", &swap, &Swap::Done)?;
    subject.stands(&key, &SECOND).await.map(drop)
}

pub(super) async fn nothing_is_not_replaced(subject: Subject) -> Verdict {
    let key = subject.key("key");
    for (expected, value) in [(FIRST, SECOND), (FIRST, FIRST), (Bytes::new(), FIRST)] {
        let swap = subject.replace(&key, &expected, &value, LONG).await?;
        same("replace of nothing", &swap, &Swap::Absent)?;
        subject.is_free(&key).await?;
    }
    Ok(())
}

pub(super) async fn another_value_is_not_replaced(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for (expected, value) in [(SECOND, THIRD), (SECOND, SECOND)] {
        let swap = subject.replace(&key, &expected, &value, LONG).await?;
        same("replace of another value", &swap, &Swap::Other(FIRST))?;
        subject.stands(&key, &FIRST).await?;
    }
    Ok(())
}

pub(super) async fn a_replace_sent_twice_is_done_twice(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for ttl in [LONG, LONGER] {
        let swap = subject.replace(&key, &FIRST, &SECOND, ttl).await?;
        same("replace", &swap, &Swap::Done)?;
    }
    // The second found its value there already, and changed nothing.
    stands_for(subject.stands(&key, &SECOND).await?, LONG)
}

pub(super) async fn the_expected_value_is_removed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let swap = subject.remove(&key, &FIRST).await?;
    same("remove", &swap, &Swap::Done)?;
    subject.is_free(&key).await
}

pub(super) async fn nothing_is_not_removed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    let swap = subject.remove(&key, &FIRST).await?;
    same("remove of nothing", &swap, &Swap::Absent)?;
    subject.put(&key, &FIRST, LONG).await?;
    subject.remove(&key, &FIRST).await?;
    let swap = subject.remove(&key, &FIRST).await?;
    same("remove of what was removed", &swap, &Swap::Absent)
}

pub(super) async fn another_value_is_not_removed(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let swap = subject.remove(&key, &SECOND).await?;
    same("remove of another value", &swap, &Swap::Other(FIRST))?;
    subject.stands(&key, &FIRST).await.map(drop)
}

pub(super) async fn a_removed_key_is_free(subject: Subject) -> Verdict {
    let key = subject.key("key");
    for value in [FIRST, SECOND, FIRST] {
        subject.put(&key, &value, LONG).await?;
        let swap = subject.remove(&key, &value).await?;
        same("remove", &swap, &Swap::Done)?;
    }
    Ok(())
}

pub(super) async fn a_free_key_holds_nothing(subject: Subject) -> Verdict {
    subject.is_free(&subject.key("key")).await
}

pub(super) async fn values_are_compared_byte_for_byte(subject: Subject) -> Verdict {
    let key = subject.key("key");
    let value = Bytes::from_static(b"value");
    subject.put(&key, &value, LONG).await?;
    for other in ["Value", "valu", "value ", "value\0", " value", ""] {
        let other = Bytes::from(other);
        let taken = subject.claim(&key, &other, LONG).await?;
        same("claim", &taken, &Claim::Taken(value.clone()))?;
        let kept = Swap::Other(value.clone());
        let swap = subject.replace(&key, &other, &SECOND, LONG).await?;
        same("replace", &swap, &kept)?;
        same("remove", &subject.remove(&key, &other).await?, &kept)?;
    }
    subject.stands(&key, &value).await.map(drop)
}
