//! `release`: frees one key.

use std::time::{Duration, Instant, SystemTime};

use idempotence::{DuplicateState, Idempotency, Peek};
use serde::Serialize;
use tokio::time::sleep;

use crate::args::{Access, Release};
use crate::ask::confirm;
use crate::exit::Failure;
use crate::find::{Shown, find};
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
    let has_ended = matches!(peek.state(), DuplicateState::Done | DuplicateState::Failed);
    if has_ended && !args.force {
        return Err(Failure::refused(
            "the call has ended: without its record an equal call repeats its work. If you want that, repeat this with --force",
        ));
    }
    if !args.dry_run && !args.yes {
        let question = format!(
            "Free {} {}? Then {}.",
            peek.endpoint(),
            peek.fingerprint(),
            consequence(&peek)
        );
        confirm(&question, "not released")?;
    }
    // After the question, which may take long: a call that renews its key meanwhile is running.
    let is_free = !args.force && !wait_for_a_renewal(&idempotency, args, &peek, shown).await?;
    let removal = if args.dry_run || is_free {
        Ok(false)
    } else {
        idempotency.forget(&peek).await
    };
    let audit = Audit {
        event: "release",
        time: output::time(SystemTime::now()),
        user: std::env::var("USER").ok(),
        released: removal.as_ref().ok().copied(),
        dry_run: args.dry_run,
        forced: args.force,
        record: Shown::of(&peek),
    };
    note(&to_json(&audit)?);
    let released = removal?;
    if !released && !args.dry_run && !is_free {
        let text = "nothing was removed: the record has changed since it was shown, or has expired";
        return Err(Failure::refused(text));
    }
    if output.is_json() {
        return output.json(&audit);
    }
    let consequence = consequence(&peek);
    output.line(&if released {
        format!("released: {consequence}")
    } else if is_free {
        format!("the key has become free in the meantime, so nothing was removed: {consequence}")
    } else {
        "a dry run: nothing was removed".to_owned()
    })
}

/// What follows from a free key. The record does not say whether its call has `also` or `release = false`.
fn consequence(peek: &Peek) -> &'static str {
    match peek.state() {
        DuplicateState::Done | DuplicateState::Failed => "an equal call repeats the work",
        _ => {
            "an equal call runs, and repeats the work if it was done. With `also`, all its keys must be free"
        }
    }
}

/// The line for an audit.
#[derive(Serialize)]
struct Audit {
    event: &'static str,
    time: String,
    user: Option<String>,
    /// `None` if the store did not answer: the record may be removed.
    released: Option<bool>,
    dry_run: bool,
    forced: bool,
    #[serde(flatten)]
    record: Shown,
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
            "the call may be running, or has ended with `release = false`, or `at_least` or `hold_err` holds the key. Whether its process, {}, renews the key is known in {}. If your \
             data says that the work is not done, repeat this then, or at once with --force if the process is gone or the call has ended",
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
