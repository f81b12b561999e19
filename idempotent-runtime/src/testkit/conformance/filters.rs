//! Bloom filters. A store without any passes: there everything was perhaps seen.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::subject::{LONG, Subject, Verdict};
use crate::store::{BloomFilter, Hint};

const MEMBERS: u32 = 2000;
const RACERS: usize = 8;
/// Of a filter that forgets while a case waits for it.
const SHORT: Duration = Duration::from_millis(600);

pub(super) async fn a_marked_member_is_perhaps_seen(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    for member in 0..MEMBERS {
        let _ = subject.bloom_insert(&filter, member).await?;
    }
    all_perhaps_seen(&subject, &filter, 0..MEMBERS).await
}

pub(super) async fn members_that_are_marked_at_once_are_all_perhaps_seen(
    subject: Subject,
) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    let race = |subject: Subject, racer: usize| {
        let filter = filter.clone();
        async move {
            for member in (0..MEMBERS).skip(racer).step_by(RACERS) {
                let _ = subject.bloom_insert(&filter, member).await?;
            }
            Ok(())
        }
    };
    subject.race(RACERS, race).await?;
    all_perhaps_seen(&subject, &filter, 0..MEMBERS).await
}

pub(super) async fn a_member_that_many_mark_is_unseen_once_at_most(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    for member in 0..50 {
        let race = |subject: Subject, _| {
            let filter = filter.clone();
            async move { subject.bloom_insert(&filter, member).await }
        };
        let hints = subject.race(RACERS, race).await?;
        let unseen = hints.iter().filter(|hint| **hint == Hint::Unseen).count();
        if unseen > 1 {
            return Err(format!(
                "bloom_insert: {unseen} of {RACERS} at once are unseen"
            ));
        }
    }
    Ok(())
}

pub(super) async fn an_unmarked_member_is_mostly_unseen(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    let mut perhaps_seen = 0;
    for member in 0..MEMBERS {
        perhaps_seen +=
            u32::from(subject.bloom_insert(&filter, member).await? == Hint::PerhapsSeen);
    }
    // At the very end the setting is 1 %, and before it is less.
    if perhaps_seen < MEMBERS / 50 || perhaps_seen == MEMBERS {
        return Ok(());
    }
    Err(format!(
        "bloom_insert: {perhaps_seen} of {MEMBERS} that are new are perhaps seen"
    ))
}

pub(super) async fn filters_have_members_of_their_own(subject: Subject) -> Verdict {
    let [one, other] = ["one", "other"].map(|name| filter(&subject, name, LONG));
    if subject.bloom_insert(&one, 1).await? == Hint::PerhapsSeen {
        return Ok(());
    }
    match subject.bloom_insert(&other, 1).await? {
        Hint::Unseen => Ok(()),
        Hint::PerhapsSeen => {
            Err("bloom_insert: a member of another filter is perhaps seen".to_owned())
        }
    }
}

pub(super) async fn a_mark_is_kept_for_the_retention_and_not_for_ever(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", SHORT);
    // One after another, so that some are at the end of a bucket.
    let mut marked = Vec::new();
    for member in 0..12 {
        marked.push((member, Instant::now()));
        let _ = subject.bloom_insert(&filter, member).await?;
        sleep(SHORT / 24).await;
    }
    for (member, marked) in marked {
        sleep((SHORT * 9 / 10).saturating_sub(marked.elapsed())).await;
        let hint = subject.bloom_insert(&filter, member).await?;
        let after = marked.elapsed();
        if hint == Hint::Unseen && after < SHORT {
            return Err(format!("bloom_insert: unseen again after {after:?}"));
        }
    }
    let last = 100;
    if subject.bloom_insert(&filter, last).await? == Hint::PerhapsSeen {
        return Ok(());
    }
    // As long as it may be kept, and a little more.
    sleep(SHORT * 2).await;
    match subject.bloom_insert(&filter, last).await? {
        Hint::Unseen => Ok(()),
        Hint::PerhapsSeen => Err(format!(
            "bloom_insert: perhaps seen still after {:?}",
            SHORT * 2
        )),
    }
}

pub(super) async fn a_fill_is_about_what_was_marked(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    let Some(empty) = subject.bloom_stats(&filter).await? else {
        return Ok(());
    };
    for member in 0..MEMBERS {
        let _ = subject.bloom_insert(&filter, member).await?;
    }
    let Some(full) = subject.bloom_stats(&filter).await? else {
        return Err("bloom_stats: nothing, after there was something".to_owned());
    };
    let about = u64::from(MEMBERS);
    let near = (about - about / 20..=about + about / 20).contains(&full.members);
    if empty.members == 0 && near && full.error_rate <= 0.011 {
        return Ok(());
    }
    Err(format!(
        "bloom_stats: {empty:?}, and after {MEMBERS} marks {full:?}"
    ))
}

async fn all_perhaps_seen(
    subject: &Subject,
    filter: &BloomFilter,
    members: impl Iterator<Item = u32>,
) -> Verdict {
    for member in members {
        if subject.bloom_insert(filter, member).await? == Hint::Unseen {
            return Err(format!("bloom_insert: member {member} is unseen again"));
        }
    }
    Ok(())
}

fn filter(subject: &Subject, name: &str, retention: Duration) -> BloomFilter {
    BloomFilter {
        key: subject.key(format_args!("{{{name}}}")),
        capacity: MEMBERS.into(),
        error_rate: 0.01,
        retention,
    }
}
