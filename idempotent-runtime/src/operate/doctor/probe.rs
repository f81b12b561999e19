//! A store tried out with one record: whether each operation works, how long it takes, and how the record expires.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};

use crate::policy::deadline::first_try;
use crate::store::{Claim, Entry, Finding, Level, Store, StoreError, StoreErrorKind, Swap};

static CLAIM: Bytes = Bytes::from_static(b"claim of the doctor");
static OTHER: Bytes = Bytes::from_static(b"claim of another doctor");
static DONE: Bytes = Bytes::from_static(b"done by the doctor");
const TTL: Duration = Duration::from_mins(1);
const ROUNDS: usize = 5;
const LONGEST_EXAMINATION: Duration = Duration::from_secs(5);
const A_WHILE: Duration = Duration::from_millis(300);
/// What the two clocks may differ by in a while, as by rounding.
const TOLERANCE: Duration = Duration::from_millis(20);

/// The store of a handle, and a key that no call has.
pub(super) struct Probe<'a> {
    store: &'a dyn Store,
    key: String,
    deadline: Duration,
}

impl<'a> Probe<'a> {
    pub(super) fn new(store: &'a dyn Store, key: String, deadline: Duration) -> Self {
        Self {
            store,
            key,
            deadline,
        }
    }

    /// Does what a call and its duplicates do, measures it, and removes the record.
    pub(super) async fn try_out(&self) -> Vec<Finding> {
        let findings = match self.use_it().await {
            Ok(took) => {
                let works = "every operation works: claim, renew, complete, remove, read";
                let works = Finding::new(Level::Fine, works);
                vec![works, self.latency(took), self.clock().await]
            }
            Err(finding) => vec![finding],
        };
        self.clean_up().await;
        findings
    }

    /// Asks the store how it is set up.
    pub(super) async fn examine(&self) -> Vec<Finding> {
        let examination = self.store.examine(&self.key, self.deadline);
        let longest = LONGEST_EXAMINATION.max(self.deadline);
        let findings = timeout(longest, examination).await.unwrap_or_else(|_| {
            let silent = format!("the store did not answer what it was asked within {longest:?}");
            vec![Finding::new(Level::Problem, silent)]
        });
        self.clean_up().await;
        findings
    }

    /// What a call does, and what its duplicates do. Returns how long claims took.
    async fn use_it(&self) -> Result<Vec<Duration>, Finding> {
        let (store, key) = (self.store, &*self.key);
        let mut took = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let claim = self.answer("claim", store.claim(key, &CLAIM, TTL)).await?;
            took.push(begun.elapsed());
            right("claim a free key", &claim, &Claim::Claimed)?;
            let again = self.answer("claim", store.claim(key, &CLAIM, TTL)).await?;
            right("claim an own key again", &again, &Claim::Claimed)?;
            let taken = self.answer("claim", store.claim(key, &OTHER, TTL)).await?;
            right("claim a taken key", &taken, &Claim::Taken(CLAIM.clone()))?;
            let renewal = store.replace(key, &CLAIM, &CLAIM, TTL);
            right("renew", &self.answer("renew", renewal).await?, &Swap::Done)?;
            let completion = store.replace_and_notify(key, &CLAIM, &DONE, TTL);
            let completion = self.answer("complete", completion).await?;
            right("complete", &completion, &Swap::Done)?;
            let standing = self.answer("read", store.get(key)).await?;
            let standing = standing.map(|entry| entry.value);
            right("read what was recorded", &standing, &Some(DONE.clone()))?;
            let other = self.answer("remove", store.remove(key, &CLAIM)).await?;
            right(
                "remove another's record",
                &other,
                &Swap::Other(DONE.clone()),
            )?;
            let removal = store.remove_and_notify(key, &DONE);
            let removal = self.answer("remove", removal).await?;
            right("remove", &removal, &Swap::Done)?;
        }
        Ok(took)
    }

    async fn answer<T>(
        &self,
        what: &str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Finding> {
        let answer = timeout(self.deadline, answer).await.unwrap_or_else(|_| {
            let late = format!("no answer within {:?}", self.deadline);
            Err(StoreError::new(StoreErrorKind::Unknown, late))
        });
        answer.map_err(|error| {
            let advice = match error.kind() {
                StoreErrorKind::Full => "make room, or give the store more memory",
                StoreErrorKind::Misconfigured => {
                    "do what the error says; if it says nothing, see to the credentials and permissions that the store is used with"
                }
                StoreErrorKind::Unknown | StoreErrorKind::NotApplied => {
                    "see whether the store runs, can be reached from here, and takes writes"
                }
            };
            let found = format!("cannot {what}: {}", chain(&error));
            Finding::new(Level::Problem, found).advise(advice)
        })
    }

    fn latency(&self, mut took: Vec<Duration>) -> Finding {
        took.sort_unstable();
        let median = took[took.len() / 2];
        let Self { deadline, .. } = self;
        let found = format!("a claim takes {median:.1?}, of a deadline of {deadline:?}");
        if median < first_try(*deadline) {
            Finding::new(Level::Fine, found)
        } else {
            Finding::new(Level::Warning, found)
                .advise("use a store that is nearer, or a longer deadline of the handle")
        }
    }

    /// Whether the store's clock goes as fast as the one here, by what is left of a record.
    async fn clock(&self) -> Finding {
        let look = async {
            let sent = Instant::now();
            let claim = self.store.claim(&self.key, &CLAIM, TTL);
            self.answer("claim", claim).await?;
            let put = Instant::now();
            sleep(A_WHILE).await;
            let asked = Instant::now();
            let entry = self.answer("read", self.store.get(&self.key)).await?;
            Ok((entry, asked - put, sent.elapsed()))
        };
        let (entry, least, most) = match look.await {
            Ok(look) => look,
            Err(finding) => return finding,
        };
        let Some(Entry {
            ttl: Some(left), ..
        }) = entry
        else {
            let found = "a record does not live as long as it was told to, or for ever";
            let advice = "do not use this store: it has to expire records by its own clock";
            return Finding::new(Level::Problem, found).advise(advice);
        };
        let passed = TTL.saturating_sub(left);
        if passed + TOLERANCE < least || passed > most + TOLERANCE || left > TTL {
            let found = format!(
                "{passed:?} of a record's time to live were over after {least:?} to {most:?} here: \
                 one of the clocks jumps, or goes wrong"
            );
            return Finding::new(Level::Warning, found)
                .advise("see to the time synchronisation of the store's host, and of this one");
        }
        Finding::new(Level::Fine, "the store's clock goes as the one here")
    }

    async fn clean_up(&self) {
        for value in [&CLAIM, &DONE] {
            let removal = self.store.remove(&self.key, value);
            // It ends by itself if this fails.
            let _ = timeout(self.deadline, removal).await;
        }
    }
}

fn right<T: PartialEq + fmt::Debug>(what: &str, answer: &T, expected: &T) -> Result<(), Finding> {
    if answer == expected {
        return Ok(());
    }
    let found = format!("to {what} was answered with {answer:?} instead of {expected:?}");
    let advice = "do not use this store: run the conformance suite of the feature `testkit` on it";
    Err(Finding::new(Level::Problem, found).advise(advice))
}

/// The error and what caused it, each once.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let told = error.to_string();
        if !text.ends_with(&told) {
            text = format!("{text}: {told}");
        }
        next = error.source();
    }
    text
}
