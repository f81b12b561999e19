//! Sets whose members have owners and expire one by one.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, Swap};
use tokio::time::{Instant, sleep};

use super::lifetime::{expires_in_time, until_measured};
use super::subject::{LONG, Subject, Verdict, expect_answer};

const MINE: Bytes = Bytes::from_static(b"mine");
const YOURS: Bytes = Bytes::from_static(b"yours");

const MEMBER: &[u8] = b"member";
const RACERS: usize = 8;
const ROUNDS: usize = 50;

pub(super) async fn a_member_is_inserted_once(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    let added = subject.set_insert(&set, MEMBER, &MINE, LONG).await?;
    expect_answer("`set_insert` of a new member", &added, &Claim::Claimed)?;
    for _ in 0..2 {
        let again = subject.set_insert(&set, MEMBER, &YOURS, LONG).await?;
        expect_answer(
            "`set_insert` of a member of another owner",
            &again,
            &Claim::Taken(MINE),
        )?;
    }
    Ok(())
}

pub(super) async fn a_repeated_insert_gets_the_same_answer(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    for _ in 0..3 {
        let added = subject.set_insert(&set, MEMBER, &MINE, LONG).await?;
        expect_answer(
            "`set_insert` of a member of the same owner",
            &added,
            &Claim::Claimed,
        )?;
    }
    let other = subject.set_insert(&set, MEMBER, &YOURS, LONG).await?;
    expect_answer(
        "`set_insert` of a member of another owner",
        &other,
        &Claim::Taken(MINE),
    )
}

pub(super) async fn the_owner_can_remove_a_member(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    for owner in [MINE, YOURS, MINE] {
        let added = subject.set_insert(&set, MEMBER, &owner, LONG).await?;
        expect_answer("`set_insert` of a new member", &added, &Claim::Claimed)?;
        let out = subject.set_remove(&set, MEMBER, &owner, LONG).await?;
        expect_answer("`set_remove`", &out, &Swap::Done)?;
    }
    Ok(())
}

pub(super) async fn another_owner_cannot_remove_a_member(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    subject.set_insert(&set, MEMBER, &MINE, LONG).await?;
    let out = subject.set_remove(&set, MEMBER, &YOURS, LONG).await?;
    expect_answer("`set_remove` by another owner", &out, &Swap::Other(MINE))?;
    let stored = subject.set_insert(&set, MEMBER, &YOURS, LONG).await?;
    expect_answer(
        "`set_insert` of a member of another owner",
        &stored,
        &Claim::Taken(MINE),
    )
}

pub(super) async fn a_missing_member_is_not_removed(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    let out = subject.set_remove(&set, MEMBER, &MINE, LONG).await?;
    expect_answer("`set_remove` of a missing member", &out, &Swap::Absent)?;
    subject.set_insert(&set, MEMBER, &MINE, LONG).await?;
    subject.set_remove(&set, MEMBER, &MINE, LONG).await?;
    let out = subject.set_remove(&set, MEMBER, &MINE, LONG).await?;
    expect_answer("a second `set_remove`", &out, &Swap::Absent)
}

pub(super) async fn members_may_be_any_bytes(subject: Subject) -> Verdict {
    let sets = [subject.key("{set}"), subject.key("{other set}")];
    let high: Vec<u8> = (192..=u8::MAX).collect();
    let members: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"\xff", b"\xfe", b"a", b"A", &high];
    let each = || {
        sets.iter()
            .flat_map(|set| members.map(|member| (set, member)))
    };
    for (owner, (set, member)) in each().enumerate() {
        let added = subject
            .set_insert(set, member, &owner_of(owner), LONG)
            .await?;
        expect_answer("`set_insert` of a new member", &added, &Claim::Claimed)?;
    }
    for (owner, (set, member)) in each().enumerate() {
        let stored = subject.set_insert(set, member, &YOURS, LONG).await?;
        expect_answer(
            "`set_insert` of a member of another owner",
            &stored,
            &Claim::Taken(owner_of(owner)),
        )?;
    }
    Ok(())
}

pub(super) async fn a_member_is_remembered_for_the_retention(subject: Subject) -> Verdict {
    let lives = async |subject: Subject, retention: Duration| {
        // The members start at different times within the buckets of the store, and their lifetimes overlap.
        let lifetime = move |subject: Subject, racer: usize| async move {
            sleep(retention / 11 * u32::try_from(racer).unwrap_or_default()).await;
            remembered(&subject, racer, retention).await
        };
        let measured = subject.race(RACERS, lifetime).await?;
        Ok(measured.into_iter().all(|is_measured| is_measured))
    };
    until_measured(&subject, RETENTION, lives).await
}

pub(super) async fn one_of_many_inserts_wins(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    for round in 0..ROUNDS {
        let race = |subject: Subject, racer| {
            let set = set.clone();
            async move {
                let member = round.to_le_bytes();
                subject
                    .set_insert(&set, &member, &owner_of(racer), LONG)
                    .await
            }
        };
        let answers = subject.race(RACERS, race).await?;
        let won = |answer: &Claim| *answer == Claim::Claimed;
        let Some(winner) = answers.iter().position(won) else {
            return Err("none of the concurrent inserts succeeded, but one must".to_owned());
        };
        for (racer, answer) in answers.iter().enumerate() {
            if racer != winner {
                let taken = Claim::Taken(owner_of(winner));
                expect_answer("an operation that lost the race", answer, &taken)?;
            }
        }
    }
    Ok(())
}

const RETENTION: Duration = Duration::from_millis(400);

/// Inserts a member, and waits until another owner can insert it: until the store has forgotten it.
async fn remembered(subject: &Subject, racer: usize, retention: Duration) -> Result<bool, String> {
    let member = format!("member {racer}").into_bytes();
    let (set, begun) = (subject.key("{set}"), Instant::now());
    let added = subject.set_insert(&set, &member, &MINE, retention).await?;
    expect_answer("`set_insert` of a new member", &added, &Claim::Claimed)?;
    let is_gone = async |_| {
        let again = subject.set_insert(&set, &member, &YOURS, retention).await?;
        Ok(again == Claim::Claimed)
    };
    expires_in_time(subject, "a member", begun, retention, is_gone).await
}

fn owner_of(racer: usize) -> Bytes {
    Bytes::from(format!("racer {racer}"))
}
