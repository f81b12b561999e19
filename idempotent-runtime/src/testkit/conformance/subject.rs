//! The store that a case asks, with keys that no other case uses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Barrier, watch};
use tokio::task::JoinSet;

use crate::store::{BloomFilter, BloomStats, Claim, Count, Entry, Hint, Store, StoreError, Swap};

/// What went wrong, if something did.
pub(super) type Verdict = Result<(), String>;

/// Lives longer than any case runs.
pub(super) const LONG: Duration = Duration::from_mins(10);
/// Longer than any case runs, too, and told apart from [`LONG`] by any store.
pub(super) const LONGER: Duration = Duration::from_mins(100);

#[derive(Clone)]
pub(super) struct Subject {
    store: Arc<dyn Store>,
    run: u128,
}

impl Subject {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        let run = rand::random();
        Self { store, run }
    }

    /// The same key for the same `name`, in this run of this case only.
    pub(super) fn key(&self, name: impl fmt::Display) -> String {
        format!("conformance:{:032x}:{name}", self.run)
    }

    pub(super) async fn claim(
        &self,
        key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Claim, String> {
        let answer = self.store.claim(key, value, ttl).await;
        answer.map_err(|error| failed("claim", &error))
    }

    pub(super) async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, String> {
        let answer = self.store.replace(key, expected, value, ttl).await;
        answer.map_err(|error| failed("replace", &error))
    }

    pub(super) async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, String> {
        let answer = self.store.remove(key, expected).await;
        answer.map_err(|error| failed("remove", &error))
    }

    pub(super) async fn get(&self, key: &str) -> Result<Option<Entry>, String> {
        let answer = self.store.get(key).await;
        answer.map_err(|error| failed("get", &error))
    }

    pub(super) async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, String> {
        let answer = self
            .store
            .replace_and_notify(key, expected, value, ttl)
            .await;
        answer.map_err(|error| failed("replace_and_notify", &error))
    }

    pub(super) async fn remove_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
    ) -> Result<Swap, String> {
        let answer = self.store.remove_and_notify(key, expected).await;
        answer.map_err(|error| failed("remove_and_notify", &error))
    }

    pub(super) async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, String> {
        let answer = self.store.exchange(key, expected, value).await;
        answer.map_err(|error| failed("exchange", &error))
    }

    pub(super) async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.store.subscribe(key).await
    }

    pub(super) async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, String> {
        let answer = self.store.set_insert(set, member, owner, retention).await;
        answer.map_err(|error| failed("set_insert", &error))
    }

    pub(super) async fn set_remove(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, String> {
        let answer = self.store.set_remove(set, member, owner, retention).await;
        answer.map_err(|error| failed("set_remove", &error))
    }

    pub(super) async fn count(
        &self,
        key: &str,
        attempt: u128,
        window: Duration,
    ) -> Result<Count, String> {
        let answer = self.store.count(key, attempt, window).await;
        answer.map_err(|error| failed("count", &error))
    }

    pub(super) async fn bloom_insert(
        &self,
        filter: &BloomFilter,
        member: u32,
    ) -> Result<Hint, String> {
        let answer = self.store.bloom_insert(filter, &member.to_be_bytes()).await;
        answer.map_err(|error| failed("bloom_insert", &error))
    }

    pub(super) async fn bloom_stats(
        &self,
        filter: &BloomFilter,
    ) -> Result<Option<BloomStats>, String> {
        let answer = self.store.bloom_stats(filter).await;
        answer.map_err(|error| failed("bloom_stats", &error))
    }

    /// Puts `value` under a key that is free.
    pub(super) async fn put(&self, key: &str, value: &Bytes, ttl: Duration) -> Verdict {
        let claim = self.claim(key, value, ttl).await?;
        same("claim of a free key", &claim, &Claim::Claimed)
    }

    /// Checks that `value` stands under `key`, and returns how long it will.
    pub(super) async fn stands(&self, key: &str, value: &Bytes) -> Result<Duration, String> {
        let entry = self.get(key).await?;
        let Some(Entry { value: found, ttl }) = entry else {
            return Err(format!("get: nothing, instead of {}", short(value)));
        };
        same("get", &found, value)?;
        ttl.ok_or_else(|| "get: the record never expires".to_owned())
    }

    /// Checks that nothing stands under `key`.
    pub(super) async fn is_free(&self, key: &str) -> Verdict {
        same("get", &self.get(key).await?, &None)
    }

    /// Lets `racers` do the same at the same time; what each was answered, in their order.
    pub(super) async fn race<T, F, R>(&self, racers: usize, race: F) -> Result<Vec<T>, String>
    where
        T: Send + 'static,
        F: Fn(Self, usize) -> R,
        R: Future<Output = Result<T, String>> + Send + 'static,
    {
        let start = Arc::new(Barrier::new(racers));
        let mut running = JoinSet::new();
        for racer in 0..racers {
            let (start, racing) = (Arc::clone(&start), race(self.clone(), racer));
            running.spawn(async move {
                start.wait().await;
                (racer, racing.await)
            });
        }
        let mut answers = running.join_all().await;
        answers.sort_by_key(|(racer, _)| *racer);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

/// Checks that an answer is the right one.
pub(super) fn same<T: PartialEq + fmt::Debug>(what: &str, found: &T, expected: &T) -> Verdict {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (short(found), short(expected));
    Err(format!("{what}: {found}, instead of {expected}"))
}

/// Checks that a record stands for about `ttl` still, by what the store says.
pub(super) fn stands_for(left: Duration, ttl: Duration) -> Verdict {
    // The suite is over long before half the time; a store may count in seconds, rounded up.
    let right = ttl / 2 < left && left <= ttl + Duration::from_secs(2);
    let wrong = || format!("get: the record stands for {left:?}, instead of {ttl:?}");
    if right { Ok(()) } else { Err(wrong()) }
}

fn failed(operation: &str, error: &StoreError) -> String {
    format!("{operation}: {error:?}")
}

fn short(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    if text.chars().count() <= 200 {
        return text;
    }
    text.chars().take(200).chain("…".chars()).collect()
}
