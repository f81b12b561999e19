//! Stores around stores forward every operation: the wrapper of the contract, shared stores, and the stores of the test kit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use idempotence::testkit::{CountingStore, FaultyStore};
use idempotent_runtime::store::{
    BloomFilter, Claim, ClaimAll, ClaimAny, Count, Cursor, Entry, FencedClaim, Finding, Level,
    LocalStore, Page, Swap, Wrap, async_trait,
};
use idempotent_runtime::{
    BloomStats, Durability, Hint, MemoryStore, Store, StoreError, StoreErrorKind,
};
use tokio::sync::watch;

/// A store that only records its operations. Each operation has a distinct answer.
#[derive(Debug, Default, Clone)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, sent: String) {
        self.0.lock().unwrap().push(sent);
    }

    fn taken(&self, operation: &str, sent: &str) -> Claim {
        self.note(format!("{operation} {sent}"));
        Claim::Taken(Bytes::from(operation.to_owned()))
    }

    fn other(&self, operation: &str, sent: &str) -> Swap {
        self.note(format!("{operation} {sent}"));
        Swap::Other(Bytes::from(operation.to_owned()))
    }
}

#[deny(clippy::missing_trait_methods, reason = "it notes every operation")]
#[async_trait]
impl Store for Recorder {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        Ok(self.taken("claim", &format!("{key} {value:?} {ttl:?}")))
    }

    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        self.note(format!("claim_all {claims:?} {ttl:?}"));
        Ok(ClaimAll::Taken(7, Bytes::from_static(b"claim_all")))
    }

    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        self.note(format!("claim_any {claims:?} {ttl:?}"));
        Ok(ClaimAny::Claimed(7))
    }

    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        self.note(format!("claim_fenced {key} {fence_key} {value:?} {ttl:?}"));
        Ok(FencedClaim::Taken(Bytes::from_static(b"claim_fenced")))
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        Ok(self.other("replace", &format!("{key} {expected:?} {value:?} {ttl:?}")))
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        Ok(self.other("remove", &format!("{key} {expected:?}")))
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.note(format!("get {key}"));
        Ok(Some(Entry {
            value: Bytes::from_static(b"get"),
            ttl: None,
        }))
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let sent = format!("{key} {expected:?} {value:?} {ttl:?}");
        Ok(self.other("replace_and_notify", &sent))
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        Ok(self.other("remove_and_notify", &format!("{key} {expected:?}")))
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.note(format!("subscribe {key}"));
        Some(watch::Sender::new(()).subscribe())
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        Ok(self.other("exchange", &format!("{key} {expected:?} {value:?}")))
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        self.note(format!("count {key} {attempt} {window:?}"));
        Ok(Count {
            attempt: 7,
            remaining: window,
        })
    }

    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        Ok(self.taken(
            "set_insert",
            &format!("{set} {member:?} {owner:?} {retention:?}"),
        ))
    }

    async fn set_remove(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        let arguments = format!("{set} {member:?} {owner:?} {retention:?}");
        Ok(self.other("set_remove", &arguments))
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        self.note(format!("bloom_insert {filter:?} {member:?}"));
        Ok(Hint::Unseen)
    }

    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        self.note(format!("bloom_stats {filter:?}"));
        Err(StoreError::new(StoreErrorKind::Full, "bloom_stats"))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Page>, StoreError> {
        self.note(format!("list {prefix} {after:?} {most}"));
        let next = Some(Cursor::new("next"));
        Ok(Some(Page {
            records: Vec::new(),
            next,
        }))
    }

    fn notes_unsent(&self) -> bool {
        self.note("notes_unsent".to_owned());
        true
    }

    fn local(&self) -> Option<&dyn LocalStore> {
        self.note("local".to_owned());
        None
    }

    fn durability(&self) -> Durability {
        self.note("durability".to_owned());
        Durability::Fsync
    }

    fn expiry_slack(&self, ttl: Duration) -> Duration {
        self.note(format!("expiry_slack {ttl:?}"));
        ttl / 2
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        self.note(format!("examine {key} {deadline:?}"));
        vec![Finding::new(Level::Note, "examined")]
    }

    fn longest_record(&self, bytes: usize) {
        self.note(format!("longest_record {bytes}"));
    }
}

/// The answers of a store to all operations, and the operations that its inner recorder received.
#[derive(Debug, PartialEq)]
struct Recording {
    answers: Vec<String>,
    sent: Vec<String>,
}

impl Recording {
    async fn of(store: &dyn Store, recorder: &Recorder) -> Self {
        let (expected, value) = (&Bytes::from("expected"), &Bytes::from("value"));
        let (member, filter) = (b"member", &filter());
        let second = Duration::from_secs(1);
        store.longest_record(400);
        let answers = vec![
            format!("{:?}", store.claim("k1", value, second).await),
            format!("{:?}", store.claim_fenced("k1", "f1", value, second).await),
            format!(
                "{:?}",
                store
                    .claim_all(&[("k1", value), ("k2", expected)], second)
                    .await
            ),
            format!(
                "{:?}",
                store
                    .claim_any(&[("k1", value), ("k2", expected)], second)
                    .await
            ),
            format!("{:?}", store.replace("k2", expected, value, second).await),
            format!("{:?}", store.remove("k3", expected).await),
            format!("{:?}", store.get("k4").await),
            format!(
                "{:?}",
                store
                    .replace_and_notify("k5", expected, value, second)
                    .await
            ),
            format!("{:?}", store.remove_and_notify("k6", expected).await),
            format!("{:?}", store.subscribe("k7").await.is_some()),
            format!("{:?}", store.exchange("k8", expected, value).await),
            format!("{:?}", store.count("k9", 3, second).await),
            format!("{:?}", store.set_insert("s1", member, value, second).await),
            format!("{:?}", store.set_remove("s2", member, value, second).await),
            format!("{:?}", store.bloom_insert(filter, member).await),
            format!("{:?}", store.bloom_stats(filter).await),
            format!("{:?}", store.list("k11", Some(&Cursor::new("c")), 9).await),
            format!("{:?}", store.durability()),
            format!("{:?}", store.expiry_slack(second)),
            format!("{:?}", store.examine("k10", second).await),
        ];
        let sent = recorder.0.lock().unwrap().drain(..).collect();
        Self { answers, sent }
    }

    /// The operations that reached the inner store.
    fn operations(&self) -> Vec<&str> {
        let first_words = self.sent.iter().filter_map(|sent| sent.split(' ').next());
        first_words.collect()
    }
}

fn filter() -> BloomFilter {
    BloomFilter {
        key: "filter".to_owned(),
        capacity: 10,
        error_rate: 0.01,
        retention: Duration::from_secs(1),
    }
}

/// Overrides nothing.
#[derive(Debug)]
struct Plain<S: ?Sized>(Box<S>);

impl<S: Store + ?Sized> Wrap for Plain<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.0
    }
}

#[tokio::test]
async fn a_wrapper_without_overrides_forwards_every_operation() {
    let recorder = Recorder::default();
    let direct = Recording::of(&recorder, &recorder).await;
    let inside = || recorder.clone();
    let stores: Vec<(&str, Box<dyn Store>)> = vec![
        ("a wrapper", Box::new(Plain(Box::new(inside())))),
        (
            "of a trait object",
            Box::new(Plain::<dyn Store>(Box::new(inside()))),
        ),
        (
            "in a wrapper",
            Box::new(Plain(Box::new(Plain(Box::new(inside()))))),
        ),
        ("shared", Box::new(Arc::new(inside()))),
        (
            "a shared trait object",
            Box::new(Arc::new(inside()) as Arc<dyn Store>),
        ),
        ("counting", Box::new(CountingStore::new(inside()))),
        ("faulty", Box::new(FaultyStore::new(inside()))),
    ];
    for (what, store) in stores {
        assert_eq!(Recording::of(&*store, &recorder).await, direct, "{what}");
    }
}

/// Forwards the four required operations, and does not forward the others.
#[derive(Debug)]
struct Forgetful(Recorder);

#[async_trait]
impl Store for Forgetful {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.0.claim(key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.0.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.0.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.0.get(key).await
    }
}

#[tokio::test]
async fn a_store_that_forgets_to_forward_is_found() {
    let recorder = Recorder::default();
    let direct = Recording::of(&recorder, &recorder).await;
    let recording = Recording::of(&Forgetful(recorder.clone()), &recorder).await;
    let (reached, all) = (recording.operations(), direct.operations());
    let forgotten = all.iter().filter(|operation| !reached.contains(operation));
    assert_eq!(forgotten.count(), all.len() - 4, "{reached:?}");
}

/// The names of the operations as the source of the contract declares them.
fn declared() -> Vec<&'static str> {
    let source = include_str!("../../idempotent-runtime/src/store/contract.rs");
    let (_, body) = source.split_once("pub trait Store").expect("the trait");
    let (body, _) = body.split_once("\n}\n").expect("its end");
    let declarations = body.lines().filter_map(|line| {
        let line = line.strip_prefix("    ")?;
        line.strip_prefix("async fn ").or(line.strip_prefix("fn "))
    });
    declarations
        .filter_map(|declaration| declaration.split(['(', '<']).next())
        .collect()
}

#[tokio::test]
async fn no_operation_of_the_contract_is_missing_here() {
    let recorder = Recorder::default();
    let recording = Recording::of(&recorder, &recorder).await;
    let (mut sent, mut declared) = (recording.operations(), declared());
    // What a wrapper must not forward.
    declared.retain(|operation| !["local", "notes_unsent"].contains(operation));
    sent.sort_unstable();
    declared.sort_unstable();
    assert_eq!(sent, declared);
}

#[test]
fn no_wrapper_is_bypassed_by_calls_that_need_no_future() {
    let memory = MemoryStore::new;
    let wrappers: Vec<Box<dyn Store>> = vec![
        Box::new(Plain(Box::new(memory()))),
        Box::new(Plain::<dyn Store>(Box::new(memory()))),
        Box::new(Arc::new(Plain(Box::new(memory())))),
        Box::new(Refusing(memory())),
        Box::new(CountingStore::new(memory())),
        Box::new(FaultyStore::new(memory())),
    ];
    for store in wrappers {
        assert!(store.local().is_none(), "{store:?}");
    }
    let shared: Arc<dyn Store> = Arc::new(memory());
    assert!(shared.local().is_some() && Arc::new(shared).local().is_some());
}

/// Overrides one operation.
#[derive(Debug)]
struct Refusing<S>(S);

#[async_trait]
impl<S: Store> Wrap for Refusing<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.0
    }

    async fn claim(&self, key: &str, _: &Bytes, _: Duration) -> Result<Claim, StoreError> {
        Ok(Claim::Taken(Bytes::from(key.to_owned())))
    }
}

#[tokio::test]
async fn only_operations_without_override_are_forwarded() {
    let (value, minute) = (Bytes::from("value"), Duration::from_mins(1));
    let store = Refusing(MemoryStore::new());
    let claim = Store::claim(&store, "key", &value, minute).await;
    assert_eq!(claim.unwrap(), Claim::Taken(Bytes::from("key")));
    assert!(Store::get(&store, "key").await.unwrap().is_none());
    store.0.claim("key", &value, minute).await.unwrap();
    let shared: Arc<dyn Store> = Arc::new(store);
    let swap = shared.remove_and_notify("key", &value).await;
    assert_eq!(swap.unwrap(), Swap::Done);
}
