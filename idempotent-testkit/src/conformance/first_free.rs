//! The first free of several keys in one step.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::ClaimAny;
use tokio::time::sleep;

use super::races::{RACERS, ROUNDS};
use super::subject::{LONG, LONGER, Subject, Verdict, expect_answer};

/// Three keys, each with a value of its own.
fn claims(subject: &Subject, name: usize, owner: usize) -> [(String, Bytes); 3] {
    [0, 1, 2].map(|place| {
        let value = format!("claim of {owner} at {place}");
        (subject.key(format!("{name}:{place}")), value.into())
    })
}

fn other(place: usize) -> Bytes {
    format!("other at {place}").into()
}

/// Stores other values under the keys before `place`.
async fn take(subject: &Subject, claims: &[(String, Bytes)], place: usize) -> Verdict {
    for (at, (key, _)) in claims.iter().enumerate().take(place) {
        subject.put(key, &other(at), LONG).await?;
    }
    Ok(())
}

/// Checks that the keys before `place` have other values, that `place` has its value if it `is_claimed`, and that the others are free.
async fn expect_stored(
    subject: &Subject,
    claims: &[(String, Bytes)],
    place: usize,
    is_claimed: bool,
) -> Verdict {
    for (at, (key, value)) in claims.iter().enumerate() {
        if at < place {
            subject.expect_stored(key, &other(at)).await?;
        } else if at == place && is_claimed {
            subject.expect_ttl(subject.expect_stored(key, value).await?, LONG)?;
        } else {
            subject.expect_free(key).await?;
        }
    }
    Ok(())
}

async fn expect_claim(subject: &Subject, claims: &[(String, Bytes)], place: usize) -> Verdict {
    let answer = subject.claim_any(claims, LONG).await?;
    if let Some(answer) = &answer {
        expect_answer("`claim_any`", answer, &ClaimAny::Claimed(place))?;
    }
    expect_stored(subject, claims, place, answer.is_some()).await
}

pub(super) async fn the_first_free_key_is_claimed(subject: Subject) -> Verdict {
    for place in 0..3 {
        let claims = claims(&subject, place, 0);
        take(&subject, &claims, place).await?;
        expect_claim(&subject, &claims, place).await?;
    }
    Ok(())
}

pub(super) async fn taken_keys_are_all_named(subject: Subject) -> Verdict {
    let claims = claims(&subject, 0, 0);
    take(&subject, &claims, 3).await?;
    if let Some(answer) = subject.claim_any(&claims, LONGER).await? {
        let taken = ClaimAny::Taken((0..3).map(other).collect());
        expect_answer("`claim_any` of taken keys", &answer, &taken)?;
    }
    expect_stored(&subject, &claims, 3, false).await
}

pub(super) async fn a_repeated_claim_of_any_gets_the_same_place(subject: Subject) -> Verdict {
    for place in 0..3 {
        let claims = claims(&subject, place, 0);
        take(&subject, &claims, place).await?;
        if subject.claim_any(&claims, LONG).await?.is_none() {
            return Ok(());
        }
        // The keys before it are free now.
        for (at, (key, _)) in claims.iter().enumerate().take(place) {
            subject.remove(key, &other(at)).await?;
        }
        let again = subject.claim_any(&claims, LONGER).await?;
        let claimed = Some(ClaimAny::Claimed(place));
        expect_answer("`claim_any` with a stored value", &again, &claimed)?;
        for (at, (key, value)) in claims.iter().enumerate() {
            if at == place {
                subject.expect_ttl(subject.expect_stored(key, value).await?, LONG)?;
            } else {
                subject.expect_free(key).await?;
            }
        }
    }
    Ok(())
}

pub(super) async fn an_expired_key_is_a_free_key(subject: Subject) -> Verdict {
    let claims = claims(&subject, 0, 0);
    take(&subject, &claims, 1).await?;
    let key = &claims[1].0;
    let short = Duration::from_millis(20);
    subject.put(key, &other(1), short).await?;
    while subject.get(key).await?.is_some() {
        sleep(Duration::from_millis(5)).await;
    }
    expect_claim(&subject, &claims, 1).await
}

pub(super) async fn so_many_claims_of_any_win_as_keys_are_free(subject: Subject) -> Verdict {
    for round in 0..ROUNDS / 3 {
        let race = |subject: Subject, racer| async move {
            let claims = claims(&subject, round, racer);
            subject.claim_any(&claims, LONG).await
        };
        let answers = subject.race(RACERS, race).await?;
        if answers.iter().all(Option::is_none) {
            return Ok(());
        }
        let place = |answer: &Option<ClaimAny>| match answer {
            Some(ClaimAny::Claimed(place)) => Some(*place),
            _ => None,
        };
        let places: Vec<_> = answers.iter().filter_map(place).collect();
        let different: BTreeSet<_> = places.iter().collect();
        if places.len() != 3 || different.len() != 3 {
            return Err(format!(
                "{RACERS} callers claimed the places {places:?} of three free keys: {answers:?}"
            ));
        }
    }
    Ok(())
}
