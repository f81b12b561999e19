//! Tests that arguments and results never appear in keys, records, logs, metrics, errors or listings.
//!
//! A program of its own, because it records the logs of the whole process.
#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs)]

mod recorder;
mod sealed;
mod urls;

use std::error::Error as StdError;
use std::fmt::{Debug, Write as _};
use std::future::pending;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{
    Digest, Error, Event, Idempotency, Lang, MemoryStore, OnStoreError, Release, StoreErrorKind,
};
use serde::{Deserialize, Serialize, Serializer};
use tokio::time::timeout;

use recorder::{Recorder, Recording};
use support::spy::Spy;

const KEY: &str = "canary-in-the-key";
const PAYLOAD: &str = "canary-in-the-payload";
const OTHER: &str = "canary-in-another-argument";
const RESULT: &str = "canary-in-the-result";
const FAILURE: &str = "canary-in-the-failure";
const SECRET: &str = "canary-in-the-secret";

/// What the body of a call does.
#[derive(Debug, Clone, Copy)]
enum End {
    Ok,
    Err,
    Panic,
    Dropped,
    /// The result cannot be serialized, and the text of the error contains the result.
    Unwritable,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    release: Release,
    replay: bool,
    wait: Duration,
    on_store_error: OnStoreError,
    fault: Option<(Op, Fault)>,
    end: End,
}

/// A value whose serialization may fail with an error that contains the value.
#[derive(Debug, Clone, Deserialize)]
struct Leaky(String);

impl Serialize for Leaky {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == RESULT {
            return serializer.serialize_str(&self.0);
        }
        Err(serde::ser::Error::custom(format!(
            "cannot write {}",
            self.0
        )))
    }
}

#[derive(Debug)]
#[expect(dead_code, reason = "only its `Debug` output is used")]
enum Failed {
    Refused(Error),
    Body(&'static str),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

fn cases() -> Vec<Case> {
    let unanswered = [
        Fault::Fail(StoreErrorKind::NotApplied),
        Fault::Fail(StoreErrorKind::Unknown),
        Fault::Fail(StoreErrorKind::Full),
        Fault::Fail(StoreErrorKind::Misconfigured),
        Fault::LoseReply,
        Fault::Hang,
    ];
    let faults = Op::FOUR
        .into_iter()
        .flat_map(|op| unanswered.map(|fault| Some((op, fault))));
    let faults: Vec<_> = [None].into_iter().chain(faults).collect();
    let mut cases = Vec::new();
    for (release, replay) in [
        (Release::Always, false),
        (Release::OnError, false),
        (Release::OnError, true),
        (Release::Never, true),
    ] {
        for (on_store_error, wait) in [(OnStoreError::Refuse, 0), (OnStoreError::Run, 300)] {
            for end in [End::Ok, End::Err, End::Panic, End::Dropped, End::Unwritable] {
                for &fault in &faults {
                    cases.push(Case {
                        release,
                        replay,
                        wait: Duration::from_millis(wait),
                        on_store_error,
                        fault,
                        end,
                    });
                }
            }
        }
    }
    cases
}

/// All texts of errors, events and listings.
#[derive(Debug, Clone, Default)]
struct Output(Arc<Mutex<String>>);

impl Output {
    fn note(&self, what: &dyn Debug) {
        writeln!(self.0.lock().unwrap(), "{what:?}").unwrap();
    }

    fn text(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }

    fn error(&self, error: &Error) {
        self.note(error);
        self.text(&error.to_string());
        self.text(error.code());
        let mut cause: Option<&dyn StdError> = Some(error);
        while let Some(error) = cause {
            self.text(&format!("{error} {error:?}\n"));
            cause = error.source();
        }
        if let Some(duplicate) = error.duplicate() {
            self.note(duplicate);
        }
        self.text(error.text(Lang::En));
    }

    fn take(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Runs calls and other operations of a case, and records all their output.
///
/// Returns the issued token, if any. It must also stay secret.
async fn exercise(case: Case, handle: &Idempotency, output: &Output) -> Option<String> {
    for payload in [PAYLOAD, PAYLOAD, "another"] {
        let call = handle
            .call("orders.pay")
            .key(KEY)
            .key(&(7, KEY))
            .payload(payload)
            .ttl(Duration::from_secs(30))
            .release(case.release)
            .wait(case.wait)
            .on_store_error(case.on_store_error);
        output.note(&call);
        let body = async move {
            let argument = OTHER.to_owned();
            tokio::task::yield_now().await;
            match case.end {
                End::Ok => Ok(Leaky(RESULT.to_owned())),
                End::Err => Err(Failed::Body(FAILURE)),
                End::Panic => std::panic::resume_unwind(Box::new(argument)),
                End::Dropped => pending().await,
                End::Unwritable => Ok(Leaky(format!("{RESULT} that cannot be written"))),
            }
        };
        let run = async {
            if case.replay {
                call.replay().run(body).await
            } else {
                call.run(body).await
            }
        };
        let run = timeout(Duration::from_secs(5), run);
        let outcome = std::panic::AssertUnwindSafe(run).catch_unwind().await;
        if let Ok(Ok(Err(Failed::Refused(error)))) = outcome {
            output.error(&error);
        }
    }
    // The stored result has another type.
    let other_type = handle.call("orders.pay").key(KEY).key(&(7, KEY));
    let other_type = other_type.ttl(Duration::from_secs(30)).replay();
    let number: Result<u64, Error> = other_type.run(async { Ok(1) }).await;
    if let Err(error) = number {
        output.error(&error);
    }
    match handle.peek("orders.pay", &(KEY, (7, KEY))).await {
        Ok(Some(peek)) => {
            output.note(&peek);
            output.text(peek.holder());
            let _ = handle
                .forget(&peek)
                .await
                .map_err(|error| output.error(&error));
        }
        Ok(None) => {}
        Err(error) => output.error(&error),
    }
    let token = exercise_token(handle, output).await;
    output.note(handle);
    for info in handle.endpoints() {
        output.note(&info);
        output.text(&info.to_string());
    }
    output.note(&handle.settings_problems());
    let _ = handle.drain(Duration::from_mins(2)).await;
    token
}

/// Issues, redeems and gives back a one-time token, also with the wrong subject, and records all output.
async fn exercise_token(handle: &Idempotency, output: &Output) -> Option<String> {
    let tokens = handle.tokens();
    let issued = tokens.issue(KEY, "orders.submit", Duration::from_secs(30));
    let token = issued.await.map_err(|error| output.error(&error)).ok()?;
    output.note(&(&tokens, &token));
    for subject in [KEY, OTHER, KEY] {
        let redeemed = tokens.redeem(token.as_str(), subject, "orders.submit");
        match redeemed.await {
            Ok(redeemed) => {
                output.note(&redeemed);
                let given_back = redeemed.give_back().await;
                let _ = given_back.map_err(|error| output.error(&error));
            }
            Err(error) => output.error(&error),
        }
    }
    Some(token.to_string())
}

/// The first part of this text that contains a canary: as plain text, in hexadecimal digits, or as a list of bytes.
fn find_canary(text: &str) -> Option<String> {
    static FORMS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let canaries = [KEY, PAYLOAD, OTHER, RESULT, FAILURE, SECRET];
        let forms = canaries.map(|canary| {
            let hex = canary.bytes().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            });
            let list = format!("{:?}", canary.as_bytes());
            let list = list.trim_matches(['[', ']']).to_owned();
            [canary.to_owned(), hex, list]
        });
        forms.into_iter().flatten().collect()
    });
    let text = text.to_ascii_lowercase();
    let at = FORMS.iter().find_map(|form| text.find(form))?;
    let (before, after) = (
        at.saturating_sub(200),
        at.saturating_add(100).min(text.len()),
    );
    Some(String::from_utf8_lossy(&text.as_bytes()[before..after]).into_owned())
}

fn handle(store: &Spy, output: &Output, secret: bool) -> Idempotency {
    let events = output.clone();
    let builder = Idempotency::builder(store.clone()).observer(move |event: &Event<'_>| {
        events.note(event);
        events.text(&event.to_string());
    });
    let builder = if secret {
        builder.digest(Digest::Sha256).secret(SECRET)
    } else {
        builder
    };
    output.note(&builder);
    builder.build().unwrap()
}

#[test]
fn arguments_and_results_appear_in_no_output() {
    let logged = Recording::of_the_process();
    let output = Output::default();
    let clock = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let all = cases();
    let (mut tokens, mut stored) = (0, 0);
    for (number, case) in all.iter().enumerate() {
        let faulty = FaultyStore::new(MemoryStore::new());
        let store = Spy::new(faulty.clone());
        let handle = handle(&store, &output, number % 2 == 0);
        if let Some((op, fault)) = case.fault {
            faulty.always(op, fault);
        }
        let run = || clock.block_on(exercise(*case, &handle, &output));
        let token = metrics::with_local_recorder(&recorder, run);

        let (output, logged) = (output.take(), logged.take());
        let (keys, values) = store.take();
        stored += values.len();
        let (keys, values) = (keys.join("\n"), values.concat());
        // Half of a token may not appear either.
        for half in token.iter().flat_map(|token| [&token[..32], &token[32..]]) {
            for text in [&output, &logged, &keys, &values] {
                assert!(!text.contains(half), "{case:?}: {text}");
            }
            tokens += 1;
        }
        assert_eq!(
            find_canary(&output),
            None,
            "in an error, an event or a listing: {case:?}"
        );
        assert_eq!(find_canary(&logged), None, "in the log: {case:?}");
        assert_eq!(find_canary(&keys), None, "in a key: {case:?}");
        let values = match (case.replay, case.end) {
            // With `replay`, the result of a success must be stored.
            (true, End::Ok) => values.replace(&format!("\"{RESULT}\""), ""),
            _ => values,
        };
        assert_eq!(find_canary(&values), None, "in a record: {case:?}");
    }
    let metrics = format!("{:?}", recorder.snapshotter().snapshot().into_vec());
    assert!(
        metrics.contains("orders.pay"),
        "the recorder has no metrics of the calls"
    );
    assert_eq!(find_canary(&metrics), None, "in the metrics");
    assert!(Recorder::count() > 1000 && stored > 1000 && tokens > 1000);
}

#[test]
fn a_canary_is_found_in_every_form() {
    let (hex, list) = (
        "63616e6172792d696e2d7468652d6b6579",
        format!("{:?}", KEY.as_bytes()),
    );
    for text in [KEY, &format!("a{KEY}b"), &KEY.to_uppercase(), hex, &list] {
        assert!(find_canary(text).is_some(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_key_is_a_name_and_digits_for_every_key_part() {
    let store = Spy::new(FaultyStore::new(MemoryStore::new()));
    let handle = Idempotency::new(store.clone());
    let parts = [
        "x".repeat(1_000_000),
        "\0".to_owned(),
        "a\r\nDEL b".to_owned(),
        "{}".to_owned(),
        "{a}:*?[b]".to_owned(),
        "../../etc/passwd".to_owned(),
        "'; DROP TABLE idem; --".to_owned(),
        "\u{202e}é\u{0}".to_owned(),
        String::new(),
    ];
    for part in &parts {
        let call = handle.call("orders.pay").key(part).payload(part);
        let call = call.ttl(Duration::from_secs(1)).replay();
        call.run(async { Ok::<_, Error>(()) }).await.unwrap();
    }
    let (mut keys, _) = store.take();
    keys.dedup();
    assert_eq!(keys.len(), parts.len(), "{keys:?}");
    for key in keys {
        let digits = key.strip_prefix("idem:orders.pay:").unwrap();
        assert!(
            digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{key}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_name_from_data_never_reaches_the_store() {
    let store = Spy::new(FaultyStore::new(MemoryStore::new()));
    let handle = Idempotency::new(store.clone());
    for name in ["", "a b", "a\n", "{a}", "a:b", "é", "a\0", &"a".repeat(129)] {
        let call = handle.call(name.to_owned()).key(&1);
        let call = call.ttl(Duration::from_secs(1));
        let outcome: Result<(), Error> = call.run(async { panic!("the body must not run") }).await;
        assert!(matches!(outcome, Err(Error::InvalidKey(_))), "{name:?}");
        assert!(
            !outcome.unwrap_err().to_string().contains(char::is_control),
            "{name:?}"
        );
    }
    assert_eq!(store.take().0, [""; 0], "no command may reach the store");
}
