//! The text of each error, as a call or an operation returns it.

use std::fmt;
use std::future::pending;
use std::time::Duration;

use idempotence::testkit::{Fault, FaultyStore};
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::private::{Call, Endpoint, Refusal};
use idempotent_runtime::{Error, Idempotency, MemoryStore, Policy, Release, Store, StoreErrorKind};
use tokio::time::timeout;

use crate::protocol::guarded::secs;

const ENDPOINT: &str = "orders.pay";
const TTL: Duration = secs(60);

struct Shop {
    store: FaultyStore<MemoryStore>,
    idempotency: Idempotency,
}

impl Shop {
    fn new() -> Self {
        let store = FaultyStore::new(MemoryStore::new());
        let idempotency = Idempotency::new(store.clone());
        Self { store, idempotency }
    }

    async fn pay(&self, id: u64) -> Error {
        let call = self.idempotency.call(ENDPOINT).key(&id).ttl(TTL);
        let call = call.run(async { Ok::<_, Error>(()) });
        call.await.expect_err("the call must fail")
    }

    async fn succeed(&self, id: u64) {
        let call = self.idempotency.call(ENDPOINT).key(&id).ttl(TTL);
        let call = call.run(async { Ok::<_, Error>(()) });
        call.await.expect("the call must succeed");
    }

    /// Begins a call that never ends, and forgets it.
    async fn begin(&self, id: u64, release: Release) {
        let call = self.idempotency.call(ENDPOINT).key(&id).ttl(TTL);
        let call = call.release(release).run(pending::<Result<(), Error>>());
        timeout(secs(1), call)
            .await
            .expect_err("the call must not end");
    }
}

/// A key part that cannot be serialized.
struct Broken;

impl serde::Serialize for Broken {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("the secret is 4711"))
    }
}

/// The text of the error. `<key>` replaces the digits of the key of `id`, and `<time>` replaces durations.
fn plain(error: &Error, id: u64) -> String {
    let key = Fingerprint::of(&(id,)).expect("a number is a key part");
    let text = error.to_string();
    let text = text.replace(&format!("{}…", &key.to_string()[..8]), "<key>");
    let words = text.split(' ').map(|word| {
        let (word, rest) = word.split_at(word.find([',', ';', ')']).unwrap_or(word.len()));
        let is_time = word.starts_with(|char: char| char.is_ascii_digit())
            && word.ends_with(['s', 'm', 'h', 'd']);
        format!("{}{rest}", if is_time { "<time>" } else { word })
    });
    words.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(error: &Error, code: &str, expected: impl fmt::Display) {
    assert_eq!(error.code(), code, "{error}");
    assert_eq!(plain(error, 1), expected.to_string());
}

#[tokio::test(start_paused = true)]
async fn the_texts_of_duplicates() {
    let shop = Shop::new();
    shop.begin(1, Release::OnError).await;
    check(
        &shop.pay(1).await,
        "in_progress",
        "call of `orders.pay` with key <key>: refused because an equal call has been running for <time>; \
         try again in <time> (its lease ends in <time> unless it is renewed)",
    );

    let shop = Shop::new();
    shop.succeed(1).await;
    check(
        &shop.pay(1).await,
        "already_done",
        "call of `orders.pay` with key <key>: refused because an equal call succeeded <time> ago; \
         do not repeat it (the key is free in <time>)",
    );

    let shop = Shop::new();
    shop.begin(1, Release::Never).await;
    let call = shop.idempotency.call(ENDPOINT).key(&1_u64).ttl(TTL);
    let call = call
        .release(Release::Never)
        .run(async { Ok::<_, Error>(()) });
    check(
        &call.await.expect_err("a duplicate"),
        "taken",
        "call of `orders.pay` with key <key>: refused because an equal call was made <time> ago, which may be running or have ended; \
         do not repeat it (the key is free in <time>)",
    );
}

#[tokio::test(start_paused = true)]
async fn the_text_of_another_payload_and_of_a_lost_result() {
    let shop = Shop::new();
    let call = |payload: &str, result: &str| {
        let result = result.to_owned();
        let call = shop.idempotency.call(ENDPOINT).key(&1_u64).payload(payload);
        let call = call.ttl(TTL).replay();
        call.run(async move { Ok::<_, Error>(result) })
    };
    call("A", &"x".repeat(2_000_000))
        .await
        .expect("the call must succeed");
    check(
        &call("B", "").await.expect_err("another payload"),
        "payload_mismatch",
        "call of `orders.pay` with key <key>: refused because the key was used with another payload <time> ago; \
         use a new key for a new request",
    );
    check(
        &call("A", "").await.expect_err("the result is lost"),
        "result_unavailable",
        "call of `orders.pay` with key <key>: refused because an equal call succeeded <time> ago, \
         and its result cannot be returned because it was too large to be kept, or the store had no room for it; read what it wrote",
    );
}

#[tokio::test(start_paused = true)]
async fn the_texts_of_a_store_that_fails() {
    let shop = Shop::new();
    for (kind, code, reason, advice) in [
        (
            StoreErrorKind::NotApplied,
            "store_unavailable",
            "refused the operation",
            "try again later",
        ),
        (
            StoreErrorKind::Full,
            "store_unavailable",
            "is full",
            "try again later",
        ),
        (
            StoreErrorKind::Misconfigured,
            "store_misconfigured",
            "is not set up for this operation",
            "`Idempotency::doctor` names what to change",
        ),
    ] {
        shop.store.always_all(Fault::Fail(kind));
        let so = "so the call was refused and its body did not run";
        check(
            &shop.pay(1).await,
            code,
            format_args!("call of `orders.pay` with key <key>: the store {reason}, {so}; {advice}"),
        );
        let counter = shop.idempotency.counter("logins", 1, TTL);
        check(
            &counter
                .expect("a counter")
                .attempt(&1_u64)
                .await
                .expect_err("no answer"),
            code,
            format_args!(
                "counter `logins` with key <key>: the store {reason}, so the operation failed; {advice}"
            ),
        );
        shop.store.heal();
    }
}

#[tokio::test(start_paused = true)]
async fn the_texts_of_a_foreign_record_a_lost_lease_and_a_limit() {
    let shop = Shop::new();
    let key = Fingerprint::of(&(1_u64,)).expect("a number is a key part");
    let key = format!("idem:{ENDPOINT}:{key}");
    let foreign = "foreign!".as_bytes().to_vec().into();
    shop.store
        .claim(&key, &foreign, TTL)
        .await
        .expect("an answer");
    check(
        &shop.pay(1).await,
        "foreign_record",
        "call of `orders.pay` with key <key>: refused because the key holds 8 bytes of text, which this version did not write; \
         remove the key, or choose another `prefix` of the handle",
    );

    let shop = Shop::new();
    let call = shop.idempotency.call(ENDPOINT).key(&1_u64).ttl(TTL);
    let store = shop.store.clone();
    let call = call.run(async {
        store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
        pending::<Result<(), Error>>().await
    });
    let error = call.await.expect_err("the lease is lost");
    check(
        &error,
        "lease_lost",
        "call of `orders.pay` with key <key>: the lease was lost because it was not renewed in time, \
         so the body was stopped and its work may be done or not; check what it did before you repeat the call",
    );

    let shop = Shop::new();
    let counter = shop
        .idempotency
        .counter("logins", 1, TTL)
        .expect("a counter");
    counter.attempt(&1_u64).await.expect("the first");
    check(
        &counter.attempt(&1_u64).await.expect_err("the second"),
        "limit_reached",
        "counter `logins` with key <key>: refused because this is attempt 2 and the limit is 1; \
         try again in <time>, when the window ends",
    );
}

#[tokio::test(start_paused = true)]
async fn no_text_of_a_mistake_quotes_an_argument() {
    let shop = Shop::new();
    let call = shop.idempotency.call(ENDPOINT).key(&Broken).ttl(TTL);
    let broken = call.run(async { Ok::<_, Error>(()) });
    let call = shop.idempotency.call(ENDPOINT).key(&1_u64);
    let call = call.ttl(Duration::ZERO);
    let no_ttl = call.run(async { Ok::<_, Error>(()) });
    let policy = Policy::new(TTL);
    let not_installed = Call::new(Endpoint::named(ENDPOINT), policy, None).claim();
    let not_installed = not_installed.await.map_err(Refusal::into_error);
    let redeem = shop.idempotency.tokens();
    let malformed = redeem.redeem("a secret", &1_u64, ENDPOINT).await;
    let digits = "0".repeat(64);
    let unknown = redeem.redeem(&digits, &1_u64, ENDPOINT).await;
    let token = redeem.issue(&1_u64, ENDPOINT, TTL).await.expect("a token");
    redeem
        .redeem(token.as_ref(), &1_u64, ENDPOINT)
        .await
        .expect("the first");
    let used = redeem.redeem(token.as_ref(), &1_u64, ENDPOINT).await;
    let errors = [
        ("invalid_key", broken.await.expect_err("no key")),
        ("invalid_policy", no_ttl.await.expect_err("a ttl of zero")),
        ("not_installed", not_installed.expect_err("no handle")),
        ("token_malformed", malformed.expect_err("no token")),
        ("token_unknown", unknown.expect_err("unknown")),
        ("token_used", used.expect_err("used")),
    ];
    for (code, error) in errors {
        let text = error.to_string();
        assert_eq!(error.code(), code, "{text}");
        let subject = if code.starts_with("token") {
            "token for"
        } else {
            "call of"
        };
        assert!(
            text.starts_with(&format!("{subject} `orders.pay`")),
            "{text}"
        );
        let digits = text.contains(" with key ");
        assert_eq!(
            digits,
            matches!(code, "invalid_policy" | "token_unknown" | "token_used"),
            "{text}"
        );
        for foreign in ["4711", "a secret", token.as_ref(), "\n"] {
            assert!(!text.contains(foreign), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_of_an_operation_names_its_mechanism() {
    let shop = Shop::new();
    let handle = &shop.idempotency;
    shop.begin(1, Release::OnError).await;
    let held = handle.peek(ENDPOINT, &(1_u64,)).await.expect("an answer");
    let held = held.expect("the record of the running call");
    let tokens = handle.tokens();
    let set = handle.seen_set("mails", TTL).expect("a set");
    let filter = handle.bloom("urls", 1000, 0.01, TTL).expect("a filter");
    shop.store.always_all(Fault::Fail(StoreErrorKind::Full));
    let so = "the store is full, so the operation failed; try again later";
    for (error, site) in [
        (
            tokens.issue(&1_u64, ENDPOINT, TTL).await.map(drop),
            "token for `orders.pay` with key <key>",
        ),
        (
            set.first_time(&1_u64).await.map(drop),
            "seen-set `mails` with key <key>",
        ),
        (
            filter.hint(&1_u64).await.map(drop),
            "Bloom filter `urls` with key <key>",
        ),
        (filter.stats().await.map(drop), "Bloom filter `urls`"),
        (
            handle.peek(ENDPOINT, &(1_u64,)).await.map(drop),
            "peek of `orders.pay` with key <key>",
        ),
        (
            handle.forget(&held).await.map(drop),
            "forget of `orders.pay` with key <key>",
        ),
    ] {
        let error = error.expect_err("the store is full");
        assert_eq!(without_key(&error), format!("{site}: {so}"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_mistake_names_its_mechanism() {
    let handle = Shop::new().idempotency;
    let tokens = handle.tokens();
    let set = handle.seen_set("mails", TTL).expect("a set");
    let expired = Duration::ZERO;
    for (error, start) in [
        (
            handle.peek("a b", &(1_u64,)).await.map(drop),
            "peek of `?`: `a b` cannot name an endpoint: it has the character ' '",
        ),
        (
            tokens.issue(&1_u64, "a b", TTL).await.map(drop),
            "token for `?`: `a b` cannot name an endpoint: it has the character ' '",
        ),
        (
            tokens.issue(&1_u64, ENDPOINT, expired).await.map(drop),
            "token for `orders.pay`: the `ttl` of a token must be",
        ),
        (
            handle.peek(ENDPOINT, &(Broken,)).await.map(drop),
            "peek of `orders.pay`: a part of the key could not be serialized",
        ),
        (
            set.first_time(&Broken).await.map(drop),
            "seen-set `mails`: the member of the set could not be serialized",
        ),
    ] {
        let text = error.expect_err("a mistake").to_string();
        assert!(text.starts_with(start), "{text}");
    }
}

/// The text of an error with `<key>` instead of the digits of any key.
fn without_key(error: &Error) -> String {
    let text = error.to_string();
    let Some((before, after)) = text.split_once(" with key ") else {
        return text;
    };
    let (digits, after) = after.split_at(8);
    assert!(
        digits.chars().all(|digit| digit.is_ascii_hexdigit()),
        "{text}"
    );
    let after = after.strip_prefix('…').expect(&text);
    format!("{before} with key <key>{after}")
}
