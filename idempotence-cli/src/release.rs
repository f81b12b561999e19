//! `release`: frees one key.

use std::time::{Duration, Instant, SystemTime};

use idempotence::{Idempotency, Peek};
use serde::Serialize;
use tokio::time::sleep;

use crate::args::{Access, Release, State};
use crate::ask::confirm;
use crate::exit::{self, Failure};
use crate::find::{Shown, find, state_of};
use crate::late::KeyTimes;
use crate::open::open;
use crate::output::{self, Output, note, to_json};
use crate::show;

/// The longest time between two looks. The lease of a call that is renewed less often is too long to wait for at once.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

pub(crate) async fn run(
    access: &Access,
    args: &Release,
    output: &mut Output,
) -> Result<(), Failure> {
    let idempotency = open(access).await?;
    let (shown, peek) = (Instant::now(), find(&idempotency, &args.key).await?);
    if !output.is_json() {
        // The key is also freed if nobody reads the output: the audit line says so.
        let _ = output.line(&show::text(&peek));
    }
    let ended = release(&idempotency, args, &peek, shown).await;
    let audit = Audit {
        event: "release",
        time: output::time(SystemTime::now()),
        user: std::env::var("USER").ok(),
        outcome: match &ended {
            Ok(outcome) | Err(NotReleased { outcome, .. }) => *outcome,
        },
        dry_run: args.dry_run,
        forced: args.force,
        record: Shown::of(&peek),
    };
    note(&to_json(&audit)?);
    let outcome = ended.map_err(|not_released| not_released.failure)?;
    if output.is_json() {
        return output.json(&audit);
    }
    let consequence = consequence(&peek);
    output.line(&match outcome {
        Outcome::Released => format!("released: {consequence}"),
        Outcome::Free => format!(
            "the key has become free in the meantime, so nothing was removed: {consequence}"
        ),
        _ => "a dry run: nothing was removed".to_owned(),
    })
}

/// Frees the key, unless its call may be running or has ended.
async fn release(
    idempotency: &Idempotency,
    args: &Release,
    peek: &Peek,
    shown: Instant,
) -> Result<Outcome, NotReleased> {
    let state = state_of(peek);
    if let (Some(advice), false) = (advice_after_end(state), args.force) {
        let meaning = show::meaning(state);
        return Err(Failure::refused(format!("{meaning}. {advice}")).into());
    }
    if !args.dry_run && !args.yes {
        let question = format!(
            "Free {} {}? Then {}.",
            peek.endpoint(),
            peek.fingerprint(),
            consequence(peek)
        );
        confirm(&question, "not released")?;
    }
    // After the question, which may take long: a call that renews its key meanwhile is running.
    if !args.force && !wait_for_a_renewal(idempotency, args, peek, shown).await? {
        return Ok(Outcome::Free);
    }
    if args.dry_run {
        return Ok(Outcome::DryRun);
    }
    match idempotency.forget(peek).await {
        Ok(true) => Ok(Outcome::Released),
        Ok(false) => {
            let text =
                "nothing was removed: the record has changed since it was shown, or has expired";
            Err(Failure::refused(text).into())
        }
        Err(error) => Err(NotReleased {
            outcome: Outcome::Unknown,
            failure: error.into(),
        }),
    }
}

/// A `release` that has not freed its key, as far as it knows.
struct NotReleased {
    outcome: Outcome,
    failure: Failure,
}

/// A failure before the removal was sent.
impl From<Failure> for NotReleased {
    fn from(failure: Failure) -> Self {
        let outcome = match failure.code {
            exit::REFUSED => Outcome::Refused,
            _ => Outcome::Failed,
        };
        Self { outcome, failure }
    }
}

/// What to do about a key whose call has ended. `None` if it may be running.
fn advice_after_end(state: State) -> Option<&'static str> {
    match state {
        State::Done | State::Failed => Some(
            "Without its record an equal call repeats its work: if you want that, repeat this with --force",
        ),
        State::Unknown => Some("If its work is not done, repeat this with --force"),
        State::Taken | State::Late | State::Foreign => None,
    }
}

/// What follows from a free key. The record does not say whether its call has `release = false`.
fn consequence(peek: &Peek) -> &'static str {
    match state_of(peek) {
        State::Done | State::Failed => "an equal call repeats the work",
        _ if peek.keys_digest().is_some() => {
            "an equal call runs when all its keys are free, and repeats the work if it was done"
        }
        _ => "an equal call runs, and repeats the work if it was done",
    }
}

/// The line for an audit. Each `release` that has found its key writes one when it ends.
#[derive(Serialize)]
struct Audit {
    event: &'static str,
    time: String,
    user: Option<String>,
    outcome: Outcome,
    dry_run: bool,
    forced: bool,
    #[serde(flatten)]
    record: Shown,
}

/// How a `release` ended.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// The record is removed.
    Released,
    /// The key became free while the command waited.
    Free,
    DryRun,
    /// Nothing is removed: it would be dangerous, the operator said no, or the record has changed.
    Refused,
    /// The store or the terminal failed before the removal was sent, so nothing is removed.
    Failed,
    /// The store failed at the removal: the record may be removed.
    Unknown,
}

/// Looks a second time, when the key is late. Returns whether the key is still taken.
async fn wait_for_a_renewal(
    idempotency: &Idempotency,
    args: &Release,
    first: &Peek,
    shown: Instant,
) -> Result<bool, Failure> {
    let wait = KeyTimes::of(first).until_late();
    let wait = wait.saturating_sub(shown.elapsed());
    if wait > LONGEST_WAIT {
        return Err(Failure::refused(format!(
            "{}. Whether {} renews the key is known in {}. If your data says that the work is not done, repeat this then, or at once with \
             --force if the process is gone or the call has ended",
            show::meaning(state_of(first)),
            first.holder(),
            output::duration(wait)
        )));
    }
    if !wait.is_zero() {
        note(&format!(
            "waiting for {} to see whether {} renews the key",
            output::duration(wait),
            first.holder()
        ));
        sleep(wait).await;
    }
    let second = match find(idempotency, &args.key).await {
        Err(failure) if failure.code == 3 => return Ok(false),
        second => second?,
    };
    if is_silent(first, &second, wait) {
        return Ok(true);
    }
    Err(Failure::refused(format!(
        "the call is running: {} has renewed or changed the key. With --force two bodies may run at once",
        second.holder()
    )))
}

/// Whether the record was not renewed between two looks. Its remaining time only becomes shorter.
fn is_silent(first: &Peek, second: &Peek, waited: Duration) -> bool {
    let (Some(before), Some(after)) = (first.remaining(), second.remaining()) else {
        return false;
    };
    let is_same = first.holder() == second.holder() && first.since() == second.since();
    is_same && second.state() == first.state() && after + waited / 2 <= before
}
