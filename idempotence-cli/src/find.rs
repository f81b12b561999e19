//! Finds one key, and what people and programs read of it.

use std::time::{Duration, SystemTime};

use idempotence::fingerprint::{Hasher, Parts, UnencodablePart};
use idempotence::{DuplicateState, Idempotency, Peek};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Key, State};
use crate::exit::Failure;
use crate::output;

/// The record of this key.
pub(crate) async fn find(idempotency: &Idempotency, key: &Key) -> Result<Peek, Failure> {
    let Some(digits) = &key.digits else {
        return by_parts(idempotency, key).await;
    };
    let found = idempotency.peek_digits(&key.endpoint, digits).await?;
    let Some(mut found) = found else {
        let text = "this store cannot list keys: give the parts of the key, by `--key`";
        return Err(Failure::usage(text));
    };
    match found.len() {
        0 => Err(Failure::not_found(format!(
            "no key of `{}` begins with {digits}: it is free, or the endpoint or the prefix is another",
            key.endpoint
        ))),
        1 => Ok(found.remove(0)),
        several => Err(Failure::refused(format!(
            "{several} keys of `{}` begin with {digits}: give more digits, which `ls --json` prints, or the parts of the key, by `--key`",
            key.endpoint
        ))),
    }
}

async fn by_parts(idempotency: &Idempotency, key: &Key) -> Result<Peek, Failure> {
    let parts = KeyParts(key.parts.iter().map(|part| read_part(part)).collect());
    if let Some(found) = idempotency.peek(&key.endpoint, &parts).await? {
        return Ok(found);
    }
    let in_tx = idempotency.peek_tx(&key.endpoint, &parts).await?;
    in_tx.ok_or_else(|| {
        Failure::not_found(format!(
            "the key of `{}` with these parts is free, or the prefix, the digest or the secret is another",
            key.endpoint
        ))
    })
}

struct KeyParts(Vec<Value>);

impl Parts for KeyParts {
    fn add_to(&self, hasher: &mut Hasher) -> Result<(), UnencodablePart> {
        for part in &self.0 {
            hasher.part(part)?;
        }
        Ok(())
    }
}

/// A part as JSON. A text that is no JSON is a string.
fn read_part(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The word for a state.
pub(crate) fn state(state: DuplicateState, lasts: Duration, remaining: Option<Duration>) -> State {
    match state {
        DuplicateState::Running if is_late(lasts, remaining) => State::Late,
        DuplicateState::Running => State::Running,
        DuplicateState::Failed => State::Failed,
        DuplicateState::Unknown => State::Unknown,
        _ => State::Done,
    }
}

/// Whether a renewal was due: a third of the lease has passed since the last, and the time in which a renewal may be on its way. A
/// record lives for the lease, and a grace of a tenth of it.
fn is_late(lasts: Duration, remaining: Option<Duration>) -> bool {
    let silent = lasts.saturating_sub(remaining.unwrap_or(lasts));
    let renewal = lasts / 3;
    silent > renewal + renewal.min(Duration::from_secs(1))
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Late => "late",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Foreign => "foreign",
        }
    }
}

/// One key, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) endpoint: String,
    pub(crate) digits: String,
    pub(crate) state: &'static str,
    pub(crate) holder: String,
    pub(crate) since: String,
    pub(crate) lasts_ms: u128,
    pub(crate) free_in_ms: Option<u128>,
    pub(crate) bytes: usize,
    pub(crate) fence: Option<i64>,
    /// The steps that are done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) steps: Vec<String>,
}

impl Shown {
    pub(crate) fn of(peek: &Peek) -> Self {
        Self {
            endpoint: peek.endpoint().to_owned(),
            digits: peek.digits(),
            state: state(peek.state(), peek.lasts(), peek.remaining()).word(),
            holder: peek.holder().to_owned(),
            since: output::time(peek.since()),
            lasts_ms: peek.lasts().as_millis(),
            free_in_ms: peek.remaining().map(|remaining| remaining.as_millis()),
            bytes: peek.size(),
            fence: peek.fence(),
            steps: peek.steps(),
        }
    }
}

/// How long ago this was, by the clock of this machine.
pub(crate) fn age(since: SystemTime) -> Duration {
    since.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_json_or_a_text() {
        for (text, expected) in [
            ("7", Value::from(7)),
            ("\"7\"", Value::from("7")),
            ("2026-11-21/42", Value::from("2026-11-21/42")),
            ("[1,2]", Value::from(vec![1, 2])),
            ("null", Value::Null),
        ] {
            assert_eq!(read_part(text), expected, "{text}");
        }
    }

    #[test]
    fn the_parts_have_the_fingerprint_of_their_types() {
        let of = |parts: &dyn Fn(&mut Hasher)| {
            let keying = idempotence::fingerprint::Keying::new(idempotence::Digest::Md5);
            let mut hasher = keying.hasher();
            parts(&mut hasher);
            hasher.finish().to_string()
        };
        let typed = of(&|hasher| (7_u64, -1_i8, "x").add_to(hasher).expect("parts"));
        let read = KeyParts(["7", "-1", "x"].map(read_part).into());
        assert_eq!(of(&|hasher| read.add_to(hasher).expect("parts")), typed);
    }

    #[test]
    fn a_holder_is_late_after_a_third_of_its_lease_and_a_moment() {
        let lasts = Duration::from_secs(33);
        for (remaining, late) in [(33, false), (22, false), (21, false), (20, true), (0, true)] {
            let remaining = Some(Duration::from_secs(remaining));
            assert_eq!(is_late(lasts, remaining), late, "{remaining:?}");
        }
        assert!(!is_late(lasts, None));
    }
}
