//! Many at once on one key.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::subject::{LONG, Subject, Verdict, same};
use crate::store::{Claim, Swap};

pub(super) const RACERS: usize = 8;
pub(super) const ROUNDS: usize = 50;

const FIRST: Bytes = Bytes::from_static(b"first");

pub(super) async fn one_of_many_claims_wins(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        one_claim_wins(&subject, subject.key(round)).await?;
    }
    Ok(())
}

pub(super) async fn one_of_many_claims_of_an_expired_key_wins(subject: Subject) -> Verdict {
    let keys: Vec<_> = (0..ROUNDS).map(|round| subject.key(round)).collect();
    for key in &keys {
        subject.put(key, &FIRST, Duration::from_millis(20)).await?;
    }
    for key in keys {
        while subject.get(&key).await?.is_some() {
            sleep(Duration::from_millis(5)).await;
        }
        one_claim_wins(&subject, key).await?;
    }
    Ok(())
}

pub(super) async fn one_of_many_replacements_wins(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let key = subject.key(round);
        subject.put(&key, &FIRST, LONG).await?;
        let race = |subject: Subject, racer| {
            let key = key.clone();
            async move { subject.replace(&key, &FIRST, &value_of(racer), LONG).await }
        };
        let answers = subject.race(RACERS, race).await?;
        let winner = winner(&answers, &Swap::Done)?;
        same_for_losers(&answers, winner, &Swap::Other(value_of(winner)))?;
        subject.stands(&key, &value_of(winner)).await?;
    }
    Ok(())
}

pub(super) async fn one_of_many_removals_wins(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let key = subject.key(round);
        subject.put(&key, &FIRST, LONG).await?;
        let race = |subject: Subject, _| {
            let key = key.clone();
            async move { subject.remove(&key, &FIRST).await }
        };
        let answers = subject.race(RACERS, race).await?;
        let winner = winner(&answers, &Swap::Done)?;
        same_for_losers(&answers, winner, &Swap::Absent)?;
        subject.is_free(&key).await?;
    }
    Ok(())
}

pub(super) async fn a_replacement_or_a_removal_wins(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let key = subject.key(round);
        subject.put(&key, &FIRST, LONG).await?;
        let race = |subject: Subject, racer| {
            let key = key.clone();
            async move {
                match racer {
                    0 => subject.replace(&key, &FIRST, &value_of(0), LONG).await,
                    _ => subject.remove(&key, &FIRST).await,
                }
            }
        };
        let answers = subject.race(2, race).await?;
        if winner(&answers, &Swap::Done)? == 0 {
            same("remove", &answers[1], &Swap::Other(value_of(0)))?;
            subject.stands(&key, &value_of(0)).await?;
        } else {
            same("replace", &answers[0], &Swap::Absent)?;
            subject.is_free(&key).await?;
        }
    }
    Ok(())
}

pub(super) async fn a_key_removed_under_claims_is_claimed_once(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let key = subject.key(round);
        subject.put(&key, &FIRST, LONG).await?;
        let race = |subject: Subject, racer| {
            let key = key.clone();
            async move {
                if racer == 0 {
                    let swap = subject.remove(&key, &FIRST).await?;
                    same("remove", &swap, &Swap::Done)?;
                    return Ok(None);
                }
                subject.claim(&key, &value_of(racer), LONG).await.map(Some)
            }
        };
        let answers = subject.race(RACERS, race).await?;
        let claimed = |answer: &Option<Claim>| *answer == Some(Claim::Claimed);
        match answers.iter().filter(|answer| claimed(answer)).count() {
            0 => subject.is_free(&key).await?,
            1 => {
                let winner = answers.iter().position(claimed).unwrap_or_default();
                subject.stands(&key, &value_of(winner)).await?;
            }
            more => return Err(format!("{more} claims of one key succeeded")),
        }
    }
    Ok(())
}

async fn one_claim_wins(subject: &Subject, key: String) -> Verdict {
    let race = |subject: Subject, racer| {
        let key = key.clone();
        async move { subject.claim(&key, &value_of(racer), LONG).await }
    };
    let answers = subject.race(RACERS, race).await?;
    let winner = winner(&answers, &Claim::Claimed)?;
    same_for_losers(&answers, winner, &Claim::Taken(value_of(winner)))?;
    subject.stands(&key, &value_of(winner)).await.map(drop)
}

pub(super) fn value_of(racer: usize) -> Bytes {
    Bytes::from(format!("value of racer {racer}"))
}

/// The only one that was answered with `success`.
pub(super) fn winner<T: PartialEq>(answers: &[T], success: &T) -> Result<usize, String> {
    let mut winners = (0..answers.len()).filter(|racer| answers[*racer] == *success);
    match (winners.next(), winners.count()) {
        (Some(winner), 0) => Ok(winner),
        (None, _) => Err("none of the racers succeeded".to_owned()),
        (Some(_), others) => Err(format!("{} racers succeeded, instead of one", others + 1)),
    }
}

pub(super) fn same_for_losers<T>(answers: &[T], winner: usize, expected: &T) -> Verdict
where
    T: PartialEq + std::fmt::Debug,
{
    let mut losers = answers
        .iter()
        .enumerate()
        .filter(|(racer, _)| *racer != winner);
    losers.try_for_each(|(_, answer)| same("answer to a loser", answer, expected))
}
