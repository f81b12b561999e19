//! The cases about `list`. A store that cannot list passes them.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::expiry::{SHORT, wait_until_expired};
use super::subject::{LONG, MOST_PAGES, Subject, Verdict, expect_answer, never_ends};
use idempotent_runtime::store::{LISTED_BYTES, Listed, Swap};

const VALUE: Bytes = Bytes::from_static(b"value");

pub(super) async fn a_record_is_listed_with_its_head_and_its_ttl(subject: Subject) -> Verdict {
    let long: Bytes = (0..=u8::MAX).cycle().take(3 * LISTED_BYTES).collect();
    for (name, value) in [("short", &VALUE), ("empty", &Bytes::new()), ("long", &long)] {
        let key = subject.key(name);
        subject.put(&key, value, LONG).await?;
        let Some(record) = find(&subject, &key).await? else {
            return Ok(());
        };
        expect_answer("the key in a listing", &record.key, &key)?;
        let head = value.slice(..value.len().min(LISTED_BYTES));
        expect_answer("the bytes in a listing", &record.head, &head)?;
        let ttl = record.ttl.ok_or("`list` returned no time to live")?;
        subject.expect_ttl(ttl, LONG)?;
    }
    Ok(())
}

pub(super) async fn only_keys_with_the_prefix_are_listed(subject: Subject) -> Verdict {
    // Characters with a meaning in the patterns of a server, and texts that look alike.
    let prefixes = [
        "a%", "a_", "a*", "a?", "a[b]", "a\\", "a'", "A", "a", "b", "\u{e4}", "a{b}",
    ];
    let mut keys = BTreeSet::new();
    for prefix in prefixes {
        for end in ["", ":1", "bx", "B"] {
            let key = subject.key(format_args!("{prefix}{end}"));
            if keys.insert(key.clone()) {
                subject.put(&key, &VALUE, LONG).await?;
            }
        }
    }
    for prefix in prefixes.map(|prefix| subject.key(prefix)) {
        let Some(listed) = subject.list(&prefix).await? else {
            return Ok(());
        };
        let expected = keys.iter().filter(|key| key.starts_with(&prefix)).cloned();
        expect_answer("`list` of a prefix", &listed, &expected.collect())?;
    }
    Ok(())
}

pub(super) async fn an_expired_record_is_not_listed(subject: Subject) -> Verdict {
    let [expired, lives] = ["expired", "lives"].map(|name| subject.key(name));
    subject.put(&expired, &VALUE, SHORT).await?;
    subject.put(&lives, &VALUE, LONG).await?;
    wait_until_expired(&subject, &expired, SHORT).await?;
    let Some(listed) = subject.list(&subject.key("")).await? else {
        return Ok(());
    };
    expect_answer("`list`", &listed, &BTreeSet::from([lives]))
}

pub(super) async fn the_pages_of_a_listing_end_and_miss_no_record(subject: Subject) -> Verdict {
    let mut lasting = BTreeSet::new();
    for number in 0..35 {
        let key = subject.key(format_args!("lasting:{number}"));
        subject.put(&key, &VALUE, LONG).await?;
        lasting.insert(key);
    }
    let (prefix, mut listed, mut after) = (subject.key("lasting:"), BTreeSet::new(), None);
    for round in 0..MOST_PAGES {
        let Some(page) = subject.page(&prefix, after.as_ref()).await? else {
            return Ok(());
        };
        listed.extend(page.records.into_iter().map(|record| record.key));
        after = page.next;
        if after.is_none() {
            break;
        }
        come_and_go(&subject, round).await?;
    }
    if after.is_some() {
        return Err(never_ends());
    }
    let missed: Vec<_> = lasting.difference(&listed).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "`list` missed {missed:?}, which were stored all the time"
    ))
}

/// Stores a record before or after the lasting records, and removes the record of the round before.
async fn come_and_go(subject: &Subject, round: u32) -> Verdict {
    let key = |round| subject.key(format_args!("lasting:{}:{round}", round % 7));
    if round < 20 {
        subject.put(&key(round), &VALUE, LONG).await?;
    }
    if (1..=20).contains(&round) {
        let swap = subject.remove(&key(round - 1), &VALUE).await?;
        expect_answer("`remove`", &swap, &Swap::Done)?;
    }
    Ok(())
}

/// The only record with this key as its prefix. `None` if the store cannot list.
async fn find(subject: &Subject, key: &str) -> Result<Option<Listed>, String> {
    let (mut found, mut after) = (None, None);
    for _ in 0..MOST_PAGES {
        let Some(page) = subject.page(key, after.as_ref()).await? else {
            return Ok(None);
        };
        found = page.records.into_iter().next().or(found);
        after = page.next;
        if after.is_none() {
            let missed = || format!("`list` must return the key `{key}`");
            return found.ok_or_else(missed).map(Some);
        }
    }
    Err(never_ends())
}
