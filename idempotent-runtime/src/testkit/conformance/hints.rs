//! Changes that tell of themselves, and who hears it.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use super::subject::{LONG, LONGER, Subject, Verdict, same, stands_for};
use crate::store::Swap;

const FIRST: Bytes = Bytes::from_static(b"first");
const SECOND: Bytes = Bytes::from_static(b"second");
const THIRD: Bytes = Bytes::from_static(b"third");

pub(super) async fn a_replacement_that_tells_answers_as_one_that_does_not(
    subject: Subject,
) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    let renewal = subject
        .replace_and_notify(&key, &FIRST, &FIRST, LONGER)
        .await?;
    same("renewal", &renewal, &Swap::Done)?;
    stands_for(subject.stands(&key, &FIRST).await?, LONGER)?;
    // The second finds its value there already, and changes nothing.
    for ttl in [LONG, LONGER] {
        let swap = subject
            .replace_and_notify(&key, &FIRST, &SECOND, ttl)
            .await?;
        same("replace_and_notify", &swap, &Swap::Done)?;
        stands_for(subject.stands(&key, &SECOND).await?, LONG)?;
    }
    Ok(())
}

pub(super) async fn a_removal_that_tells_answers_as_one_that_does_not(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    for answer in [Swap::Done, Swap::Absent] {
        let swap = subject.remove_and_notify(&key, &FIRST).await?;
        same("remove_and_notify", &swap, &answer)?;
        subject.is_free(&key).await?;
    }
    subject.put(&key, &SECOND, LONG).await
}

pub(super) async fn a_refused_change_that_would_tell_changes_nothing(subject: Subject) -> Verdict {
    let (free, taken) = (subject.key("free"), subject.key("taken"));
    subject.put(&taken, &FIRST, LONG).await?;
    for (expected, value) in [(SECOND, THIRD), (SECOND, SECOND)] {
        let swap = subject
            .replace_and_notify(&free, &expected, &value, LONGER)
            .await?;
        same("replace_and_notify of nothing", &swap, &Swap::Absent)?;
        subject.is_free(&free).await?;
        let swap = subject
            .replace_and_notify(&taken, &expected, &value, LONGER)
            .await?;
        same(
            "replace_and_notify of another value",
            &swap,
            &Swap::Other(FIRST),
        )?;
        stands_for(subject.stands(&taken, &FIRST).await?, LONG)?;
    }
    let swap = subject.remove_and_notify(&free, &SECOND).await?;
    same("remove_and_notify of nothing", &swap, &Swap::Absent)?;
    let swap = subject.remove_and_notify(&taken, &SECOND).await?;
    same(
        "remove_and_notify of another value",
        &swap,
        &Swap::Other(FIRST),
    )?;
    stands_for(subject.stands(&taken, &FIRST).await?, LONG)
}

pub(super) async fn a_change_that_tells_is_heard(subject: Subject) -> Verdict {
    let key = subject.key("key");
    subject.put(&key, &FIRST, LONG).await?;
    // A store need not give hints.
    let Some(mut early) = subject.subscribe(&key).await else {
        return Ok(());
    };
    let swap = subject
        .replace_and_notify(&key, &FIRST, &SECOND, LONG)
        .await?;
    same("replace_and_notify", &swap, &Swap::Done)?;
    heard(&mut early, "replace_and_notify").await?;
    let Some(mut late) = subject.subscribe(&key).await else {
        return Err("subscribe: nothing, after it gave a receiver".to_owned());
    };
    let swap = subject.remove_and_notify(&key, &SECOND).await?;
    same("remove_and_notify", &swap, &Swap::Done)?;
    for listener in [&mut early, &mut late] {
        heard(listener, "remove_and_notify").await?;
    }
    Ok(())
}

/// Far more than any store takes to tell.
const PATIENCE: Duration = Duration::from_secs(5);

async fn heard(listener: &mut watch::Receiver<()>, what: &str) -> Verdict {
    match timeout(PATIENCE, listener.changed()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(format!("{what}: the hints have stopped")),
        Err(_) => Err(format!("{what}: not heard within {PATIENCE:?}")),
    }
}
