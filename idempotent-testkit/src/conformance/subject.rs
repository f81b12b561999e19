//! The store under test, with keys that no other case uses.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{
    BloomFilter, BloomStats, Claim, ClaimAll, ClaimAny, Count, Cursor, Entry, FencedClaim, Hint,
    Page, Store, StoreError, StoreErrorKind, Swap,
};
use tokio::sync::{Barrier, watch};
use tokio::task::JoinSet;

use crate::op::with_operations;

/// `Err` says what the store did and what it must do.
pub(super) type Verdict = Result<(), String>;

/// Longer than any case runs.
pub(super) const LONG: Duration = Duration::from_mins(10);
/// Longer than any case runs, and so different from [`LONG`] that even a store that counts in minutes distinguishes them.
pub(super) const LONGER: Duration = Duration::from_mins(100);

/// A store may count in whole seconds, and the machine may be busy.
const TOO_LATE: Duration = Duration::from_secs(5);

/// Enough for all keys of a server that many tests share.
pub(super) const MOST_PAGES: u32 = 20_000;

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

    /// The same store, with keys that no other attempt of the case has used.
    pub(super) fn with_new_keys(&self) -> Self {
        Self::new(Arc::clone(&self.store))
    }

    /// Returns the same key for the same `name`, but another key in each run of each case.
    pub(super) fn key(&self, name: impl fmt::Display) -> String {
        format!("conformance:{:032x}:{name}", self.run)
    }

    /// Claims all keys by these values. `None`: the store does not claim them together.
    pub(super) async fn claim_all(
        &self,
        claims: &[(String, Bytes)],
        ttl: Duration,
    ) -> Result<Option<ClaimAll>, String> {
        let claims = claims.iter().map(|(key, value)| (&**key, value));
        let claims: Vec<_> = claims.collect();
        match self.store.claim_all(&claims, ttl).await {
            Ok(ClaimAll::NotTogether) => Ok(None),
            Ok(answer) => Ok(Some(answer)),
            Err(error) => Err(failed("claim_all", &error)),
        }
    }

    /// Claims the first free key by its value. `None`: the store does not look at the keys together.
    pub(super) async fn claim_any(
        &self,
        claims: &[(String, Bytes)],
        ttl: Duration,
    ) -> Result<Option<ClaimAny>, String> {
        let claims = claims.iter().map(|(key, value)| (&**key, value));
        let claims: Vec<_> = claims.collect();
        match self.store.claim_any(&claims, ttl).await {
            Ok(ClaimAny::NotTogether) => Ok(None),
            Ok(answer) => Ok(Some(answer)),
            Err(error) => Err(failed("claim_any", &error)),
        }
    }

    /// As [`claim`](Self::claim), with the kind of its error.
    pub(super) async fn try_claim(
        &self,
        key: &str,
        value: &Bytes,
    ) -> Result<Claim, StoreErrorKind> {
        let answer = self.store.claim(key, value, LONG).await;
        answer.map_err(|error| error.kind())
    }

    /// As [`claim_fenced`](Self::claim_fenced), with the kind of its error.
    pub(super) async fn try_claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
    ) -> Result<FencedClaim, StoreErrorKind> {
        let answer = self.store.claim_fenced(key, fence_key, value, LONG).await;
        answer.map_err(|error| error.kind())
    }

    /// Inserts a number as a member of a Bloom filter.
    pub(super) async fn insert_number(
        &self,
        filter: &BloomFilter,
        number: u32,
    ) -> Result<Hint, String> {
        self.bloom_insert(filter, &number.to_be_bytes()).await
    }

    pub(super) async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.store.subscribe(key).await
    }

    /// A page of about ten records. `None` if the store cannot list.
    pub(super) async fn page(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
    ) -> Result<Option<Page>, String> {
        let page = self.store.list(prefix, after, 10).await;
        page.map_err(|error| failed("list", &error))
    }

    /// The keys of all records with this prefix. `None` if the store cannot list.
    pub(super) async fn list(&self, prefix: &str) -> Result<Option<BTreeSet<String>>, String> {
        let (mut keys, mut after) = (BTreeSet::new(), None);
        for _ in 0..MOST_PAGES {
            let Some(page) = self.page(prefix, after.as_ref()).await? else {
                return Ok(None);
            };
            keys.extend(page.records.into_iter().map(|record| record.key));
            let Some(next) = page.next else {
                return Ok(Some(keys));
            };
            after = Some(next);
        }
        Err(never_ends())
    }

    /// Stores `value` under a free key.
    pub(super) async fn put(&self, key: &str, value: &Bytes, ttl: Duration) -> Verdict {
        let claim = self.claim(key, value, ttl).await?;
        expect_answer("`claim` of a free key", &claim, &Claim::Claimed)
    }

    /// Checks that `value` is stored under `key`. Returns its remaining time to live.
    pub(super) async fn expect_stored(&self, key: &str, value: &Bytes) -> Result<Duration, String> {
        let entry = self.get(key).await?;
        let Some(Entry { value: found, ttl }) = entry else {
            let value = short(value);
            return Err(format!("`get` returned None, but must return {value}"));
        };
        expect_answer("`get`", &found, value)?;
        ttl.ok_or_else(|| "`get` returned no time to live, but every record must expire".to_owned())
    }

    /// Checks that nothing is stored under `key`.
    pub(super) async fn expect_free(&self, key: &str) -> Verdict {
        expect_answer("`get`", &self.get(key).await?, &None)
    }

    /// Checks that the time that the store reports as remaining is about `ttl`.
    pub(super) fn expect_ttl(&self, remaining: Duration, ttl: Duration) -> Verdict {
        // A case ends long before half of `ttl` has passed. A store may count in seconds, rounded up.
        let most = ttl + Duration::from_secs(2) + self.store.expiry_slack(ttl);
        if ttl / 2 < remaining && remaining <= most {
            return Ok(());
        }
        Err(format!(
            "the store reported that the record or window lasts {remaining:?} more, but it must last about {ttl:?}"
        ))
    }

    /// How long after its time to live a record must be gone. The machine may be busy.
    pub(super) fn too_late(&self, ttl: Duration) -> Duration {
        TOO_LATE + self.store.expiry_slack(ttl)
    }

    /// Runs `race` for all `racers` at the same time. Returns their answers in the order of the racers.
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

/// The operations, whose errors are mistakes of the store.
macro_rules! succeed {
    ($($operation:ident $op:ident($($given:ident: &$type:ty),+; $($value:ident: $plain:ty),*) -> $answer:ty;)+) => {
        impl Subject {
            $(
                pub(super) async fn $operation(&self, $($given: &$type,)+ $($value: $plain),*) -> Result<$answer, String> {
                    let answer = self.store.$operation($($given,)+ $($value),*).await;
                    answer.map_err(|error| failed(stringify!($operation), &error))
                }
            )+
        }
    };
}

with_operations!(succeed);

pub(super) fn never_ends() -> String {
    format!("a listing did not end within {MOST_PAGES} pages of ten records")
}

/// Checks the answer of an operation. `what` names the operation in the message.
pub(super) fn expect_answer<T: PartialEq + fmt::Debug>(
    what: &str,
    found: &T,
    expected: &T,
) -> Verdict {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (short(found), short(expected));
    Err(format!(
        "{what} returned {found}, but must return {expected}"
    ))
}

fn failed(operation: &str, error: &StoreError) -> String {
    format!("`{operation}` returned an error, but must succeed: {error:?}")
}

fn short(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    if text.chars().count() <= 200 {
        return text;
    }
    text.chars().take(200).chain("…".chars()).collect()
}
