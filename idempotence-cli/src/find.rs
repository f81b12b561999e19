//! Finds one key, and what people and programs read of it.

use std::time::{Duration, SystemTime};

use idempotence::fingerprint::{Hasher, Parts, UnencodablePart};
use idempotence::{DuplicateState, Idempotency, Peek};
use serde::Serialize;
use serde_json::Value;

use crate::args::{KeyArgs, State};
use crate::exit::Failure;
use crate::late::KeyTimes;
use crate::output;

/// The record of this key.
pub(crate) async fn find(idempotency: &Idempotency, key: &KeyArgs) -> Result<Peek, Failure> {
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
            "{several} keys of `{}` begin with {digits}: give the digits of one of them\n{}",
            key.endpoint,
            found.iter().map(line).collect::<Vec<_>>().join("\n")
        ))),
    }
}

/// A key among others whose first digits are equal, such as the slots of a key with permits.
fn line(peek: &Peek) -> String {
    let (state, since) = (state_of(peek).word(), output::time(peek.since()));
    format!(
        "{}  {state}  {since}  {}",
        peek.fingerprint(),
        peek.holder()
    )
}

async fn by_parts(idempotency: &Idempotency, key: &KeyArgs) -> Result<Peek, Failure> {
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

/// The state of a call that an operator sees.
pub(crate) fn state(state: DuplicateState, times: KeyTimes) -> State {
    match state {
        DuplicateState::Running if times.is_late() => State::Late,
        DuplicateState::Running => State::Taken,
        DuplicateState::Failed => State::Failed,
        DuplicateState::Unknown => State::Unknown,
        _ => State::Done,
    }
}

/// The state of a key that was found.
pub(crate) fn state_of(peek: &Peek) -> State {
    state(peek.state(), KeyTimes::of(peek))
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
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
    pub(crate) fingerprint: String,
    pub(crate) state: &'static str,
    pub(crate) holder: String,
    pub(crate) since: String,
    pub(crate) lasts_ms: u128,
    pub(crate) free_in_ms: Option<u128>,
    pub(crate) bytes: usize,
    pub(crate) fence: Option<i64>,
    /// Digits that each key of a call with `also` has.
    pub(crate) also: Option<String>,
    /// The steps that are done.
    pub(crate) steps: Vec<String>,
}

impl Shown {
    pub(crate) fn of(peek: &Peek) -> Self {
        Self {
            endpoint: peek.endpoint().to_owned(),
            digits: peek.digits(),
            fingerprint: peek.fingerprint().to_string(),
            state: state_of(peek).word(),
            holder: peek.holder().to_owned(),
            since: output::time(peek.since()),
            lasts_ms: peek.lasts().as_millis(),
            free_in_ms: peek.remaining().map(|remaining| remaining.as_millis()),
            bytes: peek.size(),
            fence: peek.fence(),
            also: peek.keys_digest().map(str::to_owned),
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
}
