//! Tries a store with one record: whether each operation works, how long it takes, and whether the record expires.

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
/// By how much the two clocks may differ over [`A_WHILE`], for example by rounding.
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

    /// Runs the operations of a call and its duplicates, measures them, and removes the record.
    pub(super) async fn exercise(&self) -> Vec<Finding> {
        let findings = match self.run_operations().await {
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

    /// Reads the configuration of the store.
    pub(super) async fn examine(&self) -> Vec<Finding> {
        let examination = self.store.examine(&self.key, self.deadline);
        let longest = LONGEST_EXAMINATION.max(self.deadline);
        let findings = timeout(longest, examination).await.unwrap_or_else(|_| {
            let silent = format!("the store did not report its configuration within {longest:?}");
            vec![Finding::new(Level::Problem, silent)]
        });
        self.clean_up().await;
        findings
    }

    /// Runs the operations of a call and its duplicates. Returns how long the claims took.
    async fn run_operations(&self) -> Result<Vec<Duration>, Finding> {
        let (store, key) = (self.store, &*self.key);
        let mut took = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let claim = self
                .within_deadline("claim", store.claim(key, &CLAIM, TTL))
                .await?;
            took.push(begun.elapsed());
            check("claim a free key", &claim, &Claim::Claimed)?;
            let again = self
                .within_deadline("claim", store.claim(key, &CLAIM, TTL))
                .await?;
            check("claim an own key again", &again, &Claim::Claimed)?;
            let taken = self
                .within_deadline("claim", store.claim(key, &OTHER, TTL))
                .await?;
            check("claim a taken key", &taken, &Claim::Taken(CLAIM.clone()))?;
            let renewal = store.replace(key, &CLAIM, &CLAIM, TTL);
            check(
                "renew",
                &self.within_deadline("renew", renewal).await?,
                &Swap::Done,
            )?;
            let completion = store.replace_and_notify(key, &CLAIM, &DONE, TTL);
            let completion = self.within_deadline("complete", completion).await?;
            check("complete", &completion, &Swap::Done)?;
            let found = self.within_deadline("read", store.get(key)).await?;
            let found = found.map(|entry| entry.value);
            check("read what was recorded", &found, &Some(DONE.clone()))?;
            let other = self
                .within_deadline("remove", store.remove(key, &CLAIM))
                .await?;
            check(
                "remove another's record",
                &other,
                &Swap::Other(DONE.clone()),
            )?;
            let removal = store.remove_and_notify(key, &DONE);
            let removal = self.within_deadline("remove", removal).await?;
            check("remove", &removal, &Swap::Done)?;
        }
        Ok(took)
    }

    async fn within_deadline<T>(
        &self,
        what: &str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Finding> {
        let answer = timeout(self.deadline, answer).await.unwrap_or_else(|_| {
            let late = format!("did not answer within {:?}", self.deadline);
            Err(StoreError::new(StoreErrorKind::Unknown, late.clone()).reason(late))
        });
        answer.map_err(|error| {
            let advice = match error.kind() {
                StoreErrorKind::Full => "make room, or give the store more memory",
                StoreErrorKind::Misconfigured => {
                    "do what the error says, and check the credentials and permissions of the user that connects to the store"
                }
                StoreErrorKind::Unknown | StoreErrorKind::NotApplied => {
                    "check that the store runs, can be reached from this host, and accepts writes"
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
                .advise("use a store that is closer, or a longer `deadline` of the handle")
        }
    }

    /// Whether the clock of the store runs as fast as the clock of this host, measured by the remaining time of a record.
    async fn clock(&self) -> Finding {
        let look = async {
            let sent = Instant::now();
            let claim = self.store.claim(&self.key, &CLAIM, TTL);
            self.within_deadline("claim", claim).await?;
            let put = Instant::now();
            sleep(A_WHILE).await;
            let sent_again = Instant::now();
            let entry = self
                .within_deadline("read", self.store.get(&self.key))
                .await?;
            Ok((entry, sent_again - put, sent.elapsed()))
        };
        let (entry, least, most) = match look.await {
            Ok(look) => look,
            Err(finding) => return finding,
        };
        let Some(Entry {
            ttl: Some(remaining),
            ..
        }) = entry
        else {
            let found = "a record has expired too early, or never expires";
            let advice =
                "do not use this store, because a store must expire records by its own clock";
            return Finding::new(Level::Problem, found).advise(advice);
        };
        let passed = TTL.saturating_sub(remaining);
        if passed + TOLERANCE < least || passed > most + TOLERANCE || remaining > TTL {
            let found = format!(
                "a record has used {passed:?} of its time to live after {least:?} to {most:?} on this host: \
                 one of the two clocks jumps, or runs too fast or too slow"
            );
            return Finding::new(Level::Warning, found).advise(
                "check the time synchronisation of the host of the store, and of this host",
            );
        }
        Finding::new(
            Level::Fine,
            "the clock of the store is as fast as the clock of this host",
        )
    }

    async fn clean_up(&self) {
        for value in [&CLAIM, &DONE] {
            let removal = self.store.remove(&self.key, value);
            // If the removal fails, the record expires.
            let _ = timeout(self.deadline, removal).await;
        }
    }
}

fn check<T: PartialEq + fmt::Debug>(what: &str, answer: &T, expected: &T) -> Result<(), Finding> {
    if answer == expected {
        return Ok(());
    }
    let found = format!("cannot {what}: the store answered {answer:?} instead of {expected:?}");
    let advice =
        "do not use this store, and run the conformance suite of the feature `testkit` on it";
    Err(Finding::new(Level::Problem, found).advise(advice))
}

/// The error and its causes, each once.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        next = error.source();
    }
    text
}
