//! The numbers of attempts, and the windows in which they are counted.

use std::time::Duration;

use tokio::time::Instant;

use super::lifetime::{TOO_EARLY, expires_in_time, until_measured};
use super::subject::{LONG, LONGER, Subject, Verdict, expect_answer};

const RACERS: usize = 16;
const ROUNDS: usize = 10;

const SHORT: Duration = Duration::from_millis(300);

pub(super) async fn attempts_are_numbered_in_order(subject: Subject) -> Verdict {
    let key = subject.key("key");
    for number in 1..=40 {
        let count = subject.count(&key, number.into(), LONG).await?;
        expect_answer(
            "`count` (the number of the attempt)",
            &count.attempt,
            &number,
        )?;
        subject.expect_ttl(count.remaining, LONG)?;
    }
    Ok(())
}

pub(super) async fn a_repeated_attempt_is_counted_once(subject: Subject) -> Verdict {
    let key = subject.key("key");
    for (attempt, number) in [
        (7, 1),
        (7, 1),
        (8, 2),
        (7, 1),
        (8, 2),
        (9, 3),
        (8, 2),
        (6, 4),
    ] {
        let count = subject.count(&key, attempt, LONG).await?;
        expect_answer(
            "`count` (the number of the attempt)",
            &count.attempt,
            &number,
        )?;
    }
    Ok(())
}

pub(super) async fn an_attempt_is_remembered_until_32_others_were_counted(
    subject: Subject,
) -> Verdict {
    let key = subject.key("key");
    // The second round begins in the middle of the window.
    for first in [0, 100] {
        let counted = subject.count(&key, first, LONG).await?;
        for other in 1..32 {
            subject.count(&key, first + other, LONG).await?;
        }
        let again = subject.count(&key, first, LONG).await?;
        expect_answer(
            "`count` (the number of the attempt)",
            &again.attempt,
            &counted.attempt,
        )?;
    }
    Ok(())
}

pub(super) async fn each_key_has_its_own_count(subject: Subject) -> Verdict {
    let keys = ["one", "other"].map(|name| subject.key(name));
    for number in 1..=3 {
        for key in &keys {
            let count = subject.count(key, number.into(), LONG).await?;
            expect_answer(
                "`count` (the number of the attempt)",
                &count.attempt,
                &number,
            )?;
        }
    }
    Ok(())
}

pub(super) async fn later_attempts_do_not_move_the_end_of_the_window(subject: Subject) -> Verdict {
    let key = subject.key("long");
    subject.count(&key, 0, LONG).await?;
    for attempt in [1, 2, 1, 0] {
        let count = subject.count(&key, attempt, LONGER).await?;
        subject.expect_ttl(count.remaining, LONG)?;
    }

    // With so many attempts the window would never end if each attempt moved the end only a little.
    let lives = async |subject: Subject, window: Duration| {
        let (key, sent) = (subject.key("key"), Instant::now());
        subject.count(&key, 0, window).await?;
        let has_ended = async |attempt: u32| {
            let count = subject.count(&key, attempt.into(), window).await?;
            Ok(count.attempt == 1)
        };
        expires_in_time(&subject, "a window", sent, window, has_ended).await
    };
    until_measured(&subject, SHORT, lives).await
}

pub(super) async fn the_first_attempt_after_a_window_starts_a_new_window(
    subject: Subject,
) -> Verdict {
    let lives = async |subject: Subject, window: Duration| {
        let (key, sent) = (subject.key("key"), Instant::now());
        subject.count(&key, 0, window).await?;
        let second = subject.count(&key, 1, window).await?;
        if sent.elapsed() + TOO_EARLY >= window {
            return Ok(false);
        }
        expect_answer("`count` (the number of the attempt)", &second.attempt, &2)?;
        // The number is 1 once the window with this attempt has ended.
        let has_ended = async |_| {
            let count = subject.count(&key, 1, LONG).await?;
            if count.attempt == 1 {
                subject.expect_ttl(count.remaining, LONG)?;
            }
            Ok(count.attempt == 1)
        };
        let is_measured = expires_in_time(&subject, "a window", sent, window, has_ended).await?;
        let count = subject.count(&key, 2, window).await?;
        expect_answer("`count` (the number of the attempt)", &count.attempt, &2)?;
        subject.expect_ttl(count.remaining, LONG)?;
        Ok(is_measured)
    };
    until_measured(&subject, SHORT, lives).await
}

pub(super) async fn a_window_may_be_a_century(subject: Subject) -> Verdict {
    let century = Duration::from_hours(100 * 365 * 24);
    let key = subject.key("key");
    for number in 1..=2 {
        let count = subject.count(&key, number.into(), century).await?;
        expect_answer(
            "`count` (the number of the attempt)",
            &count.attempt,
            &number,
        )?;
        // A store may shorten a century, but its time to live must not overflow.
        if count.remaining < LONG {
            return Err(format!(
                "`count` reported {:?} for a window of a century, but must report at least {LONG:?}",
                count.remaining
            ));
        }
    }
    Ok(())
}

pub(super) async fn each_of_many_attempts_has_its_own_number(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let key = subject.key(round);
        let race = |subject: Subject, racer| {
            let key = key.clone();
            async move { subject.count(&key, racer as u128, LONG).await }
        };
        let counts = subject.race(RACERS, race).await?;
        let mut numbers: Vec<_> = counts.iter().map(|count| count.attempt).collect();
        numbers.sort_unstable();
        expect_answer(
            "`count` (the numbers of all attempts)",
            &numbers,
            &(1..=RACERS as u64).collect(),
        )?;
    }
    Ok(())
}

pub(super) async fn an_attempt_that_races_itself_is_counted_once(subject: Subject) -> Verdict {
    for round in 0..ROUNDS {
        let key = subject.key(round);
        let race = |subject: Subject, racer| {
            let key = key.clone();
            async move { subject.count(&key, racer as u128 / 2, LONG).await }
        };
        let counts = subject.race(RACERS, race).await?;
        let mut numbers: Vec<_> = counts.iter().map(|count| count.attempt).collect();
        for twice in numbers.chunks(2) {
            expect_answer("`count` of the same attempt", &twice[0], &twice[1])?;
        }
        numbers.sort_unstable();
        let each_twice = (1..=RACERS as u64 / 2).flat_map(|number| [number; 2]);
        expect_answer(
            "`count` (the numbers of all attempts)",
            &numbers,
            &each_twice.collect(),
        )?;
    }
    Ok(())
}
