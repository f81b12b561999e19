//! Tokens without the attribute.

use std::borrow::Cow;

use idempotence::testkit::CountingStore;
use idempotent_runtime::{Error, Idempotency, MemoryStore, Release, Token};
use tokio::time::sleep;

use super::{MINUTES, USER};
use crate::protocol::guarded::{never, secs};

const OPERATION: &str = "orders.submit";

fn on(store: &CountingStore<MemoryStore>) -> Idempotency {
    Idempotency::new(store.clone())
}

async fn issue(idempotency: &Idempotency) -> Token {
    let tokens = idempotency.tokens();
    tokens.issue(&USER, OPERATION, MINUTES).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_order_of_the_methods_does_not_matter() {
    let store = CountingStore::new(MemoryStore::new());
    let idempotency = on(&store);
    let token = issue(&idempotency).await;
    let calls = || {
        let call = idempotency.call("orders.pay");
        let before = call
            .token(&token, &USER, OPERATION)
            .key("a")
            .give_back()
            .ttl(secs(60));
        let call = idempotency.call("orders.pay");
        let after = call
            .ttl(secs(60))
            .give_back()
            .key("a")
            .token(&token, &USER, OPERATION);
        [before, after]
    };
    for call in calls() {
        let failing = call.error(|error| error.code().to_owned());
        let failed = failing.run(async { Err::<(), _>("the body's".to_owned()) });
        assert_eq!(failed.await, Err("the body's".to_owned()));
    }
    let [first, second] = calls();
    first.run(async { Ok::<_, Error>(()) }).await.unwrap();
    let refused = second.run(never::<()>()).await.unwrap_err();
    assert_eq!(refused.code(), "already_done", "both calls have one key");
}

#[tokio::test(start_paused = true)]
async fn without_a_key_the_token_is_the_key() {
    let store = CountingStore::new(MemoryStore::new());
    let idempotency = on(&store);
    let token = issue(&idempotency).await;
    let submit = || {
        let call =
            idempotency
                .call("orders.pay")
                .token(token.as_str(), &USER, String::from(OPERATION));
        call.ttl(secs(60)).replay()
    };
    let before = store.counts().total();
    let first = submit().run(async { Ok::<_, Error>(1) }).await.unwrap();
    assert_eq!(store.counts().total() - before, 3);
    let second = submit().run(async { Ok::<_, Error>(2) }).await.unwrap();
    assert_eq!((first, second), (1, 1));
    assert_eq!(store.counts().total() - before, 4);
}

#[tokio::test(start_paused = true)]
async fn run_to_end_redeems_the_token() {
    let store = CountingStore::new(MemoryStore::new());
    let idempotency = on(&store);
    let token = issue(&idempotency).await;
    let submit = |key: &'static str| {
        let call = idempotency.call("orders.pay").key(key).ttl(secs(60));
        call.token(&token, &USER, OPERATION)
    };
    let body = async {
        sleep(secs(1)).await;
        Ok::<_, Error>(())
    };
    submit("a").run_to_end(body).await.unwrap();
    let refused = submit("b").run_to_end(never::<()>()).await.unwrap_err();
    assert!(matches!(refused, Error::TokenUsed(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_token_operation_or_subject_sends_nothing() {
    struct Unencodable;
    impl serde::Serialize for Unencodable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no"))
        }
    }

    let store = CountingStore::new(MemoryStore::new());
    let idempotency = on(&store);
    let text: Cow<'_, str> = "a".repeat(64).into();
    let call = || idempotency.call("orders.pay").ttl(secs(60));
    for (call, code) in [
        (call().token("a", &USER, OPERATION), "token_malformed"),
        (call().token(&text, &USER, "a b"), "invalid_key"),
        (call().token(&text, &Unencodable, OPERATION), "invalid_key"),
        (call().key("a").give_back(), "invalid_policy"),
        (
            call()
                .token(&text, &USER, OPERATION)
                .token(&text, &USER, OPERATION),
            "invalid_key",
        ),
        (
            call()
                .token(&text, &USER, OPERATION)
                .release(Release::Never)
                .give_back(),
            "invalid_policy",
        ),
    ] {
        let refused = call.run(never::<()>()).await.unwrap_err();
        assert_eq!(refused.code(), code);
        assert_eq!(refused.endpoint(), "orders.pay");
    }
    assert_eq!(store.counts().total(), 0);
}
