//! `show`: explains one key.

use idempotence::Peek;
use serde::Serialize;

use crate::args::{Access, Show, State};
use crate::exit::Failure;
use crate::find::{Shown, age, find, state_of};
use crate::open::open;
use crate::output::{self, Output};

pub(crate) async fn run(access: &Access, args: &Show, output: &mut Output) -> Result<(), Failure> {
    let idempotency = open(access).await?;
    let peek = find(&idempotency, &args.key).await?;
    let stored = peek.stored().filter(|_| args.value);
    if output.is_json() {
        let value = stored.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        return output.json(&WithValue {
            shown: Shown::of(&peek),
            value,
        });
    }
    output.line(&text(&peek))?;
    if let Some(bytes) = stored {
        output.foreign(&bytes)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct WithValue {
    #[serde(flatten)]
    shown: Shown,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

/// A line for each property of a key, and what they mean.
pub(crate) fn text(peek: &Peek) -> String {
    let state = state_of(peek);
    let free_in = peek.remaining().map_or_else(
        || "never: another program removed its expiry".to_owned(),
        output::duration,
    );
    let fence = peek
        .fence()
        .map_or_else(String::new, |fence| format!("\nfence     {fence}"));
    let all_keys = peek.keys_digest().map_or_else(String::new, |digits| {
        format!("\nalso      {digits}: `ls --json` shows these digits for each key of its call")
    });
    let steps = match &*peek.steps() {
        [] => String::new(),
        steps => format!("\nsteps     {}", steps.join(", ")),
    };
    format!(
        "endpoint  {}\ndigits    {}\nstate     {}: {}\nholder    {}\nsince     {} ({} ago)\nfree in   {free_in}\nsize      {} bytes{all_keys}{fence}{steps}",
        peek.endpoint(),
        peek.fingerprint(),
        state.word(),
        meaning(state),
        peek.holder(),
        output::time(peek.since()),
        output::duration(age(peek.since())),
        peek.size(),
    )
}

/// What a state means: the same words in `show` and `release`.
pub(crate) fn meaning(state: State) -> &'static str {
    match state {
        State::Taken => {
            "its call runs, or its process was killed a moment ago, perhaps after the work; with `release = false` or `at_least` the \
             call may have ended"
        }
        State::Late => {
            "the key was not renewed for three quarters of its time. Its process was killed, perhaps after the work; or its calls \
             have `renew = false`; or with `release = false` the call has ended, perhaps with success"
        }
        State::Done => {
            "the call has ended with success; an equal call is refused or gets its result"
        }
        State::Failed => "the call has ended with an error that is stored for equal calls",
        State::Unknown => {
            "the call has ended, and nobody knows whether its work is done: look there first"
        }
        State::Foreign => "another program or another version wrote the record",
    }
}
