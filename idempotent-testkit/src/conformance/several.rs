//! Several keys in one step.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, ClaimAll};
use tokio::time::sleep;

use super::races::{RACERS, ROUNDS};
use super::subject::{LONG, LONGER, Subject, Verdict, expect_answer};

const OTHER: Bytes = Bytes::from_static(b"other");

/// Keys in their order, each with a value of its own.
fn claims(subject: &Subject, name: usize, places: &[usize], owner: usize) -> Vec<(String, Bytes)> {
    let claim = |place: &usize| {
        let value = format!("claim of {owner} at {place}");
        (subject.key(format!("{name}:{place}")), value.into())
    };
    places.iter().map(claim).collect()
}

async fn expect_all(subject: &Subject, claims: &[(String, Bytes)], ttl: Duration) -> Verdict {
    for (key, value) in claims {
        subject.expect_ttl(subject.expect_stored(key, value).await?, ttl)?;
    }
    Ok(())
}

async fn expect_none(subject: &Subject, claims: &[(String, Bytes)]) -> Verdict {
    for (key, _) in claims {
        subject.expect_free(key).await?;
    }
    Ok(())
}

pub(super) async fn all_free_keys_are_claimed(subject: Subject) -> Verdict {
    for number in 2..7 {
        let all: Vec<_> = (0..number).collect();
        let claims = claims(&subject, number, &all, 0);
        match subject.claim_all(&claims, LONG).await? {
            Some(answer) => {
                expect_answer("`claim_all`", &answer, &ClaimAll::Claimed)?;
                expect_all(&subject, &claims, LONG).await?;
            }
            None => expect_none(&subject, &claims).await?,
        }
    }
    Ok(())
}

pub(super) async fn a_taken_key_is_named_and_no_other_is_claimed(subject: Subject) -> Verdict {
    for place in 0..3 {
        let mut claims = claims(&subject, place, &[0, 1, 2], 0);
        subject.put(&claims[place].0, &OTHER, LONG).await?;
        if let Some(answer) = subject.claim_all(&claims, LONGER).await? {
            let taken = ClaimAll::Taken(place, OTHER);
            expect_answer("`claim_all` with a taken key", &answer, &taken)?;
        }
        claims[place].1 = OTHER;
        let taken = claims.remove(place);
        expect_none(&subject, &claims).await?;
        expect_all(&subject, &[taken], LONG).await?;
    }
    Ok(())
}

pub(super) async fn a_repeated_claim_of_all_is_claimed_again(subject: Subject) -> Verdict {
    let claims = claims(&subject, 0, &[0, 1, 2], 0);
    if subject.claim_all(&claims, LONG).await?.is_none() {
        return Ok(());
    }
    let again = subject.claim_all(&claims, LONGER).await?;
    let claimed = Some(ClaimAll::Claimed);
    expect_answer("`claim_all` with the stored values", &again, &claimed)?;
    expect_all(&subject, &claims, LONG).await
}

pub(super) async fn an_expired_key_among_others_is_claimed(subject: Subject) -> Verdict {
    for place in 0..3 {
        let claims = claims(&subject, place, &[0, 1, 2], 0);
        let key = &claims[place].0;
        subject.put(key, &OTHER, Duration::from_millis(20)).await?;
        while subject.get(key).await?.is_some() {
            sleep(Duration::from_millis(5)).await;
        }
        match subject.claim_all(&claims, LONG).await? {
            Some(answer) => {
                expect_answer("`claim_all`", &answer, &ClaimAll::Claimed)?;
                expect_all(&subject, &claims, LONG).await?;
            }
            None => expect_none(&subject, &claims).await?,
        }
    }
    Ok(())
}

pub(super) async fn one_of_many_claims_of_all_wins(subject: Subject) -> Verdict {
    for round in 0..ROUNDS / 3 {
        let race = |subject: Subject, racer| async move {
            let claims = claims(&subject, round, &[0, 1], racer);
            subject.claim_all(&claims, LONG).await
        };
        let answers = subject.race(RACERS, race).await?;
        if answers.iter().all(Option::is_none) {
            return Ok(());
        }
        let won = |answer: &&Option<ClaimAll>| matches!(answer, Some(ClaimAll::Claimed));
        let winners = answers.iter().filter(won).count();
        if winners != 1 {
            return Err(format!(
                "{winners} of {RACERS} answered `Claimed`, not 1: {answers:?}"
            ));
        }
    }
    Ok(())
}

pub(super) async fn claims_of_overlapping_keys_are_all_or_none(subject: Subject) -> Verdict {
    for round in 0..ROUNDS / 3 {
        let race = |subject: Subject, racer| async move {
            let claims = claims(&subject, round, places_of(racer), racer);
            if let [(key, value)] = &*claims {
                let claimed = subject.claim(key, value, LONG).await?;
                return Ok((racer, claimed == Claim::Claimed));
            }
            let answer = subject.claim_all(&claims, LONG).await?;
            Ok((racer, answer == Some(ClaimAll::Claimed)))
        };
        for (racer, claimed) in subject.race(RACERS, race).await? {
            for (key, value) in claims(&subject, round, places_of(racer), racer) {
                let stored = subject.get(&key).await?;
                let is_stored = stored.is_some_and(|stored| stored.value == value);
                if is_stored != claimed {
                    return Err(format!(
                        "a caller claimed its keys: {claimed}; its value is stored under `{key}`: {is_stored}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The keys of a racer, of which each has a key of each other.
fn places_of(racer: usize) -> &'static [usize] {
    match racer % 4 {
        0 => &[0, 1],
        1 => &[1, 2],
        2 => &[0, 2],
        _ => &[1],
    }
}
