//! Tokens and subjects appear in no key, record, event or error.

use std::error::Error as StdError;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Error, Event, Idempotency, Lang, MemoryStore, StoreErrorKind};

use support::spy::Spy;

use crate::tokens::{LONG, OPERATION, TTL};

const SUBJECT: &str = "canary-in-the-subject";

/// All printed texts.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<String>>);

impl Printed {
    fn note(&self, what: &dyn Debug) {
        writeln!(self.0.lock().unwrap(), "{what:?} {what:#?}").unwrap();
    }

    fn error(&self, error: &Error) {
        let mut printed = self.0.lock().unwrap();
        write!(printed, "{}{}", error.code(), error.text(Lang::En)).unwrap();
        let mut cause: Option<&dyn StdError> = Some(error);
        while let Some(error) = cause {
            writeln!(printed, "{error} {error:?}").unwrap();
            cause = error.source();
        }
    }
}

/// Whether a text contains the subject, or half of the token as text or as a list of bytes.
fn reveals(text: &str, token: &str) -> bool {
    let list = |part: &str| format!("{:?}", part.as_bytes()).replace(['[', ']'], "");
    let parts = [&token[..32], &token[32..], SUBJECT];
    (parts.iter()).any(|part| text.contains(part) || text.contains(&list(part)))
}

#[tokio::test(start_paused = true)]
async fn a_token_appears_only_in_its_own_text() {
    let faults = [
        Fault::LoseReply,
        Fault::Hang,
        Fault::Fail(StoreErrorKind::NotApplied),
        Fault::Fail(StoreErrorKind::Full),
        Fault::Fail(StoreErrorKind::Misconfigured),
    ];
    for fault in [None].into_iter().chain(faults.map(Some)) {
        let store = FaultyStore::new(MemoryStore::new());
        let spy = Spy::new(store.clone());
        let (printed, observed) = (Printed::default(), Printed::default());
        let events = observed.clone();
        let handle = Idempotency::builder(spy.clone()).observer(move |event: &Event<'_>| {
            events.note(event);
            events.note(&event.to_string());
        });
        let handle = handle.build().unwrap();
        let tokens = handle.tokens();
        let token = tokens.issue(SUBJECT, OPERATION, TTL).await.unwrap();
        printed.note(&(&handle, &tokens, &token));
        if let Some(fault) = fault {
            store.always(Op::Exchange, fault);
            store.always(Op::Claim, fault);
        }
        for sent in [token.as_str(), token.as_str(), &token.as_str()[1..]] {
            match tokens.redeem(sent, SUBJECT, OPERATION).await {
                Ok(redeemed) => printed.note(&redeemed),
                Err(error) => printed.error(&error),
            }
        }
        store.heal();
        if let Ok(redeemed) = tokens.redeem(token.as_str(), SUBJECT, OPERATION).await {
            if let Some(fault) = fault {
                store.always(Op::Exchange, fault);
            }
            if let Err(error) = redeemed.give_back().await {
                printed.error(&error);
            }
        }
        let _ = handle.drain(LONG).await;
        let (printed, observed) = (printed.0.lock().unwrap(), observed.0.lock().unwrap());
        assert!(printed.contains("Token(…)") && observed.contains(OPERATION));
        assert!(!reveals(&printed, token.as_str()), "{printed}");
        assert!(!reveals(&observed, token.as_str()), "{observed}");
        let (keys, values) = spy.take();
        for key in &keys {
            assert!(!reveals(key, token.as_str()), "{key}");
            let digest = key.strip_prefix("idem:#token:orders.submit:").unwrap();
            assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
        for text in &values {
            assert!(text.starts_with("idem1 T "), "{text}");
            assert!(!reveals(text, token.as_str()), "{text}");
        }
    }
}

#[test]
fn the_search_finds_a_token_in_every_form() {
    let token = format!("{:064x}", 0x0f1e_2d3c);
    let list = format!("{:?}", token.as_bytes());
    for text in [&token, &format!("a{}b", &token[32..]), &list, SUBJECT] {
        assert!(reveals(text, &token), "{text}");
    }
    assert!(!reveals("idem1 T fresh", &token));
}

#[tokio::test]
async fn a_token_serializes_as_its_text() {
    let tokens = Idempotency::new(MemoryStore::new()).tokens();
    let token = tokens.issue(SUBJECT, OPERATION, TTL).await.unwrap();
    let json = serde_json::to_string(&token).unwrap();
    assert_eq!(json, format!("\"{token}\""));
    assert_eq!(token.to_string(), token.as_str());
}
