//! The outcomes of issuing and redeeming, and their round trips.

use std::sync::Arc;
use std::time::Duration;

use idempotence::testkit::CountingStore;
use idempotent_runtime::store::{Bytes, Claim};
use idempotent_runtime::{ClientAction, Digest, Error, Idempotency, MemoryStore, Store};
use serde::{Serialize, Serializer};
use tokio::time::advance;

use crate::tokens::{
    Events, OPERATION, TTL, USER, assert_accepted, assert_refused, code_of, issue, on, redeem,
};
use support::required_only::RequiredOnly;
use support::spy::Spy;

/// Tokens on a store that implements `exchange`, and on a store with only the four required operations.
fn stores() -> [Arc<dyn Store>; 2] {
    [
        Arc::new(MemoryStore::new()),
        Arc::new(RequiredOnly(MemoryStore::new())),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_token_is_accepted_once_and_then_used_until_it_expires() {
    for store in stores() {
        let tokens = on(store);
        let token = issue(&tokens).await;
        assert_accepted(&tokens, &token).await;
        let tick = Duration::from_millis(1);
        for wait in [Duration::ZERO, TTL / 2, (TTL / 2).saturating_sub(tick)] {
            advance(wait).await;
            assert_refused(&tokens, &token, "token_used").await;
        }
        advance(tick).await;
        assert_refused(&tokens, &token, "token_unknown").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_valid_until_its_ttl_expires_and_not_longer() {
    for store in stores() {
        let tokens = on(store);
        let (early, late) = (issue(&tokens).await, issue(&tokens).await);
        let tick = Duration::from_millis(1);
        advance(TTL.saturating_sub(tick)).await;
        assert_accepted(&tokens, &early).await;
        advance(tick).await;
        assert_refused(&tokens, &late, "token_unknown").await;
    }
}

#[tokio::test]
async fn another_users_token_is_refused_and_stays_valid() {
    for store in stores() {
        let tokens = on(store);
        let token = issue(&tokens).await;
        for _ in 0..2 {
            let thief = tokens.redeem(token.as_str(), &(USER + 1), OPERATION).await;
            assert_eq!(code_of(thief), "token_unknown");
        }
        assert_accepted(&tokens, &token).await;
        let thief = tokens.redeem(token.as_str(), &(USER + 1), OPERATION).await;
        assert_eq!(
            code_of(thief),
            "token_unknown",
            "the answer must not reveal that the token is used"
        );
    }
}

#[tokio::test]
async fn a_token_for_another_operation_is_refused_and_stays_valid() {
    let tokens = on(MemoryStore::new());
    let token = issue(&tokens).await;
    for other in [
        "orders.cancel",
        "orders.submi",
        "orders.submitt",
        "Orders.submit",
    ] {
        let elsewhere = tokens.redeem(token.as_str(), &USER, other).await;
        assert_eq!(code_of(elsewhere), "token_unknown", "{other}");
    }
    assert_accepted(&tokens, &token).await;
}

#[tokio::test]
async fn the_tokens_of_two_tabs_are_independent() {
    let tokens = on(MemoryStore::new());
    let (first, second) = (issue(&tokens).await, issue(&tokens).await);
    assert_ne!(first, second);
    assert_accepted(&tokens, &first).await;
    assert_refused(&tokens, &first, "token_used").await;
    assert_accepted(&tokens, &second).await;
}

#[tokio::test]
async fn a_token_that_was_never_issued_is_unknown() {
    let tokens = on(MemoryStore::new());
    let never = tokens.redeem(&"0".repeat(64), &USER, OPERATION).await;
    assert_eq!(code_of(never), "token_unknown");
}

#[tokio::test]
async fn subjects_that_look_alike_are_different() {
    let tokens = on(MemoryStore::new());
    let token = tokens.issue(&("a", "b:c"), OPERATION, TTL).await.unwrap();
    let text = token.as_str();
    for outcome in [
        tokens.redeem(text, &("a:b", "c"), OPERATION).await,
        tokens.redeem(text, "a:b:c", OPERATION).await,
        tokens.redeem(text, &(("a", "b:c"),), OPERATION).await,
        tokens.redeem(text, &("a", "b:c", ()), OPERATION).await,
    ] {
        assert_eq!(code_of(outcome), "token_unknown");
    }
    // Subjects that serialize to the same value are equal.
    let subject = ["a".to_owned(), "b:c".to_owned()];
    tokens.redeem(text, &subject, OPERATION).await.unwrap();
}

#[tokio::test]
async fn a_token_is_valid_in_every_process_with_the_same_secret_and_prefix() {
    let store = Arc::new(MemoryStore::new());
    let handle = |prefix: &str, secret: &str| {
        let builder = Idempotency::builder(Arc::clone(&store)).prefix(prefix);
        builder.secret(secret).build().unwrap().tokens()
    };
    let token = issue(&handle("shop", "secret")).await;
    assert_refused(&handle("shop", "other"), &token, "token_unknown").await;
    assert_refused(&handle("other", "secret"), &token, "token_unknown").await;
    assert_refused(&on(Arc::clone(&store)), &token, "token_unknown").await;
    assert_accepted(&handle("shop", "secret"), &token).await;
}

#[tokio::test]
async fn tokens_do_not_depend_on_the_digest_of_the_handle() {
    let store = Arc::new(MemoryStore::new());
    let token = issue(&on(Arc::clone(&store))).await;
    let strong = Idempotency::builder(store).digest(Digest::Sha256);
    assert_accepted(&strong.build().unwrap().tokens(), &token).await;
}

#[tokio::test]
async fn each_outcome_has_its_own_client_action() {
    let tokens = on(MemoryStore::new());
    let token = issue(&tokens).await;
    assert_accepted(&tokens, &token).await;
    let used = redeem(&tokens, &token).await.unwrap_err();
    let unknown = tokens.redeem(token.as_str(), "nobody", OPERATION).await;
    let malformed = tokens.redeem("session:42", &USER, OPERATION).await;
    for (error, action) in [
        (used, ClientAction::NewToken),
        (unknown.unwrap_err(), ClientAction::NewToken),
        (malformed.unwrap_err(), ClientAction::Fix),
    ] {
        assert_eq!(error.client_action(), action, "{error}");
        assert!(!error.is_duplicate() && !error.is_unavailable(), "{error}");
        assert_eq!(error.endpoint(), OPERATION);
    }
}

struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it cannot be written"))
    }
}

#[tokio::test]
async fn a_bad_name_ttl_or_subject_is_refused_before_anything_is_sent() {
    let store = CountingStore::new(MemoryStore::new());
    let tokens = on(store.clone());
    let token = "0".repeat(64);
    for name in ["", "a b", "a:b", "{a}", "é", "a\n", &"a".repeat(129)] {
        let issued = tokens.issue(&USER, name.to_owned(), TTL).await;
        assert_eq!(code_of(issued), "invalid_key", "{name:?}");
        let redeemed = tokens.redeem(&token, &USER, name.to_owned()).await;
        assert_eq!(code_of(redeemed), "invalid_key", "{name:?}");
    }
    for ttl in [Duration::ZERO, Duration::from_nanos(999_999)] {
        let issued = tokens.issue(&USER, OPERATION, ttl).await;
        assert_eq!(code_of(issued), "invalid_policy", "{ttl:?}");
    }
    let issued = tokens.issue(&Unwritable, OPERATION, TTL).await;
    assert_eq!(code_of(issued), "invalid_key");
    let redeemed = tokens.redeem(&token, &Unwritable, OPERATION).await;
    assert_eq!(code_of(redeemed), "invalid_key");
    assert_eq!(store.counts().total(), 0);
}

#[tokio::test]
async fn a_ttl_may_be_a_millisecond_or_the_longest_duration() {
    let tokens = on(MemoryStore::new());
    for ttl in [Duration::from_millis(1), Duration::MAX] {
        tokens.issue(&USER, OPERATION, ttl).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_bytes_are_refused_and_never_overwritten() {
    let ever = Duration::from_mins(10);
    for foreign in [
        "",
        "1",
        "idem2 T fresh",
        "idem1 T fresh2",
        "idem1 T used owner=me",
    ] {
        let store = Arc::new(MemoryStore::new());
        let spy = Spy::new(store.clone());
        let tokens = on(spy.clone());
        let token = issue(&tokens).await;
        let key = spy.keys().pop().unwrap();
        let issued = store.get(&key).await.unwrap().unwrap().value;
        let foreign = Bytes::from(foreign);
        store.replace(&key, &issued, &foreign, ever).await.unwrap();
        assert_refused(&tokens, &token, "foreign_record").await;
        assert_eq!(store.get(&key).await.unwrap().unwrap().value, foreign);
    }
}

#[tokio::test]
async fn each_operation_is_one_round_trip() {
    let store = CountingStore::new(MemoryStore::new());
    let tokens = on(store.clone());
    let token = issue(&tokens).await;
    assert_eq!((store.counts().claim, store.counts().total()), (1, 1));
    store.reset();
    let redeemed = redeem(&tokens, &token).await.unwrap();
    assert_eq!((store.counts().exchange, store.counts().total()), (1, 1));
    store.reset();
    assert_refused(&tokens, &token, "token_used").await;
    assert_eq!(store.counts().total(), 1);
    store.reset();
    assert!(redeemed.give_back().await.unwrap());
    assert_eq!(store.counts().total(), 1);
    store.reset();
    assert_accepted(&tokens, &token).await;
    assert_eq!(
        store.counts().total(),
        2,
        "the second redemption finds that the token was given back"
    );
}

#[tokio::test]
async fn each_event_is_emitted_once() {
    let (events, store) = (Events::default(), MemoryStore::new());
    let tokens = events.handle(store).tokens();
    let token = issue(&tokens).await;
    assert_eq!(events.take(), ["token_issued"]);
    let redeemed = redeem(&tokens, &token).await.unwrap();
    assert_eq!(events.take(), ["token_redeemed"]);
    assert_refused(&tokens, &token, "token_used").await;
    assert_eq!(events.take(), ["token_rejected"]);
    let malformed = tokens.redeem("", &USER, OPERATION).await;
    assert!(matches!(malformed, Err(Error::TokenMalformed(_))));
    assert_eq!(events.take(), ["token_rejected"]);
    redeemed.give_back().await.unwrap();
    assert_eq!(events.take(), ["token_given_back"]);
    drop(redeem(&tokens, &token).await.unwrap());
    assert_eq!(events.take(), ["token_redeemed"]);
    tokens
        .issue(&USER, OPERATION, Duration::ZERO)
        .await
        .unwrap_err();
    assert_eq!(events.take(), ["operation_invalid"]);
}

#[tokio::test]
async fn a_token_is_not_issued_over_an_existing_record() {
    let store = Spy::new(MemoryStore::new());
    store.claims_are(Claim::Taken(Bytes::from_static(b"idem1 T fresh")));
    let issued = on(store).issue(&USER, OPERATION, TTL).await;
    assert_eq!(code_of(issued), "foreign_record");
}
