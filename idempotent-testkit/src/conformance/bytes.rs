//! The keys and values that a store must accept.

use bytes::Bytes;
use idempotent_runtime::store::{Claim, StoreErrorKind, Swap};

use super::subject::{LONG, Subject, Verdict, expect_answer};

pub(super) async fn values_may_be_any_bytes(subject: Subject) -> Verdict {
    let every: Bytes = (0..=u8::MAX).collect();
    all_operations(&subject, &subject.key("every"), &every).await?;
    for (name, value) in [
        ("nul", &b"\0"[..]),
        ("nul inside", b"a\0b"),
        ("not text", b"\xff\xfe\xc3\x28"),
        ("lines", b"a\r\nb\n\n"),
        ("a number", b"1"),
        ("quotes", br#"'"\;--"#),
    ] {
        all_operations(&subject, &subject.key(name), &Bytes::from_static(value)).await?;
    }
    Ok(())
}

pub(super) async fn a_value_may_be_empty(subject: Subject) -> Verdict {
    all_operations(&subject, &subject.key("key"), &Bytes::new()).await
}

pub(super) async fn a_value_may_be_a_mebibyte(subject: Subject) -> Verdict {
    let long = |bytes| (0..=u8::MAX).cycle().take(bytes).collect::<Bytes>();
    let (key, value) = (subject.key("key"), long(1 << 20));
    if subject.try_claim(&key, &value).await == Err(StoreErrorKind::Full) {
        subject.expect_free(&key).await?;
        return all_operations(&subject, &key, &long(256 << 10)).await;
    }
    subject.remove(&key, &value).await?;
    all_operations(&subject, &key, &value).await
}

pub(super) async fn keys_may_be_any_text(subject: Subject) -> Verdict {
    for name in [
        "",
        " with  spaces ",
        "{braces}",
        "}{",
        "per%cent_and*star?",
        "quotes'\"`\\",
        "lines\r\nand\ttabs",
        "Größe/ключ/鍵/🔑",
    ] {
        let value = Bytes::from(format!("value of {name}"));
        all_operations(&subject, &subject.key(name), &value).await?;
    }
    Ok(())
}

pub(super) async fn keys_may_be_long(subject: Subject) -> Verdict {
    let start = subject.key("");
    let long = |end: char| format!("{start}{}{end}", "k".repeat(511 - start.len()));
    all_operations(&subject, &long('a'), &Bytes::from_static(b"a")).await?;
    all_operations(&subject, &long('b'), &Bytes::from_static(b"b")).await
}

pub(super) async fn keys_that_look_alike_are_different(subject: Subject) -> Verdict {
    let keys = [
        "key", "Key", "key ", " key", "kéy", "key:", "key:1", "{key}", "ke",
    ]
    .map(|name| subject.key(name));
    let value = |key: &str| Bytes::from(format!("value of {key}"));
    for key in &keys {
        subject.put(key, &value(key), LONG).await?;
    }
    for key in &keys {
        subject.expect_stored(key, &value(key)).await?;
        let swap = subject.remove(key, &value(key)).await?;
        expect_answer("`remove`", &swap, &Swap::Done)?;
        subject.expect_free(key).await?;
    }
    Ok(())
}

/// Uses `value` in every operation that stores, compares or returns values.
async fn all_operations(subject: &Subject, key: &str, value: &Bytes) -> Verdict {
    let other = Bytes::from_static(b"something else");
    subject.put(key, value, LONG).await?;
    subject.expect_stored(key, value).await?;
    let claim = subject.claim(key, value, LONG).await?;
    expect_answer("`claim` with the stored value", &claim, &Claim::Claimed)?;
    let claim = subject.claim(key, &other, LONG).await?;
    expect_answer("`claim`", &claim, &Claim::Taken(value.clone()))?;
    let swap = subject.remove(key, &other).await?;
    expect_answer(
        "`remove` with another expected value",
        &swap,
        &Swap::Other(value.clone()),
    )?;
    let swap = subject.replace(key, value, &other, LONG).await?;
    expect_answer("`replace` of the value", &swap, &Swap::Done)?;
    let swap = subject.replace(key, &other, value, LONG).await?;
    expect_answer("`replace` by the value", &swap, &Swap::Done)?;
    let swap = subject.replace(key, value, value, LONG).await?;
    expect_answer(
        "`replace` of a record by the same record",
        &swap,
        &Swap::Done,
    )?;
    subject.expect_stored(key, value).await?;
    let swap = subject.remove(key, value).await?;
    expect_answer("`remove`", &swap, &Swap::Done)?;
    subject.expect_free(key).await
}
