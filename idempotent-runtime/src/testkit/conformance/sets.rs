//! Sets whose members have an owner, and are forgotten one by one.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::subject::{LONG, Subject, Verdict, same};
use crate::store::{Claim, Swap};

const MINE: Bytes = Bytes::from_static(b"mine");
const YOURS: Bytes = Bytes::from_static(b"yours");

const MEMBER: &[u8] = b"member";
const RACERS: usize = 8;
const ROUNDS: usize = 50;

pub(super) async fn a_member_is_added_once(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    let added = subject.set_insert(&set, MEMBER, &MINE, LONG).await?;
    same("set_insert", &added, &Claim::Claimed)?;
    for _ in 0..2 {
        let again = subject.set_insert(&set, MEMBER, &YOURS, LONG).await?;
        same("set_insert of a member", &again, &Claim::Taken(MINE))?;
    }
    Ok(())
}

pub(super) async fn an_add_sent_twice_is_answered_alike(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    for _ in 0..3 {
        let added = subject.set_insert(&set, MEMBER, &MINE, LONG).await?;
        same("set_insert of an own member", &added, &Claim::Claimed)?;
    }
    let other = subject.set_insert(&set, MEMBER, &YOURS, LONG).await?;
    same("set_insert of a member", &other, &Claim::Taken(MINE))
}

pub(super) async fn a_member_is_taken_out_by_its_owner(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    for owner in [MINE, YOURS, MINE] {
        let added = subject.set_insert(&set, MEMBER, &owner, LONG).await?;
        same("set_insert", &added, &Claim::Claimed)?;
        let out = subject.set_remove(&set, MEMBER, &owner, LONG).await?;
        same("set_remove", &out, &Swap::Done)?;
    }
    Ok(())
}

pub(super) async fn a_member_is_not_taken_out_by_another(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    subject.set_insert(&set, MEMBER, &MINE, LONG).await?;
    let out = subject.set_remove(&set, MEMBER, &YOURS, LONG).await?;
    same("set_remove by another", &out, &Swap::Other(MINE))?;
    let standing = subject.set_insert(&set, MEMBER, &YOURS, LONG).await?;
    same("set_insert of a member", &standing, &Claim::Taken(MINE))
}

pub(super) async fn no_member_is_not_taken_out(subject: Subject) -> Verdict {
    let set = subject.key("{set}");
    let out = subject.set_remove(&set, MEMBER, &MINE, LONG).await?;
    same("set_remove of nothing", &out, &Swap::Absent)?;
    subject.set_insert(&set, MEMBER, &MINE, LONG).await?;
    subject.set_remove(&set, MEMBER, &MINE, LONG).await?;
    let out = subject.set_remove(&set, MEMBER, &MINE, LONG).await?;
    same("set_remove of what was taken out", &out, &Swap::Absent)
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
        same("set_insert of another member", &added, &Claim::Claimed)?;
    }
    for (owner, (set, member)) in each().enumerate() {
        let standing = subject.set_insert(set, member, &YOURS, LONG).await?;
        same(
            "set_insert of a member",
            &standing,
            &Claim::Taken(owner_of(owner)),
        )?;
    }
    Ok(())
}

pub(super) async fn a_member_is_remembered_for_the_retention(subject: Subject) -> Verdict {
    // At different times of whatever the store counts time by, and while others come and go.
    let lifetime = |subject: Subject, racer: usize| async move {
        sleep(STAGGER * u32::try_from(racer).unwrap_or_default()).await;
        remembered(&subject, format!("member {racer}").as_bytes()).await
    };
    subject.race(RACERS, lifetime).await.map(drop)
}

pub(super) async fn one_of_many_adds_wins(subject: Subject) -> Verdict {
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
            return Err("none of the racers has added it".to_owned());
        };
        for (racer, answer) in answers.iter().enumerate() {
            if racer != winner {
                let taken = Claim::Taken(owner_of(winner));
                same("answer to a loser", answer, &taken)?;
            }
        }
    }
    Ok(())
}

const RETENTION: Duration = Duration::from_millis(400);
const STAGGER: Duration = Duration::from_millis(37);
/// A store's clock need not tick exactly as ours does.
const TOO_EARLY: Duration = Duration::from_millis(50);
/// A store may count in seconds, and the machine may be busy.
const TOO_LATE: Duration = Duration::from_secs(5);

/// Checks when another can add `member`, which is when it is forgotten.
async fn remembered(subject: &Subject, member: &[u8]) -> Verdict {
    let (set, begun) = (subject.key("{set}"), Instant::now());
    let added = subject.set_insert(&set, member, &MINE, RETENTION).await?;
    same("set_insert", &added, &Claim::Claimed)?;
    while subject.set_insert(&set, member, &YOURS, RETENTION).await? != Claim::Claimed {
        if begun.elapsed() > 2 * RETENTION + TOO_LATE {
            let late = begun.elapsed();
            return Err(format!(
                "a member of {RETENTION:?} is still there after {late:?}"
            ));
        }
        sleep(Duration::from_millis(5)).await;
    }
    let lived = begun.elapsed();
    if lived + TOO_EARLY < RETENTION {
        return Err(format!(
            "the member was forgotten after {lived:?}, instead of {RETENTION:?}"
        ));
    }
    Ok(())
}

fn owner_of(racer: usize) -> Bytes {
    Bytes::from(format!("racer {racer}"))
}
