//! How long a record, a member or a window lives, as a test on a busy machine can tell.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::subject::{Subject, Verdict};

/// The clock of a store may run slightly faster than the clock of the test.
pub(super) const TOO_EARLY: Duration = Duration::from_millis(50);
pub(super) const POLL: Duration = Duration::from_millis(5);
/// All of them together end within the time limit of a case.
const ATTEMPTS: u32 = 8;

/// Runs `lives` for `first`, and again for up to 32 times as long, until the machine was quick enough to tell. Each attempt has its own
/// keys, because the attempt before may have left records behind.
pub(super) async fn until_measured<F: Future<Output = Result<bool, String>>>(
    subject: &Subject,
    first: Duration,
    mut lives: impl FnMut(Subject, Duration) -> F,
) -> Verdict {
    for attempt in 0..ATTEMPTS {
        let ttl = first * 4_u32.pow(attempt).min(32);
        if lives(subject.with_new_keys(), ttl).await? {
            return Ok(());
        }
    }
    Err(format!(
        "operations took too long in {ATTEMPTS} attempts; run the suite on a faster machine"
    ))
}

/// Waits until `is_gone`, whose argument counts the questions from 1. What `what` names was put after `sent`, for `ttl`.
/// Returns whether the machine was quick enough to tell that it did not expire too early.
pub(super) async fn expires_in_time<F: Future<Output = Result<bool, String>>>(
    subject: &Subject,
    what: &str,
    sent: Instant,
    ttl: Duration,
    mut is_gone: impl FnMut(u32) -> F,
) -> Result<bool, String> {
    let stored = Instant::now();
    let mut found = stored;
    for question in 1.. {
        let asked = Instant::now();
        if is_gone(question).await? {
            break;
        }
        found = asked;
        let too_late = subject.too_late(ttl);
        if asked > stored + ttl + too_late {
            return Err(format!(
                "{what} for {ttl:?} is still there {too_late:?} after it should have expired"
            ));
        }
        sleep(POLL).await;
    }
    let lived = sent.elapsed();
    if lived + TOO_EARLY < ttl {
        return Err(format!(
            "{what} for {ttl:?} expired after {lived:?} already"
        ));
    }
    Ok(stored - sent <= ttl / 8 && found.elapsed() <= ttl / 8)
}
