//! Concurrent operations on one key.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, Swap};
use tokio::time::sleep;

use super::subject::{LONG, Subject, Verdict, expect_answer};

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
        expect_losers(&answers, winner, &Swap::Other(value_of(winner)))?;
        subject.expect_stored(&key, &value_of(winner)).await?;
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
        expect_losers(&answers, winner, &Swap::Absent)?;
        subject.expect_free(&key).await?;
    }
    Ok(())
}

pub(super) async fn a_replacement_and_a_removal_cannot_both_win(subject: Subject) -> Verdict {
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
            expect_answer("`remove`", &answers[1], &Swap::Other(value_of(0)))?;
            subject.expect_stored(&key, &value_of(0)).await?;
        } else {
            expect_answer("`replace`", &answers[0], &Swap::Absent)?;
            subject.expect_free(&key).await?;
        }
    }
    Ok(())
}

pub(super) async fn a_key_removed_during_claims_is_claimed_once(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let key = subject.key(round);
        subject.put(&key, &FIRST, LONG).await?;
        let race = |subject: Subject, racer| {
            let key = key.clone();
            async move {
                if racer == 0 {
                    let swap = subject.remove(&key, &FIRST).await?;
                    expect_answer("`remove`", &swap, &Swap::Done)?;
                    return Ok(None);
                }
                subject.claim(&key, &value_of(racer), LONG).await.map(Some)
            }
        };
        let answers = subject.race(RACERS, race).await?;
        let claimed = |answer: &Option<Claim>| *answer == Some(Claim::Claimed);
        match answers.iter().filter(|answer| claimed(answer)).count() {
            0 => subject.expect_free(&key).await?,
            1 => {
                let winner = answers.iter().position(claimed).unwrap_or_default();
                subject.expect_stored(&key, &value_of(winner)).await?;
            }
            more => {
                return Err(format!(
                    "{more} claims of one key returned Claimed, but at most one claim may succeed"
                ));
            }
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
    expect_losers(&answers, winner, &Claim::Taken(value_of(winner)))?;
    subject
        .expect_stored(&key, &value_of(winner))
        .await
        .map(drop)
}

pub(super) fn value_of(racer: usize) -> Bytes {
    Bytes::from(format!("value of racer {racer}"))
}

/// The index of the only answer that is `success`.
pub(super) fn winner<T: PartialEq>(answers: &[T], success: &T) -> Result<usize, String> {
    let mut winners = (0..answers.len()).filter(|racer| answers[*racer] == *success);
    match (winners.next(), winners.count()) {
        (Some(winner), 0) => Ok(winner),
        (None, _) => Err("none of the concurrent operations succeeded, but one must".to_owned()),
        (Some(_), others) => {
            let all = others + 1;
            Err(format!(
                "{all} of the concurrent operations succeeded, but only one may"
            ))
        }
    }
}

pub(super) fn expect_losers<T>(answers: &[T], winner: usize, expected: &T) -> Verdict
where
    T: PartialEq + std::fmt::Debug,
{
    let mut losers = answers
        .iter()
        .enumerate()
        .filter(|(racer, _)| *racer != winner);
    losers.try_for_each(|(_, answer)| {
        expect_answer("an operation that lost the race", answer, expected)
    })
}
