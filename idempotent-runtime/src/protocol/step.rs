//! One step of a call: whether it is done already, and its record.

mod mistakes;

use bytes::Bytes;
use tokio::time::Instant;

use self::mistakes::{Misuse, another_payload, ended, invalid, misused, overtaken};
use crate::error::Error;
use crate::mutation::mutation;
use crate::policy::Release;
use crate::protocol::lease::Lease;
use crate::protocol::retry::{Backoff, retry};
use crate::protocol::state::Phase;
use crate::protocol::steps::{DoneStep, Place, Steps, StoredSteps};
use crate::record::call::Record;
use crate::record::kept::Kept;
use crate::record::shape;
use crate::record::steps as format;
use crate::record::steps::StepEntry;
use crate::store::{Claim, Key, StoreError, StoreErrorKind, Swap};

/// What a step that begins finds.
pub(crate) enum Begun {
    /// It runs, as the step at this position of the call.
    Run(usize),
    /// An earlier run of the call has recorded it.
    Done(DoneStep),
}

/// Begins a step. Costs one round trip for the first step of the call.
pub(crate) async fn begin(lease: &Lease, step: &Place) -> Result<Begun, Error> {
    let steps = steps_of(lease, step)?;
    let position = steps
        .begin(step)
        .map_err(|first| misused(lease, Misuse::Twice, &first, step))?;
    if position >= format::MOST {
        return Err(invalid(lease, "a call has at most 100 steps"));
    }
    let not_begun = NotBegun { steps, position };
    let mut stored = steps.stored().await;
    if !stored.is_read {
        read(lease, &mut stored).await?;
    }
    std::mem::forget(not_begun);
    if mutation!(NeverReads) {
        return Ok(Begun::Run(position));
    }
    match stored.find(position, &step.name) {
        Ok(Some(done)) => Ok(Begun::Done(done.clone())),
        Ok(None) if mutation!(SkipsNext) && !stored.done.is_empty() => {
            Ok(Begun::Done(stored.done[0].clone()))
        }
        Ok(None) => Ok(Begun::Run(position)),
        Err(other) => Err(misused(lease, Misuse::Order, other, step)),
    }
}

/// Lets a step begin again whose record was not read: the read failed, or its future was dropped.
struct NotBegun<'a> {
    steps: &'a Steps,
    position: usize,
}

impl Drop for NotBegun<'_> {
    fn drop(&mut self) {
        self.steps.did_not_begin(self.position);
    }
}

/// Records a step that is done. Costs one round trip. Is tried until the lease ends, because a step that is not recorded runs again.
///
/// # Errors
///
/// If the step is not recorded, or its result is not. An earlier record stays.
pub(crate) async fn record(
    lease: &Lease,
    step: &Place,
    position: usize,
    mut kept: Kept,
) -> Result<(), Error> {
    let steps = steps_of(lease, step)?;
    let mut stored = steps.stored().await;
    if stored.is_closed {
        return Err(ended(lease));
    }
    let most = lease.call().shared.result_options().max_bytes;
    if length(&kept)
        + stored
            .done
            .iter()
            .map(|done| length(&done.kept))
            .sum::<usize>()
        > most
    {
        kept = Kept::TooLarge;
    }
    let refusal = unstorable(lease, step, &kept);
    let done = DoneStep {
        position,
        step: step.clone(),
        kept,
    };
    write(lease, &mut stored, done).await?;
    refusal.map_or(Ok(()), Err)
}

/// The error of a step whose stored result is not its value.
pub(crate) fn unreadable(lease: &Lease, stored: &Place, step: &Place) -> Error {
    misused(lease, Misuse::Type, stored, step)
}

/// The error of a step that is done, and whose result was not recorded; `None` if the result was recorded.
pub(crate) fn unstorable(lease: &Lease, step: &Place, kept: &Kept) -> Option<Error> {
    let why = match kept {
        Kept::Result(_) => return None,
        Kept::TooLarge => {
            "the results of the steps are larger than `largest_result` of the handle allows"
        }
        _ => "the codec of the handle cannot write its result",
    };
    let what = format!(
        "the step `{}` is done and noted as done, but its result is not recorded, because {why}; return less from the step, and free its \
         steps with `Idempotency::forget_steps` after you know what it did",
        step.name
    );
    Some(invalid(lease, what))
}

/// The key of the record of the steps of a call.
pub(crate) fn key_of(lease: &Lease) -> Key {
    Key::new(&lease.call().shared.steps_key(lease.key()))
}

/// The steps of the call, if they can be recorded.
fn steps_of<'a>(lease: &'a Lease, step: &Place) -> Result<&'a Steps, Error> {
    match lease.call().policy.release {
        Release::OnError => {}
        Release::Always => {
            return Err(invalid(
                lease,
                "a call with `release = true` has no steps, because a later call with this key may be a new intent and must run them again; \
                 use another release",
            ));
        }
        Release::Never => {
            return Err(invalid(
                lease,
                "a call with `release = false` has no steps, because no equal call runs before its `ttl` is over; leave `release` out",
            ));
        }
    }
    if let Some(why) = format::why_no_name(&step.name) {
        let name = step.name.escape_debug();
        return Err(invalid(
            lease,
            format!("the name of the step `{name}` {why}"),
        ));
    }
    let is_running = matches!(
        lease.in_flight().state().phase(),
        Phase::Running | Phase::Lost(_)
    );
    if !is_running {
        return Err(ended(lease));
    }
    let steps = lease.steps().map(|steps| &**steps);
    steps.ok_or_else(|| ended(lease))
}

async fn read(lease: &Lease, stored: &mut StoredSteps) -> Result<(), Error> {
    let (call, key) = (lease.call(), key_of(lease));
    let entry = retry(call.shared.deadline(), || call.shared.store().get(&key)).await;
    let entry = entry
        .map_err(|error| Error::of_step(call.site.clone(), error, "so the step did not run"))?;
    let Some(entry) = entry else {
        stored.is_read = true;
        return Ok(());
    };
    let done = decode(lease, &key, &entry.value)?;
    stored.note(entry.value, done);
    stored.is_read = true;
    Ok(())
}

/// Reads the record of the steps of an equal call.
fn decode(lease: &Lease, key: &Key, bytes: &Bytes) -> Result<Vec<DoneStep>, Error> {
    let (site, records) = (&lease.call().site, lease.call().shared.records());
    let foreign = || Error::foreign(site.clone(), shape::describe(bytes));
    let fits = bytes.len() <= records.options.longest_record();
    let entries = if fits { format::read(bytes) } else { None };
    let mut done = Vec::new();
    for entry in entries.ok_or_else(foreign)? {
        let entry_key = Key::new(&key_of_entry(key, entry.position, &entry.name));
        let record = records.read(&entry_key, &entry.record);
        let record = record.ok_or_else(foreign)?;
        if record.differs_from(lease.call().payload.as_ref()) && !mutation!(IgnoresPayload) {
            return Err(another_payload(lease, &record));
        }
        let kept = records.sealing.read(&entry_key, &record);
        done.push(DoneStep {
            position: entry.position,
            step: Place {
                name: entry.name,
                place: entry.place,
            },
            kept: kept.map_err(|found| Error::foreign_result(site.clone(), found))?,
        });
    }
    Ok(done)
}

fn encode(lease: &Lease, key: &Key, done: &[DoneStep]) -> Bytes {
    let call = lease.call();
    let (now, ttl) = (call.shared.moment(), call.policy.ttl);
    let entries = done.iter().map(|done| {
        let DoneStep {
            position,
            step,
            kept,
        } = done;
        let entry_key = Key::new(&key_of_entry(key, *position, &step.name));
        StepEntry {
            position: *position,
            name: step.name.clone(),
            place: step.place.clone(),
            record: call.done_record(&entry_key, lease.claim().owner, now, ttl, kept),
        }
    });
    format::write(&entries.collect::<Vec<_>>())
}

/// The name of an entry for its seal, and for the digits in its line.
fn key_of_entry(key: &str, position: usize, name: &str) -> String {
    format!("{key}#{position}.{name}")
}

/// Adds a step to the record.
///
/// The run may have lost its lease. Then another run may have succeeded meanwhile, and removed the steps. A record that is stored after
/// the record of a success would outlive that, and a later call would skip the step. So such a run looks at its key before and after.
async fn write(lease: &Lease, stored: &mut StoredSteps, step: DoneStep) -> Result<(), Error> {
    let is_first = stored.record.is_none();
    if !mutation!(ChecksOnlyAfter) && is_too_late(lease, is_first).await? {
        return Err(overtaken(lease));
    }
    add(lease, stored, step).await?;
    if !mutation!(ChecksOnlyBefore) && is_too_late(lease, is_first).await? {
        take_back(lease, stored).await?;
        return Err(overtaken(lease));
    }
    Ok(())
}

/// Whether another run may have succeeded since the lease was lost, so that no step is recorded. Costs one round trip if the lease is lost.
///
/// A run that has the key now does no harm: the record is older than the end of that run, so it expires before it. If nobody has the key, it
/// may have been freed by hand, unless an earlier record is still stored.
async fn is_too_late(lease: &Lease, is_first: bool) -> Result<bool, Error> {
    if lease.lose_if_expired().is_none() || mutation!(RecordsUnchecked) {
        return Ok(false);
    }
    // The record of a success may have expired.
    let is_old = || Instant::now() >= lease.good_until() + lease.call().policy.ttl;
    Ok(match holder(lease).await? {
        KeyHolder::Own => false,
        KeyHolder::Done => true,
        KeyHolder::Nobody => is_first || is_old(),
        KeyHolder::Other => is_old(),
    })
}

/// Removes the record that this run has just written: after a success nobody needs an earlier record either.
async fn take_back(lease: &Lease, stored: &mut StoredSteps) -> Result<(), Error> {
    let (call, key) = (lease.call(), key_of(lease));
    let Some(record) = stored.record.take() else {
        return Ok(());
    };
    let removal = retry(call.shared.deadline(), || {
        call.shared.store().remove(&key, &record)
    });
    removal
        .await
        .map_err(|error| may_be_recorded(lease, error))?;
    Ok(())
}

/// Adds a step to the record, after the last step that the call knows of.
async fn add(lease: &Lease, stored: &mut StoredSteps, step: DoneStep) -> Result<(), Error> {
    let key = key_of(lease);
    loop {
        let mut done = stored.done.clone();
        done.push(step.clone());
        let record = encode(lease, &key, &done);
        stored.unanswered.push((record.clone(), done.clone()));
        let (is_first, came_late) = (stored.record.is_none(), stored.may_come_late);
        stored.may_come_late |= is_first;
        let (answer, is_resend) = send(lease, &key, stored.record.as_ref(), &record).await;
        if is_first && !is_resend && answer.is_ok() {
            stored.may_come_late = came_late;
        }
        match answer.map_err(|error| may_be_recorded(lease, error))? {
            Swap::Done => {
                stored.note(record, done);
                return Ok(());
            }
            Swap::Other(found) if stored.adopt(&found) => {}
            Swap::Other(found) if mutation!(ReplacesOthers) => stored.record = Some(found),
            Swap::Other(_) if mutation!(BelievesRefused) => return Ok(()),
            // It has expired, or an operator has removed it together with the claim.
            Swap::Absent if matches!(holder(lease).await?, KeyHolder::Own) => stored.record = None,
            Swap::Other(_) | Swap::Absent => return Err(overtaken(lease)),
        }
    }
}

/// Sends a record until the store answers, or until the lease ends. Also returns whether it was sent more than once.
async fn send(
    lease: &Lease,
    key: &Key,
    last: Option<&Bytes>,
    record: &Bytes,
) -> (Result<Swap, StoreError>, bool) {
    let (store, deadline) = (lease.call().shared.store(), lease.call().shared.deadline());
    let mut ttl = lease.call().policy.ttl;
    if mutation!(LivesLonger) {
        ttl *= 2;
    }
    let until = lease.good_until().max(Instant::now() + deadline);
    let mut backoff = Backoff::until(until, deadline);
    let mut is_resend = false;
    loop {
        let answer = match last {
            Some(last) => backoff.attempt(store.replace(key, last, record, ttl)).await,
            None => match backoff.attempt(store.claim(key, record, ttl)).await {
                Ok(Claim::Claimed) => Ok(Swap::Done),
                Ok(Claim::Taken(found)) => Ok(Swap::Other(found)),
                Err(error) => Err(error),
            },
        };
        match answer {
            Err(error) if error.kind() != StoreErrorKind::Misconfigured => {
                if !backoff.pause().await {
                    return (Err(error), is_resend);
                }
                is_resend = true;
            }
            answer => return (answer, is_resend),
        }
    }
}

/// What the key of a call has.
enum KeyHolder {
    /// The claim of this run.
    Own,
    /// The claim of another run, or the mark of its unknown outcome.
    Other,
    /// The record of a success, or of a failure whose result is stored.
    Done,
    Nobody,
}

/// Asks the store which run has the key of the call.
async fn holder(lease: &Lease) -> Result<KeyHolder, Error> {
    let call = lease.call();
    let entry = retry(call.shared.deadline(), || {
        call.shared.store().get(lease.key())
    });
    let entry = entry.await.map_err(|error| may_be_recorded(lease, error))?;
    Ok(match entry {
        None => KeyHolder::Nobody,
        Some(entry) if entry.value == *lease.record() => KeyHolder::Own,
        Some(entry) if Record::may_be_claim(&entry.value) => KeyHolder::Other,
        Some(_) => KeyHolder::Done,
    })
}

fn may_be_recorded(lease: &Lease, error: StoreError) -> Error {
    let so = "so a step ran and may not be recorded";
    Error::of_step(lease.call().site.clone(), error, so)
}

fn length(kept: &Kept) -> usize {
    match kept {
        Kept::Result(stored) => stored.bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
