//! `peek`, which shows the record of a key, and `forget`, which frees the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{
    DuplicateState, Error, Event, Idempotency, MemoryStore, Policy, Release, Token,
};

use crate::protocol::guarded::{Guarded, forever, millis, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn peek_shows_the_record_of_a_key_with_three_commands_at_once() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let peek = async |id: u64| guarded.idempotency.peek("test.pay", &(id,)).await.unwrap();
    assert!(peek(1).await.is_none());
    let held = guarded.call(1).claim().await.unwrap();
    let running = peek(1).await.unwrap();
    assert_eq!(running.state(), DuplicateState::Running);
    assert_eq!(running.remaining(), Some(secs(11)));
    assert!(
        running
            .holder()
            .ends_with(&format!(":{}", std::process::id()))
    );
    assert!(running.since().elapsed().unwrap() < secs(60));
    held.settle(true).await;
    store.reset();
    let done = peek(1).await.unwrap();
    assert_eq!((store.counts().get, store.counts().total()), (3, 3));
    assert_eq!(done.fence(), None);
    assert_eq!(done.state(), DuplicateState::Done);
    assert_eq!(done.remaining(), Some(secs(60)));
    assert!(peek(2).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn forget_frees_a_key() {
    let guarded = Guarded::in_memory(policy());
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    let done = guarded
        .idempotency
        .peek("test.pay", &(1_u64,))
        .await
        .unwrap()
        .unwrap();
    assert!(guarded.idempotency.forget(&done).await.unwrap());
    assert!(
        !guarded.idempotency.forget(&done).await.unwrap(),
        "the record was already removed"
    );
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn forget_removes_only_the_peeked_record() {
    let guarded = Guarded::in_memory(policy().release(Release::Always));
    let guarded = Guarded {
        policy: Policy::new(secs(60)).release(Release::Always),
        ..guarded
    };
    let held = guarded.call(1).claim().await.unwrap();
    let first = guarded
        .idempotency
        .peek("test.pay", &(1_u64,))
        .await
        .unwrap()
        .unwrap();
    held.settle(true).await;
    let _next = guarded.call(1).claim().await.unwrap();
    assert!(!guarded.idempotency.forget(&first).await.unwrap());
    assert!(guarded.entry(1).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_call_loses_its_lease_and_the_next_call_runs() {
    let guarded = Guarded::in_memory(policy());
    let operator = async {
        let stuck = guarded
            .idempotency
            .peek("test.pay", &(1_u64,))
            .await
            .unwrap()
            .unwrap();
        assert!(guarded.idempotency.forget(&stuck).await.unwrap());
        guarded.run(1, yielding(Ok(()))).await.unwrap();
    };
    let (stuck, ()) = tokio::join!(guarded.run(1, forever()), operator);
    assert_eq!(stuck.unwrap_err().refusal().code(), "lease_lost");
}

#[tokio::test(start_paused = true)]
async fn peek_does_not_show_the_result() {
    let guarded = Guarded::in_memory(policy());
    let secret = "4111 1111 1111 1111".to_owned();
    guarded.replaying(1, async { Ok(secret) }).await.unwrap();
    let done = guarded
        .idempotency
        .peek("test.pay", &(1_u64,))
        .await
        .unwrap()
        .unwrap();
    assert!(!format!("{done:?}").contains("4111"), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn peek_returns_errors() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let key = guarded.key(1);
    let foreign = Bytes::from("foreign");
    store.claim(&key, &foreign, secs(60)).await.unwrap();
    let peek = async |name: &str| {
        guarded
            .idempotency
            .peek(name, &(1_u64,))
            .await
            .unwrap_err()
            .code()
    };
    assert_eq!(peek("test.pay").await, "foreign_record");
    assert_eq!(peek("").await, "invalid_key");
    assert_eq!(peek("a\nb").await, "invalid_key");
    assert_eq!(peek("test pay").await, "invalid_key");
    store.always(Op::Get, Fault::Hang);
    let begun = tokio::time::Instant::now();
    assert_eq!(peek("test.pay").await, "store_unavailable");
    assert!(begun.elapsed() <= secs(1) + millis(1));
}

#[tokio::test(start_paused = true)]
async fn an_impossible_name_or_foreign_bytes_are_explained() {
    let guarded = Guarded::in_memory(policy());
    let text = async |name: &str| {
        let peek = guarded.idempotency.peek(name, &(1_u64,)).await;
        peek.unwrap_err().to_string()
    };
    let names = "`idempotence::endpoints()` lists the names";
    for (name, why) in [
        ("", "it is empty"),
        ("test pay", "it has the character ' '"),
        ("test::pay", "it has the character ':'"),
        ("test/pay", "it has the character '/'"),
    ] {
        let expected = format!("`{name}` cannot name an endpoint: {why}; {names}");
        let text = text(name).await;
        assert!(text.ends_with(&expected), "{text}");
    }

    let secret = Bytes::from("4111 1111 1111 1111");
    let key = guarded.key(1);
    let claim = guarded.store.claim(&key, &secret, secs(60));
    claim.await.unwrap();
    let text = text("test.pay").await;
    assert!(text.contains("the key holds 19 bytes of text"), "{text}");
    assert!(
        text.contains("remove the key, or choose another `prefix`"),
        "{text}"
    );
    assert!(!text.contains("4111"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_long_name_is_refused_without_reading_it() {
    let guarded = Guarded::in_memory(policy());
    for name in
        ["a", "<", "POST /a", "POST./a"].map(|start| format!("{start}{}", "a".repeat(1 << 20)))
    {
        let begun = std::time::Instant::now();
        let refused = guarded.idempotency.peek(&name, &(1_u64,)).await;
        // To look for a `<` at each character takes minutes.
        assert!(begun.elapsed() < secs(5), "{:?}", begun.elapsed());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("it is longer than"), "{refused}");
        assert!(refused.len() < 1000, "{}", refused.len());
    }
}

/// A call with this token, and with the order as its key if there is one.
async fn submit(idempotency: &Idempotency, token: &Token, order: Option<u64>) -> Result<(), Error> {
    let call = idempotency.call("orders.submit").ttl(secs(60));
    let call = call.token(token, &(7, "eu"), "orders.form");
    let call = match order {
        Some(order) => call.key(&order),
        None => call,
    };
    call.run(async { Ok(()) }).await
}

#[tokio::test(start_paused = true)]
async fn peek_token_finds_a_call_by_its_token() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let tokens = idempotency.tokens();
    let token = tokens.issue(&(7, "eu"), "orders.form", secs(60));
    let token = token.await.unwrap();
    let look = |endpoint: &'static str, subject: (u64, &'static str), operation: &'static str| {
        let (idempotency, token) = (idempotency.clone(), token.clone());
        async move {
            let found = idempotency.peek_token(endpoint, token.as_str(), &subject, operation);
            found.await.unwrap()
        }
    };
    assert!(
        look("orders.submit", (7, "eu"), "orders.form")
            .await
            .is_none()
    );
    submit(&idempotency, &token, None).await.unwrap();
    for (endpoint, subject, operation) in [
        ("orders.cancel", (7, "eu"), "orders.form"),
        ("orders.submit", (8, "eu"), "orders.form"),
        ("orders.submit", (7, "eu"), "orders.submit"),
    ] {
        assert!(look(endpoint, subject, operation).await.is_none());
    }
    let done = look("orders.submit", (7, "eu"), "orders.form")
        .await
        .unwrap();
    assert_eq!(done.state(), DuplicateState::Done);

    assert_eq!(
        submit(&idempotency, &token, None).await.unwrap_err().code(),
        "already_done"
    );
    assert!(idempotency.forget(&done).await.unwrap());
    assert_eq!(
        submit(&idempotency, &token, None).await.unwrap_err().code(),
        "token_used"
    );
}

#[tokio::test(start_paused = true)]
async fn peek_subject_finds_a_call_by_its_key_and_subject_where_peek_is_an_error() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let tokens = idempotency.tokens();
    let token = tokens.issue(&(7, "eu"), "orders.form", secs(60));
    let token = token.await.unwrap();
    submit(&idempotency, &token, Some(42)).await.unwrap();
    let look = |order: u64, subject: (u64, &'static str)| {
        let idempotency = idempotency.clone();
        async move {
            let key = (order,);
            let found = idempotency.peek_subject("orders.submit", &key, &subject, "orders.form");
            found.await.unwrap()
        }
    };
    assert!(look(42, (8, "eu")).await.is_none());
    assert!(look(43, (7, "eu")).await.is_none());
    let refused = idempotency.peek("orders.submit", &(42,)).await.unwrap_err();
    assert_eq!(refused.code(), "invalid_policy");
    assert!(refused.to_string().contains("`peek_subject`"), "{refused}");
    assert!(
        idempotency
            .peek("orders.cancel", &(42,))
            .await
            .unwrap()
            .is_none()
    );
    let done = look(42, (7, "eu")).await.unwrap();
    assert!(idempotency.forget(&done).await.unwrap());
    assert!(look(42, (7, "eu")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn peek_token_refuses_an_invalid_token_without_a_command() {
    let store = CountingStore::new(MemoryStore::new());
    let events = Arc::new(AtomicUsize::new(0));
    let sink = Arc::clone(&events);
    let idempotency = Idempotency::builder(store.clone())
        .observer(move |_: &Event<'_>| {
            sink.fetch_add(1, Ordering::Relaxed);
        })
        .build()
        .unwrap();
    for (token, operation, code) in [
        ("four", "orders.form", "token_malformed"),
        (&*"0".repeat(64), "a\nb", "invalid_key"),
    ] {
        let refused = idempotency.peek_token("orders.submit", token, &7, operation);
        let refused = refused.await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.endpoint()),
            (code, "orders.submit")
        );
    }
    assert_eq!(store.counts().total(), 0);
    assert_eq!(events.load(Ordering::Relaxed), 0);
}
