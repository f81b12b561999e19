//! The rules that the text of every error follows.

use std::error::Error as StdError;

use super::call::Error;
use super::duplicate::DuplicateState;
use super::store::{StoreError, StoreErrorKind};
use crate::key::fingerprint::Fingerprint;

/// Parts of the samples that only operators may see: the holder, the address and the source.
const OPERATORS_ONLY: [&str; 5] = ["web-3", "4242", "10.0.0.7", "6379", "sent no answer"];

#[test]
fn every_text_is_one_line_with_the_endpoint_the_key_and_advice() {
    let key = Fingerprint::of(&("A-1",)).unwrap().to_string();
    for error in Error::samples() {
        let text = error.to_string();
        let site = format!("call of `orders.pay` with key {}…: ", &key[..8]);
        assert!(text.starts_with(&site), "{text}");
        assert!(!text.contains(&key[..9]), "{text}");
        assert!(!text.contains(['\n', '\r']), "{text}");
        assert!(!text.ends_with(['.', ' ']), "{text}");
        let (what, advice) = text.split_once("; ").expect(&text);
        assert!(what.len() > site.len() && !advice.is_empty(), "{text}");
    }
}

#[test]
fn the_text_of_a_call_that_failed_says_so() {
    let [_, done, ..] = Error::samples();
    let mut failed = done.into_duplicate().expect("a duplicate");
    failed.0.state = DuplicateState::Failed;
    let text = failed.to_string();
    assert!(
        text.contains("refused because an equal call failed 5.0s ago;"),
        "{text}"
    );
}

#[test]
fn no_text_has_the_holder_the_address_or_the_source() {
    for error in Error::samples() {
        let text = error.to_string();
        for part in OPERATORS_ONLY {
            assert!(!text.contains(part), "{text}");
        }
    }
}

#[test]
fn debug_and_the_source_have_the_holder_and_the_address() {
    for error in Error::samples() {
        let debug = format!("{error:?}");
        if error.duplicate().is_some() {
            assert!(debug.contains("web-3:4242"), "{debug}");
        }
        if let Some(source) = error.source() {
            assert!(debug.contains("10.0.0.7"), "{debug}");
            let mut chain = source.to_string();
            let mut next = source.source();
            while let Some(source) = next {
                chain = format!("{chain}: {source}");
                next = source.source();
            }
            assert!(chain.contains("10.0.0.7"), "{chain}");
        }
    }
}

#[test]
fn debug_does_not_repeat_the_text() {
    for error in Error::samples() {
        let (text, debug) = (error.to_string(), format!("{error:?}"));
        let (_, what) = text.split_once(": ").expect(&text);
        assert!(debug.matches(what).count() <= 1, "{debug}");
        let reason = "refused the connection";
        assert!(debug.matches(reason).count() <= 1, "{debug}");
    }
}

#[test]
fn the_text_has_the_reason_of_the_store_but_not_its_place() {
    let site = || Error::samples()[0].site().clone();
    for kind in [
        StoreErrorKind::NotApplied,
        StoreErrorKind::Unknown,
        StoreErrorKind::Full,
        StoreErrorKind::Misconfigured,
    ] {
        let failed = || {
            StoreError::new(kind, "os error 111")
                .reason("was stopped by a test")
                .place("postgres db.internal:5432")
        };
        let errors = [
            Error::store(site(), failed()),
            Error::store_operation(site(), failed()),
            Error::store_operation(site(), failed()).at(&site()),
        ];
        for error in errors {
            let text = error.clone().to_string();
            assert!(
                text.contains("the store was stopped by a test, so"),
                "{text}"
            );
            for part in ["postgres", "db.internal", "5432", "111"] {
                assert!(!text.contains(part), "{text}");
            }
            let source = error.source().expect("the store's error");
            let source = source.to_string();
            assert_eq!(source, "postgres db.internal:5432 was stopped by a test");
        }
    }
}
