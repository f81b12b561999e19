//! Bloom filters. A store without filters passes: it answers `PerhapsSeen` to everything.

use std::time::Duration;

use idempotent_runtime::store::{BloomFilter, Hint};
use tokio::time::{Instant, sleep};

use super::lifetime::until_measured;
use super::subject::{LONG, Subject, Verdict};

const MEMBERS: u32 = 2000;
const RACERS: usize = 8;
/// The retention of a filter that forgets members while a case waits.
const SHORT: Duration = Duration::from_millis(600);

pub(super) async fn an_inserted_member_is_perhaps_seen(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    for member in 0..MEMBERS {
        let _ = subject.insert_number(&filter, member).await?;
    }
    all_perhaps_seen(&subject, &filter, 0..MEMBERS).await
}

pub(super) async fn members_inserted_at_once_are_all_perhaps_seen(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    let race = |subject: Subject, racer: usize| {
        let filter = filter.clone();
        async move {
            for member in (0..MEMBERS).skip(racer).step_by(RACERS) {
                let _ = subject.insert_number(&filter, member).await?;
            }
            Ok(())
        }
    };
    subject.race(RACERS, race).await?;
    all_perhaps_seen(&subject, &filter, 0..MEMBERS).await
}

pub(super) async fn concurrent_inserts_of_a_member_are_unseen_at_most_once(
    subject: Subject,
) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    for member in 0..50 {
        let race = |subject: Subject, _| {
            let filter = filter.clone();
            async move { subject.insert_number(&filter, member).await }
        };
        let hints = subject.race(RACERS, race).await?;
        let unseen = hints.iter().filter(|hint| **hint == Hint::Unseen).count();
        if unseen > 1 {
            return Err(format!(
                "{unseen} of {RACERS} concurrent `bloom_insert`s of one member returned Unseen, but only one may"
            ));
        }
    }
    Ok(())
}

pub(super) async fn a_new_member_is_mostly_unseen(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    let mut perhaps_seen = 0;
    for member in 0..MEMBERS {
        perhaps_seen +=
            u32::from(subject.insert_number(&filter, member).await? == Hint::PerhapsSeen);
    }
    // The rate of false positives is below 1 % until the last member.
    if perhaps_seen < MEMBERS / 50 || perhaps_seen == MEMBERS {
        return Ok(());
    }
    Err(format!(
        "`bloom_insert` returned PerhapsSeen for {perhaps_seen} of {MEMBERS} new members, but its error rate must be about 1 %"
    ))
}

pub(super) async fn filters_do_not_share_members(subject: Subject) -> Verdict {
    let [one, other] = ["one", "other"].map(|name| filter(&subject, name, LONG));
    if subject.insert_number(&one, 1).await? == Hint::PerhapsSeen {
        return Ok(());
    }
    match subject.insert_number(&other, 1).await? {
        Hint::Unseen => Ok(()),
        Hint::PerhapsSeen => {
            Err(
                "`bloom_insert` returned PerhapsSeen for a member of another filter, but must return Unseen"
                    .to_owned(),
            )
        }
    }
}

pub(super) async fn a_filter_remembers_a_member_for_its_retention(subject: Subject) -> Verdict {
    let lives = async |subject: Subject, retention: Duration| {
        let filter = filter(&subject, "filter", retention);
        if !remembers(&subject, &filter).await? {
            return Ok(false);
        }
        forgets(&subject, &filter).await.map(|()| true)
    };
    until_measured(&subject, SHORT, lives).await
}

pub(super) async fn bloom_stats_estimates_the_number_of_members(subject: Subject) -> Verdict {
    let filter = filter(&subject, "filter", LONG);
    let Some(empty) = subject.bloom_stats(&filter).await? else {
        return Ok(());
    };
    for member in 0..MEMBERS {
        let _ = subject.insert_number(&filter, member).await?;
    }
    let Some(full) = subject.bloom_stats(&filter).await? else {
        return Err("`bloom_stats` returned None after an earlier call returned Some".to_owned());
    };
    let about = u64::from(MEMBERS);
    let is_near = (about - about / 20..=about + about / 20).contains(&full.members);
    if empty.members == 0 && is_near && full.error_rate <= 0.011 {
        return Ok(());
    }
    Err(format!(
        "`bloom_stats` returned {empty:?} for an empty filter and {full:?} after {MEMBERS} inserts, but must report 0 and \
         about {MEMBERS} members with an error rate of about 1 %"
    ))
}

/// Inserts members, and again when most of the retention has passed. Returns whether the machine was quick enough to tell that most of
/// them were not forgotten too early.
async fn remembers(subject: &Subject, filter: &BloomFilter) -> Result<bool, String> {
    let retention = filter.retention;
    // The members are inserted at different times, so that some are at the end of a bucket.
    let mut marked = Vec::new();
    for member in 0..12 {
        marked.push((member, Instant::now()));
        let _ = subject.insert_number(filter, member).await?;
        sleep(retention / 24).await;
    }
    let (members, mut measured) = (marked.len(), 0);
    for (member, marked) in marked {
        sleep((retention * 9 / 10).saturating_sub(marked.elapsed())).await;
        let hint = subject.insert_number(filter, member).await?;
        let after = marked.elapsed();
        if hint == Hint::Unseen && after < retention {
            return Err(format!(
                "`bloom_insert` returned Unseen for a member that was inserted {after:?} before, but must remember it for {retention:?}"
            ));
        }
        measured += usize::from(after < retention);
    }
    Ok(measured * 4 >= members * 3)
}

/// Inserts a member into a filter that is older than its retention, and again when the filter must have forgotten the member.
async fn forgets(subject: &Subject, filter: &BloomFilter) -> Verdict {
    let (member, longest) = (100, filter.retention * 2);
    if subject.insert_number(filter, member).await? == Hint::PerhapsSeen {
        return Ok(());
    }
    sleep(longest).await;
    match subject.insert_number(filter, member).await? {
        Hint::Unseen => Ok(()),
        Hint::PerhapsSeen => Err(format!(
            "`bloom_insert` still returned PerhapsSeen {longest:?} after the last insert, but must have forgotten the member"
        )),
    }
}

async fn all_perhaps_seen(
    subject: &Subject,
    filter: &BloomFilter,
    members: impl Iterator<Item = u32>,
) -> Verdict {
    for member in members {
        if subject.insert_number(filter, member).await? == Hint::Unseen {
            return Err(format!(
                "`bloom_insert` returned Unseen for member {member}, which was inserted before, but must return PerhapsSeen"
            ));
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
