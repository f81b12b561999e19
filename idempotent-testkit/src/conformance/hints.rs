//! Changes that notify subscribers.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::Swap;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::subject::{LONG, LONGER, Subject, Verdict, expect_answer};

const FIRST: Bytes = Bytes::from_static(b"first");
const SECOND: Bytes = Bytes::from_static(b"second");
const THIRD: Bytes = Bytes::from_static(b"third");

pub(super) async fn replace_and_notify_answers_like_replace(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let renewal = subject
        .replace_and_notify(&key, &FIRST, &FIRST, LONGER)
        .await?;
    expect_answer(
        "`replace_and_notify` of a record by the same record",
        &renewal,
        &Swap::Done,
    )?;
    subject.expect_ttl(subject.expect_stored(&key, &FIRST).await?, LONGER)?;
    // The second `replace_and_notify` finds its value already stored and changes nothing.
    for ttl in [LONG, LONGER] {
        let swap = subject
            .replace_and_notify(&key, &FIRST, &SECOND, ttl)
            .await?;
        expect_answer("`replace_and_notify`", &swap, &Swap::Done)?;
        subject.expect_ttl(subject.expect_stored(&key, &SECOND).await?, LONG)?;
    }
    Ok(())
}

pub(super) async fn remove_and_notify_answers_like_remove(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for answer in [Swap::Done, Swap::Absent] {
        let swap = subject.remove_and_notify(&key, &FIRST).await?;
        expect_answer("`remove_and_notify`", &swap, &answer)?;
        subject.expect_free(&key).await?;
    }
    subject.put(&key, &SECOND, LONG).await
}

pub(super) async fn a_refused_notifying_change_changes_nothing(subject: Subject) -> Verdict {
    let (free, taken) = (subject.key("free"), subject.key("taken"));
    subject.put(&taken, &FIRST, LONG).await?;
    for (expected, value) in [(SECOND, THIRD), (SECOND, SECOND)] {
        let swap = subject
            .replace_and_notify(&free, &expected, &value, LONGER)
            .await?;
        expect_answer("`replace_and_notify` of a free key", &swap, &Swap::Absent)?;
        subject.expect_free(&free).await?;
        let swap = subject
            .replace_and_notify(&taken, &expected, &value, LONGER)
            .await?;
        expect_answer(
            "`replace_and_notify` with another expected value",
            &swap,
            &Swap::Other(FIRST),
        )?;
        subject.expect_ttl(subject.expect_stored(&taken, &FIRST).await?, LONG)?;
    }
    let swap = subject.remove_and_notify(&free, &SECOND).await?;
    expect_answer("`remove_and_notify` of a free key", &swap, &Swap::Absent)?;
    let swap = subject.remove_and_notify(&taken, &SECOND).await?;
    expect_answer(
        "`remove_and_notify` with another expected value",
        &swap,
        &Swap::Other(FIRST),
    )?;
    subject.expect_ttl(subject.expect_stored(&taken, &FIRST).await?, LONG)
}

pub(super) async fn a_notifying_change_wakes_subscribers(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    // Hints are optional.
    if subject.subscribe(&key).await.is_none() {
        return Ok(());
    }
    // A store may end a subscription, for example when a busy machine loses a connection. Then more attempts must wake than end.
    let (mut woken, mut ended) = (0, 0);
    while ended < MOST_ENDED {
        if wakes(&subject, &subject.key(woken + ended)).await? {
            woken += 1;
        } else {
            ended += 1;
            sleep(PAUSE).await;
        }
        if woken > ended {
            return Ok(());
        }
    }
    Err(format!(
        "in {ended} of {} attempts `subscribe` returned None, or the store closed the receiver instead of notifying it",
        woken + ended
    ))
}

const MOST_ENDED: usize = 5;
/// In this time a store can connect again.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether each of two changes wakes all subscribers. `false` if a subscription ends.
async fn wakes(subject: &Subject, key: &str) -> Result<bool, String> {
    subject.put(key, &FIRST, LONG).await?;
    let Some(mut early) = subject.subscribe(key).await else {
        return Ok(false);
    };
    let swap = subject
        .replace_and_notify(key, &FIRST, &SECOND, LONG)
        .await?;
    expect_answer("`replace_and_notify`", &swap, &Swap::Done)?;
    if !is_woken(&mut early, "replace_and_notify").await? {
        return Ok(false);
    }
    let Some(mut late) = subject.subscribe(key).await else {
        return Ok(false);
    };
    let swap = subject.remove_and_notify(key, &SECOND).await?;
    expect_answer("`remove_and_notify`", &swap, &Swap::Done)?;
    Ok(is_woken(&mut early, "remove_and_notify").await?
        && is_woken(&mut late, "remove_and_notify").await?)
}

/// Much longer than any store takes to notify.
const HINT_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until the listener is woken. `false` if its subscription ends.
async fn is_woken(listener: &mut watch::Receiver<()>, what: &str) -> Result<bool, String> {
    let changed = timeout(HINT_TIMEOUT, listener.changed()).await;
    changed.map(|changed| changed.is_ok()).map_err(|_| {
        format!("the receiver of `subscribe` was not notified of `{what}` within {HINT_TIMEOUT:?}")
    })
}
