//! Whether a store is fit for what a handle does with it: tried out, measured, and asked.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};

use crate::handle::Idempotency;
use crate::handle::endpoints::{ONE_NAME_EACH, shared_names};
use crate::key::fingerprint::Keying;
use crate::key::kind::Kind;
use crate::store::{
    Claim, Durability, Entry, Finding, Level, Mechanism, Store, StoreError, StoreErrorKind, Swap,
};
use crate::world;

/// What [`Idempotency::doctor`] found.
///
/// [`Display`](fmt::Display) prints it for a person, one finding a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis(Vec<Finding>);

impl Diagnosis {
    /// All that was found, also what is as it should be.
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }

    /// How bad the worst of it is.
    pub fn worst(&self) -> Level {
        let levels = self.0.iter().map(Finding::level);
        levels.max().unwrap_or(Level::Fine)
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{:7}  {}", finding.level(), finding.found())?;
            if let Some(advice) = finding.advice() {
                write!(f, "\n{:7}  -> {advice}", "")?;
            }
        }
        Ok(())
    }
}

impl Idempotency {
    /// Tries out whether the store does what calls need of it, and asks it how it is set up.
    ///
    /// For an operator, at start-up or by hand: whether every operation works, how long it takes
    /// compared to the [deadline](crate::Builder::deadline), whether records expire as told, and what
    /// the store has to say of itself, such as missing permissions, eviction and persistence of a Redis. Functions of this
    /// program that have one `name` between them are a problem, too.
    ///
    /// Takes about half a second, some sixty round trips, and one key under the handle's prefix with a
    /// random name, which is removed again and ends after a minute by itself.
    ///
    /// What only seen-sets or Bloom filters need is noted, because the handle does not know whether you use them. Say so by
    /// [`doctor_for`](Self::doctor_for).
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use idempotence::store::Level;
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let diagnosis = idempotency.doctor().await;
    /// println!("{diagnosis}");
    /// assert!(diagnosis.worst() < Level::Problem);
    /// # }
    /// ```
    pub async fn doctor(&self) -> Diagnosis {
        let probe = Probe {
            store: self.store(),
            key: self.key_of(Kind::Doctor, format_args!("{:032x}", world::random_bits())),
            deadline: self.deadline(),
        };
        let mut findings = Vec::new();
        match probe.use_it().await {
            Ok(took) => {
                let works = "every operation works: claim, renew, complete, remove, read";
                findings.push(Finding::new(Level::Fine, works));
                findings.push(probe.latency(took));
                findings.push(probe.clock().await);
            }
            Err(finding) => findings.push(finding),
        }
        probe.clean_up().await;
        findings.extend(durability(probe.store.durability()));
        findings.push(digest(self.keying()));
        let examination = probe.store.examine(&probe.key, probe.deadline);
        let longest = LONGEST_EXAMINATION.max(probe.deadline);
        findings.extend(timeout(longest, examination).await.unwrap_or_else(|_| {
            let silent = format!("the store did not answer what it was asked within {longest:?}");
            vec![Finding::new(Level::Problem, silent)]
        }));
        probe.clean_up().await;
        findings.extend(shared_names().into_iter().map(|shared| {
            let shared = Finding::new(Level::Problem, shared);
            shared.advise(ONE_NAME_EACH)
        }));
        Diagnosis(findings)
    }
}

impl Idempotency {
    /// As [`doctor`](Self::doctor), for one who uses these mechanisms beside calls: what keeps one of them from
    /// working is a [`Problem`](Level::Problem), and what only others need is not told.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use idempotence::store::{Level, Mechanism};
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let diagnosis = idempotency.doctor_for([Mechanism::SeenSets]).await;
    /// assert!(diagnosis.worst() < Level::Problem, "{diagnosis}");
    /// # }
    /// ```
    pub async fn doctor_for(&self, used: impl IntoIterator<Item = Mechanism>) -> Diagnosis {
        let used: Vec<_> = used.into_iter().collect();
        let Diagnosis(findings) = self.doctor().await;
        let findings = findings.into_iter();
        Diagnosis(
            findings
                .filter_map(|finding| finding.for_users_of(&used))
                .collect(),
        )
    }
}

/// A record of nobody's.
struct Probe<'a> {
    store: &'a dyn Store,
    key: String,
    deadline: Duration,
}

static CLAIM: Bytes = Bytes::from_static(b"claim of the doctor");
static OTHER: Bytes = Bytes::from_static(b"claim of another doctor");
static DONE: Bytes = Bytes::from_static(b"done by the doctor");
const TTL: Duration = Duration::from_mins(1);
const ROUNDS: usize = 5;
const LONGEST_EXAMINATION: Duration = Duration::from_secs(5);

impl Probe<'_> {
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
            let completion = store.replace_and_tell(key, &CLAIM, &DONE, TTL);
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
            let removal = store.remove_and_tell(key, &DONE);
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
        // The first try of a call gets a quarter of it.
        if median < *deadline / 4 {
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

const A_WHILE: Duration = Duration::from_millis(300);
/// What the two clocks may differ by in a while, as by rounding.
const TOLERANCE: Duration = Duration::from_millis(20);

fn right<T: PartialEq + fmt::Debug>(what: &str, answer: &T, expected: &T) -> Result<(), Finding> {
    if answer == expected {
        return Ok(());
    }
    let found = format!("to {what} was answered with {answer:?} instead of {expected:?}");
    let advice = "do not use this store: run the conformance suite of the feature `testkit` on it";
    Err(Finding::new(Level::Problem, found).advise(advice))
}

fn durability(durability: Durability) -> Option<Finding> {
    let what = match durability {
        // Said by the store itself if it is so: this is also what a store says that says nothing.
        Durability::Process => return None,
        Durability::Server => {
            "a restart or a fail-over of the server may forget the latest records"
        }
        Durability::Fsync => "records are on disk before they count",
        Durability::Replicated { .. } => "records are in the replicas before they count",
        Durability::Sql => "records are committed before they count",
    };
    Some(Finding::new(
        Level::Fine,
        format!("durability is {durability}: {what}"),
    ))
}

fn digest(keying: &Keying) -> Finding {
    let (name, can_collide) = keying.strength();
    let found = format!("keys are made by {name}");
    if !can_collide {
        return Finding::new(Level::Fine, found);
    }
    Finding::new(Level::Note, found).advise(
        "say `.digest(Digest::Sha256)` if somebody who chooses arguments gains from two calls with one key",
    )
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
